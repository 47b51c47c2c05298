"""Files in memory: one tree, paths written in one way, errors as a file system words them."""

import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from incases import in_cases
from toolcalling import answer, results

from simloop import Reply, Scenario, Tool, ToolResult, run
from simloop.world.file_tools import file_tools
from simloop.world.files import Files, normalise
from simloop.world.tools import canonical_json, wrong_arguments

letters = st.text("ab.", min_size=1, max_size=3)
paths = st.lists(letters | st.just(".."), min_size=1, max_size=4).map("/".join)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
anything = st.text(max_size=12) | st.text("ab./\0\ud800*?[]!-", max_size=12)

SOURCES = {"src/b.ts": "b\n", "src/a.ts": "a\n", "src/lib/c.ts": "", "README.md": "hi", ".env": "k"}


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
        do(Files(SOURCES), path)
    assert type(caught.value) is error


@pytest.mark.parametrize("path", ["", "..", "missing"])
def test_there_is_nothing_at_what_is_no_path(path: str) -> None:
    assert not Files(SOURCES).exists(path)
    assert not Files(SOURCES).is_folder(path)


# ------------------------------------------------------------------------- reading and writing


@given(paths, texts)
def test_one_file_has_one_path_however_it_is_written(path: str, text: str) -> None:
    files = written(path, text)
    assert files is None or files.snapshot() == {normalise(path): text}


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
    files = Files(SOURCES)
    before = files.snapshot(), files.list_folder()
    with pytest.raises(error, match=f"^{re.escape(message)}$") as caught:
        do(files)
    assert caught.value.errno is None
    assert (files.snapshot(), files.list_folder()) == before


def test_a_snapshot_is_sorted_and_a_copy() -> None:
    files = Files(SOURCES)
    snapshot = files.snapshot()
    assert list(snapshot) == sorted(SOURCES)
    snapshot.clear()
    assert files.snapshot() == SOURCES


@pytest.mark.parametrize(
    ("tree", "error"),
    [
        ({"a": "", "a/b": ""}, NotADirectoryError),
        ({"a/b": "", "a": ""}, IsADirectoryError),
        ({"": ""}, FileNotFoundError),
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
    assert Files(SOURCES).list_folder("src") == ["a.ts", "b.ts", "lib/"]


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
    assert Files(SOURCES).glob(pattern) == found


@given(anything)
def test_any_pattern_finds_only_what_is_there(pattern: str) -> None:
    files = Files(SOURCES)
    try:
        found = files.glob(pattern)
    except OSError:
        return
    assert all(files.exists(name) for name in found)
    assert found == sorted(found)


# ------------------------------------------------------------------------- size

TREE = {
    "README.md": "# hi\n",
    "src/chat.ts": "one\ntwo\nthree\n",
    "src/index.ts": "one\n",
    ".env": "KEY\n",
}


def tool(name: str, files: Files | None = None) -> Tool:
    return file_tools(files or Files(TREE))[name]


def call(name: str, files: Files, **arguments: Any) -> ToolResult:
    result = tool(name, files).function.function(**arguments)
    assert isinstance(result, ToolResult)
    return result


def shell(command: str, files: Files | None = None) -> ToolResult:
    """What the shell gives for a command that takes no time: it must not even let others run."""
    coroutine = tool("RunShellCommand", files).function.function(command=command)
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    result = ended.value.value
    assert isinstance(result, ToolResult)
    return result


NAMES = ["RunShellCommand", "ReadFile", "ReadFolder", "WriteFile", "EditFile"]

texts_tools = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


# ------------------------------------------------------------------------- the tools


def test_only_the_shell_takes_time_and_it_has_the_timeout_of_the_document() -> None:
    tools = file_tools(Files())
    assert [name for name in NAMES if tools[name].function.is_async] == ["RunShellCommand"]
    timeouts = [tools[name].timeout_ms for name in NAMES]
    assert timeouts == [30_000, None, None, None, None]


@pytest.mark.parametrize(
    ("name", "needed"),
    [("RunShellCommand", ["command"]), ("ReadFile", ["path"]), ("ReadFolder", []),
     ("WriteFile", ["path", "content"]), ("EditFile", ["path", "old", "new"])],
)  # fmt: skip
def test_each_tool_takes_its_texts_and_nothing_else(name: str, needed: list[str]) -> None:
    right = dict.fromkeys(needed, "x")
    assert wrong_arguments(tool(name), right) == []
    assert wrong_arguments(tool(name), {**right, "mode": "r"}) == ["arguments: not known: mode"]
    for argument in needed:
        assert wrong_arguments(tool(name), {**right, argument: 1}) != []
        rest = {other: "x" for other in needed if other != argument}
        assert wrong_arguments(tool(name), rest) == [f"arguments: {argument} is missing"]


# ------------------------------------------------------------------------- files and folders


def test_a_file_is_read_whole() -> None:
    expected = ToolResult("# hi\n", details={"path": "README.md", "bytes": 5})
    assert call("ReadFile", Files(TREE), path="./README.md") == expected


def test_without_a_path_the_root_is_read() -> None:
    assert call("ReadFolder", Files(TREE)).text == ".env\nREADME.md\nsrc/"


def test_a_folder_is_read_as_its_names() -> None:
    details = {"path": "src", "names": ["chat.ts", "index.ts"]}
    expected = ToolResult("chat.ts\nindex.ts", details=details)
    assert call("ReadFolder", Files(TREE), path="src/") == expected


@given(texts_tools)
def test_what_one_tool_writes_another_reads(content: str) -> None:
    files = Files()
    details = {"path": "a/b", "bytes": len(content.encode())}
    expected = ToolResult("wrote a/b", details=details)
    assert call("WriteFile", files, path="/a/b", content=content) == expected
    assert call("ReadFile", files, path="a/b").text == content


def test_an_edit_changes_the_file() -> None:
    files = Files(TREE)
    result = call("EditFile", files, path="README.md", old="hi", new="hello")
    assert result == ToolResult("edited README.md", details={"path": "README.md", "bytes": 8})
    assert files.read("README.md") == "# hello\n"


# ------------------------------------------------------------------------- the shell: commands


@in_cases(
    [
        ("echo a  'b  c'", "a b  c\n"),
        ("echo -n", "-n\n"),
        ("cat README.md src/index.ts", "# hi\none\n"),
        ("ls", "README.md\nsrc/\n"),
        ("ls -a", ".env\nREADME.md\nsrc/\n"),
        ("ls -l src", "      14 chat.ts\n       4 index.ts\n"),
        ("ls -la", "       4 .env\n       5 README.md\n       - src/\n"),
        ("ls -l -a README.md", "       5 README.md\n"),
        ("ls src src/chat.ts", "src:\nchat.ts\nindex.ts\nsrc/chat.ts\n"),
        ("wc -l README.md", "1 README.md\n"),
        ("wc -l src/*.ts", "3 src/chat.ts\n1 src/index.ts\n4 total\n"),
        ("mkdir -p a/b && mkdir a/c && ls a", "b/\nc/\n"),
        ("rm README.md && rm -r src && ls -a", ".env\n"),
        ("grep t src/chat.ts", "two\nthree\n"),
        ("grep '' src/index.ts", "one\n"),
        ("", ""),
    ]
)
def test_a_command_says_what_a_shell_would(command: str, text: str) -> None:
    assert shell(command) == ToolResult(text, details={"exit_code": 0})


@in_cases(
    [
        ("frob -x", "frob: command not found\n", 127),
        ("cat no README.md", "# hi\ncat: no: no such file or folder\n", 1),
        ("cat src", "cat: src: is a folder\n", 1),
        ("cat ../x", "cat: ../x: leads above the root\n", 1),
        ("ls no", "ls: no: no such file or folder\n", 1),
        ("ls -R", "ls: option -R is not known\n", 2),
        ("ls --all", "ls: option -- is not known\n", 2),
        ("rm -- README.md", "rm: option -- is not known\n", 2),
        ("ls src/*.py", "ls: src/*.py: no such file or folder\n", 1),
        ("ls ../*", "sh: ../*: leads above the root\n", 1),
        ("cat", "cat: an operand is missing\n", 2),
        ("wc README.md", "wc: only wc -l is known\n", 2),
        ("wc -l no README.md", "1 README.md\n1 total\nwc: no: no such file or folder\n", 1),
        ("ls src no", "src:\nchat.ts\nindex.ts\nls: no: no such file or folder\n", 1),
        ("grep zzz README.md", "", 1),
        ("grep hi no README.md", "README.md:# hi\ngrep: no: no such file or folder\n", 2),
        ("grep '^#' README.md", "grep: patterns are not known, only texts\n", 2),
        ("grep h. README.md", "grep: patterns are not known, only texts\n", 2),
        ("grep hi", "grep: an operand is missing\n", 2),
        ("mkdir src", "mkdir: src: is there already\n", 1),
        ("mkdir a/b", "mkdir: a/b: no such file or folder\n", 1),
        ("touch a/b", "touch: a/b: no such file or folder\n", 1),
        ("rm src", "rm: src: is a folder\n", 1),
        ("rm -r /", "rm: /: the root cannot be removed\n", 1),
        ("echo a > no/b", "sh: no/b: no such file or folder\n", 1),
        ("echo a > src", "sh: src: is a folder\n", 1),
        ("sleep", "sleep: takes a number of seconds\n", 2),
        ("sleep 1e9", "sleep: takes a number of seconds\n", 2),
        ("sleep inf", "sleep: takes a number of seconds\n", 2),
    ]
)
def test_a_command_that_fails_says_why_and_reports_its_exit_code(
    command: str, text: str, code: int
) -> None:
    expected = ToolResult(f"{text}exit code {code}", is_error=True, details={"exit_code": code})
    files = Files(TREE)
    assert shell(command, files) == expected
    assert files.snapshot() == TREE


def test_the_exit_code_stands_on_a_line_of_its_own() -> None:
    shown = shell("cat a; grep x a", Files({"a": "no end of line"}))
    assert shown.text == "no end of line\nexit code 1"


def test_touching_makes_an_empty_file_and_changes_no_other() -> None:
    files = Files(TREE)
    assert shell("touch new README.md src", files).text == ""
    assert files.snapshot() == {**TREE, "new": ""}


# ------------------------------------------------------------------------- in a run


def test_sleeping_takes_virtual_time() -> None:
    reply = Reply(call={"RunShellCommand": {"command": "sleep 29.5 && echo up"}})
    result = answer(reply, tool("RunShellCommand"))
    assert ([message.text for message in results(result)], result.elapsed_s) == (["up\n"], 29.5)


def test_a_command_of_more_than_thirty_seconds_is_cut_off_and_what_it_did_stays() -> None:
    files = Files()
    reply = Reply(call={"RunShellCommand": {"command": "touch a; sleep 31; touch b"}})
    result = answer(reply, tool("RunShellCommand", files))
    assert [message.text for message in results(result)] == ["Error: timed out after 30000 ms"]
    assert (result.elapsed_s, files.snapshot()) == (30, {"a": ""})


def test_a_whole_run_works_on_one_set_of_files() -> None:
    calls: list[dict[str, Any]] = [
        {"RunShellCommand": {"command": "ls -la && wc -l src/*.ts"}},
        {"ReadFolder": {}},
        {"EditFile": {"path": "src/index.ts", "old": "one", "new": "1"}},
        {"WriteFile": {"path": "docs/notes.md", "content": "3 lines"}},
        {"ReadFile": {"path": "docs/notes.md"}},
    ]
    model = [*(Reply(call=one) for one in calls), Reply(say="4 lines.")]
    files = Files(TREE)
    result = run(Scenario(prompt="Count.", model=model), tools=file_tools(files))
    told = [message.text.splitlines()[-1] for message in results(result)]
    assert told == ["4 total", "src/", "edited src/index.ts", "wrote docs/notes.md", "3 lines"]
    assert files.snapshot() == {**TREE, "src/index.ts": "1\n", "docs/notes.md": "3 lines"}
    assert (result.text, result.elapsed_ns) == ("4 lines.", 0)


words = st.sampled_from(
    ["ls", "cat", "rm", "-r", "grep", "wc", "-l", "echo", "touch", "mkdir", "-p", "a", "src/*", "*",
     "src", "no", "&&", ";", ">", ">>", "|", "'", '"', "\\", "[", "$x", "`", "#", "2>", "\n", "..",
     "\ud800", "\0", "é"]
)  # fmt: skip
commands = st.text(max_size=15) | st.lists(words, max_size=8).map(" ".join)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo a && echo b", "a\nb\n"),
        ("echo a;echo b;", "a\nb\n"),
        ("echo a\n\n  echo b\n", "a\nb\n"),
        ("echo a &&\n echo b", "a\nb\n"),
        ("echo a \\\n b", "a b\n"),
        ("frob && echo a ; pwd", "frob: command not found\n/\n"),
        ("frob; pwd", "frob: command not found\n/\n"),
    ],
)
def test_commands_are_joined(command: str, text: str) -> None:
    assert shell(command).text == text


def test_after_a_failure_nothing_joined_to_it_is_done() -> None:
    files = Files(TREE)
    text = shell("cat no && rm README.md && rm .env", files).text
    assert text == "cat: no: no such file or folder\nexit code 1"
    assert files.snapshot() == TREE


def test_output_is_sent_to_a_file_or_to_its_end() -> None:
    files = Files()
    assert shell("echo a > 'x y' && echo b>>'x y'; echo c >> z", files).text == ""
    assert files.snapshot() == {"x y": "a\nb\n", "z": "c\n"}
    assert shell("echo d > z && cat z", files).text == "d\n"


def test_a_command_is_not_run_if_its_output_cannot_be_sent() -> None:
    files = Files(TREE)
    for command in ("rm README.md > no/log", "rm README.md >> src"):
        assert shell(command, files).is_error
    assert files.snapshot() == TREE


def test_a_command_sees_the_file_that_its_output_goes_to() -> None:
    files = Files({"a": "one\n"})
    shell("ls > list; cat a > a; cat a list", files)
    assert files.snapshot() == {"a": "", "list": "a\nlist\n"}


def test_what_went_wrong_is_said_and_not_sent_to_the_file() -> None:
    files = Files(TREE)
    assert shell("cat README.md no > out", files).text.startswith("cat: no: no such file")
    assert files.read("out") == "# hi\n"


@in_cases(
    [
        ("cat 'a", "this shell cannot read 'a"),
        ('echo "a', 'this shell cannot read "a'),
        ("echo a\\", "this shell cannot read \\"),
        ("ls &", "this shell has no &"),
        ("ls 2>log", "this shell cannot read 2>log"),
        ("ls |", "| has nothing after it"),
        ("cat <<EOF\na\n", "this shell cannot read <<EOF"),
        ("cat <<EOF\n$a\nEOF\n", "this shell cannot read <<EOF"),
        ("(ls)", "this shell has no ("),
        ("cat < a", "this shell has no <"),
        ("ls # all", "this shell cannot read # all"),
        ("ls;;ls", "this shell has no ;;"),
        ("echo $HOME", "this shell cannot read $HOME"),
        ('echo "a $(ls)"', 'this shell cannot read "a $(ls)"'),
        ('echo "\\$x"', 'this shell cannot read "\\$x"'),
        ("echo `ls`", "this shell cannot read `ls`"),
        ("if ls no\nthen\nrm README.md\nfi", "this shell has no if"),
        ("while ls no; do\nrm README.md\ndone", "this shell has no while"),
        ("ls && exit; rm README.md", "this shell has no exit"),
        ("&& ls", "&& has nothing before it"),
        ("ls ; && ls", "&& has nothing before it"),
        ("ls &&", "&& has nothing after it"),
        ("echo a >", "> and >> stand between a command and one path"),
        ("echo > a b", "> and >> stand between a command and one path"),
        ("> a", "> and >> stand between a command and one path"),
    ]
)
def test_what_the_shell_does_not_know_is_refused_before_anything_is_done(
    command: str, why: str
) -> None:
    files = Files(TREE)
    text = f"syntax error: {why}\nexit code 2"
    expected = ToolResult(text, is_error=True, details={"exit_code": 2})
    assert shell(command, files) == expected
    if not command.startswith("&&"):
        assert shell(f"rm README.md; {command}", files) == expected
    assert files.snapshot() == TREE


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo 'a && b' \"c > d\" e\\;f", "a && b c > d e;f\n"),
        ("echo '$HOME' '`' \\$x", "$HOME ` $x\n"),
        ("echo '*' \"*\" \\* a#b", "* * * a#b\n"),
        ("echo *", "README.md src\n"),
        ("echo 's'*", "s*\n"),
        ("echo no*", "no*\n"),
        ("echo 'a\n\nb'", "a\n\nb\n"),
        ("echo ''", "\n"),
    ],
)
def test_quotes_take_their_meaning_from_special_characters(command: str, text: str) -> None:
    assert shell(command).text == text


@given(texts_tools)
def test_a_quoted_text_is_one_word_as_it_stands(text: str) -> None:
    assert shell(f"echo {shlex.quote(text)}").text == f"{text}\n"


@given(commands)
def test_no_command_raises_and_the_same_one_gives_the_same(command: str) -> None:
    first, second = Files(TREE), Files(TREE)
    result = shell(command, first)
    assert result == shell(command, second)
    assert first.snapshot() == second.snapshot()
    assert result.is_error is (result.details != {"exit_code": 0})
    canonical_json(result.details)
