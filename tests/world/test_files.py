"""Files in memory: one tree, paths written in one way, errors as a file system words them."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from incases import in_cases

from simloop.world.files import Files, normalise

letters = st.text("ab.", min_size=1, max_size=3)
paths = st.lists(letters | st.just(".."), min_size=1, max_size=4).map("/".join)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
anything = st.text(max_size=12) | st.text("ab./\0\ud800*?[]!-", max_size=12)

TREE = {"src/b.ts": "b\n", "src/a.ts": "a\n", "src/lib/c.ts": "", "README.md": "hi", ".env": "k"}


def written(path: str, text: str = "") -> Files | None:
    """Files with that one file, or None if there can be none of that path."""
    files = Files()
    try:
        files.write(path, text)
    except OSError:
        return None
    return files


# ------------------------------------------------------------------------- paths


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("a", "a"),
        ("./a", "a"),
        ("a//b", "a/b"),
        ("a/../b", "b"),
        ("a/./b/", "a/b"),
        ("/a/b", "a/b"),
        ("/", "."),
        (".", "."),
        ("a/..", "."),
        ("..a/...", "..a/..."),
        ("a\\b", "a\\b"),
    ],
)
def test_a_path_is_written_in_one_way(path: str, normal: str) -> None:
    assert normalise(path) == normal


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("", FileNotFoundError, "'': the path is empty"),
        ("a\0b", OSError, "a\\x00b: a path cannot hold NUL"),
        ("a\ud800", OSError, "a\\ud800: the path cannot be written as UTF-8"),
        ("..", PermissionError, "..: leads above the root"),
        ("a/../../b", PermissionError, "a/../../b: leads above the root"),
        ("/../etc", PermissionError, "/../etc: leads above the root"),
    ],
)
@pytest.mark.parametrize(
    "do",
    [
        Files.read,
        lambda files, path: files.write(path, ""),
        Files.list_folder,
        Files.mkdir,
        Files.remove,
        Files.glob,
    ],
)
def test_what_is_no_path_is_a_clear_error(
    do: Callable[[Files, str], Any], path: str, error: type[OSError], message: str
) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}$") as caught:
        do(Files(TREE), path)
    assert type(caught.value) is error


def test_a_path_that_is_too_long_is_refused_with_a_short_error() -> None:
    with pytest.raises(OSError, match=r"…: the path is longer than 4096 characters$") as caught:
        normalise("a" * 4_097)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("path", ["", "\0", "..", "\ud800", "a" * 10_000, "missing"])
def test_there_is_nothing_at_what_is_no_path(path: str) -> None:
    assert not Files(TREE).exists(path)
    assert not Files(TREE).is_folder(path)


# ------------------------------------------------------------------------- reading and writing


@given(paths, texts)
def test_one_file_has_one_path_however_it_is_written(path: str, text: str) -> None:
    files = written(path, text)
    assert files is None or files.snapshot() == {normalise(path): text}


def test_a_text_that_is_no_utf_8_is_refused_and_nothing_is_written() -> None:
    files = Files()
    with pytest.raises(OSError, match=r"^a/b: the text cannot be written as UTF-8$"):
        files.write("a/b", "\ud800")
    assert not files.exists("a")


@pytest.mark.parametrize("write", [Files.append, lambda f, p, t: f.write(p, t, parents=False)])
def test_a_folder_that_must_be_there_is_not_made(write: Callable[[Files, str, str], None]) -> None:
    files = Files()
    with pytest.raises(FileNotFoundError, match=r"^no/a: no such file or folder$"):
        write(files, "no/a", "")
    assert files.list_folder() == []


@in_cases([
        (lambda f: f.read("no"), FileNotFoundError, "no: no such file or folder"),
        (lambda f: f.read("src/"), IsADirectoryError, "src/: is a folder"),
        (lambda f: f.read("./README.md/x"), NotADirectoryError,
         "./README.md/x: a part of the path is a file"),
        (lambda f: f.read("README.md/"), NotADirectoryError, "README.md/: is a file"),
        (lambda f: f.edit(".env/", "K", "k"), NotADirectoryError, ".env/: is a file"),
        (lambda f: f.remove("/.env/"), NotADirectoryError, "/.env/: is a file"),
        (lambda f: f.write("new/", ""), IsADirectoryError, "new/: is a folder"),
        (lambda f: f.append("./README.md/", "x"), NotADirectoryError,
         "./README.md/: is a file"),
        (lambda f: f.write("src", ""), IsADirectoryError, "src: is a folder"),
        (lambda f: f.write("/", ""), IsADirectoryError, "/: is a folder"),
        (lambda f: f.write(".env/a/b", ""), NotADirectoryError,
         ".env/a/b: a part of the path is a file"),
        (lambda f: f.append("src/lib", ""), IsADirectoryError, "src/lib: is a folder"),
        (lambda f: f.list_folder("README.md"), NotADirectoryError, "README.md: is a file"),
        (lambda f: f.list_folder("./no"), FileNotFoundError, "./no: no such file or folder"),
        (lambda f: f.mkdir("src"), FileExistsError, "src: is there already"),
        (lambda f: f.mkdir(".env", parents=True), FileExistsError, ".env: is there already"),
        (lambda f: f.mkdir("no/a"), FileNotFoundError, "no/a: no such file or folder"),
        (lambda f: f.mkdir(".env/a", parents=True), NotADirectoryError,
         ".env/a: a part of the path is a file"),
        (lambda f: f.remove("/no"), FileNotFoundError, "/no: no such file or folder"),
        (lambda f: f.remove("no/", tree=True), FileNotFoundError, "no/: no such file or folder"),
        (lambda f: f.remove("./src"), IsADirectoryError, "./src: is a folder"),
        (lambda f: f.remove("/", tree=True), PermissionError, "/: the root cannot be removed"),
    ])  # fmt: skip
def test_what_cannot_be_done_is_said_as_a_file_system_would_and_changes_nothing(
    do: Callable[[Files], Any], error: type[OSError], message: str
) -> None:
    files = Files(TREE)
    before = files.snapshot(), files.list_folder()
    with pytest.raises(error, match=f"^{re.escape(message)}$") as caught:
        do(files)
    assert caught.value.errno is None
    assert (files.snapshot(), files.list_folder()) == before


def test_a_snapshot_is_sorted_and_a_copy() -> None:
    files = Files(TREE)
    snapshot = files.snapshot()
    assert list(snapshot) == sorted(TREE)
    snapshot.clear()
    assert files.snapshot() == TREE


@pytest.mark.parametrize(
    ("tree", "error"),
    [
        ({"a": "", "a/b": ""}, NotADirectoryError),
        ({"a/b": "", "a": ""}, IsADirectoryError),
        ({"a": "", "./a": ""}, FileExistsError),
        ({"": ""}, FileNotFoundError),
        ({"empty/": ""}, IsADirectoryError),
    ],
)
def test_texts_that_do_not_fit_in_one_tree_are_refused(
    tree: dict[str, str], error: type[OSError]
) -> None:
    with pytest.raises(error):
        Files(tree)


# ------------------------------------------------------------------------- editing


@given(texts, texts, texts)
def test_an_edit_is_what_replacing_the_only_place_gives(before: str, old: str, after: str) -> None:
    text = before + old + after
    places = sum(text.startswith(old, at) for at in range(len(text)))
    files = Files({"a": text})
    try:
        files.edit("a", old, "NEW")
    except ValueError:
        assert places != 1 or not old
        assert files.read("a") == text
    else:
        assert places == 1
        assert files.read("a") == text.replace(old, "NEW")


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("x", "a: the old text is not in it"),
        ("an", "a: the old text is in it more than once"),
        ("ana", "a: the old text is in it more than once"),
        ("", "a: no old text"),
    ],
)
def test_an_edit_without_its_one_place_says_why_and_changes_nothing(old: str, message: str) -> None:
    files = Files({"a": "banana"})
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        files.edit("a", old, "o")
    assert files.read("a") == "banana"


# ------------------------------------------------------------------------- folders


def test_a_folder_stays_when_its_last_file_goes_and_may_be_made_again_with_its_parents() -> None:
    files = Files({"a/b": ""})
    files.remove("a/b")
    files.mkdir("a", parents=True)
    assert (files.list_folder(), files.list_folder("a"), files.snapshot()) == (["a/"], [], {})


def test_a_folder_is_listed_sorted_with_a_slash_after_folders() -> None:
    assert Files(TREE).list_folder("src") == ["a.ts", "b.ts", "lib/"]


def test_a_tree_is_removed_with_all_that_is_in_it_and_nothing_else() -> None:
    files = Files({"a/b/c": "", "a/d": "", "ab": "", "a.b/c": ""})
    files.remove("a", tree=True)
    assert files.list_folder() == ["a.b/", "ab"]
    assert list(files.snapshot()) == ["a.b/c", "ab"]


# ------------------------------------------------------------------------- wildcards


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("src/*.ts", ["src/a.ts", "src/b.ts"]),
        ("./src//?.ts", ["src/a.ts", "src/b.ts"]),
        ("/src/[!a].ts", ["src/b.ts"]),
        ("*", ["README.md", "src"]),
        (".*", [".env"]),
        ("*/*/*", ["src/lib/c.ts"]),
        ("*.TS", []),
        ("src/a.ts", ["src/a.ts"]),
    ],
)
def test_a_pattern_finds_what_matches_sorted(pattern: str, found: list[str]) -> None:
    assert Files(TREE).glob(pattern) == found


@given(anything)
def test_any_pattern_finds_only_what_is_there(pattern: str) -> None:
    files = Files(TREE)
    try:
        found = files.glob(pattern)
    except OSError:
        return
    assert all(files.exists(name) for name in found)
    assert found == sorted(found)


# ------------------------------------------------------------------------- size


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Files:
    """Files on a disk for ten characters, of which four are taken."""
    monkeypatch.setattr("simloop.world.files.MAX_CHARS", 10)
    return Files({"a": "four"})


def test_a_file_that_finds_no_room_is_refused_and_changes_nothing(small: Files) -> None:
    small.write("b", "sixsix")
    with pytest.raises(OSError, match="no space left on device"):
        small.append("a", "!")
    with pytest.raises(OSError, match="no space left on device"):
        small.write("c/d", "!")
    assert small.snapshot() == {"a": "four", "b": "sixsix"}
    assert not small.exists("c")


def test_what_is_replaced_or_removed_makes_room(small: Files) -> None:
    small.write("a", "tenletters")
    small.write("a", "ten")
    small.write("b", "sevenxx")
    small.remove("b")
    small.write("c", "sevenxx")
    assert small.snapshot() == {"a": "ten", "c": "sevenxx"}
