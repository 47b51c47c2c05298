"""Files that live in memory, or in a folder on the disk for a whole program.

An error is an OSError with the message `path: why`, and changes nothing. Every listing is sorted.
"""

import copy
import fnmatch
import posixpath
import shutil
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from pathlib import Path

from simloop.escape import escape

ROOT = "."


def normalise(path: str) -> str:
    """Return the path relative to the root, without empty parts, `.` and `..`.

    The root itself is `.`; a slash at either end is left out. Raises OSError for an empty path
    and one that leads out of the tree.
    """
    if not path:
        raise FileNotFoundError(_message(path, "the path is empty"))
    name = posixpath.normpath(f"./{path}")
    if f"{name}/".startswith("../"):
        raise PermissionError(_message(path, "leads above the root"))
    return name


class Files:
    """A tree of text files. A folder is there once something was put in it, and then it stays.

    Raises OSError for texts whose paths do not fit in one tree.
    """

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        self._tree: MutableMapping[str, str | None] = {ROOT: None}  # None is a folder
        self._here = ROOT
        self._root = ""
        for path, text in (texts or {}).items():
            self.write(path, text)

    def at(self, path: str) -> "Files":
        """Return these files as they are seen from a folder: relative paths begin there."""
        self._check_folder(path)
        seen = copy.copy(self)
        seen._here = self._name(path)  # noqa: SLF001 - of this class
        return seen

    @property
    def here(self) -> str:
        return "/" if self._here == ROOT else f"/{self._here}"

    def keep_in(self, folder: Path) -> None:
        """Put the files into a folder on the disk, and work on those that are there from now on."""
        tree, self._root = self._tree, str(folder)
        self._tree = _OnDisk(folder, tree)
        for name in sorted(tree):
            self._tree[name] = tree[name]

    def _name(self, path: str) -> str:
        if self._root and f"{path}/".startswith(f"{self._root}/"):
            path = f"/{path.removeprefix(self._root)}"
        is_below = self._here != ROOT and path[:1] not in {"/", ""}
        return normalise(f"{self._here}/{path}" if is_below else path)

    def _find(self, path: str) -> str | None:
        """Return the text of a file, or None for a folder. Raises OSError if neither is there."""
        if (name := self._name(path)) not in self._tree:
            raise self._missing(path, _above(name))
        return self._tree[name]

    def _check_folder(self, path: str) -> None:
        if self._find(path) is not None:
            raise NotADirectoryError(_message(path, "is a file"))

    def read(self, path: str) -> str:
        if (text := self._find(path)) is None:
            raise IsADirectoryError(_message(path, "is a folder"))
        return text

    def write(self, path: str, text: str, *, parents: bool = True) -> None:
        """Replace the text of a file. Without `parents` the folder must exist."""
        name = self._name(path)
        if self._tree.get(name, "") is None:
            raise IsADirectoryError(_message(path, "is a folder"))
        self._make_room(path, name, parents=parents)
        self._tree[name] = text

    def append(self, path: str, text: str) -> None:
        """Append to a file, or create it; the folder must exist."""
        self.write(path, (self.read(path) if self.exists(path) else "") + text, parents=False)

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace the only occurrence of `old`. Raises ValueError unless there is exactly one."""
        text = self.read(path)
        start = text.find(old)
        if not old or start < 0:
            raise ValueError(_message(path, "the old text is not in it" if old else "no old text"))
        if text.find(old, start + 1) >= 0:
            raise ValueError(_message(path, "the old text is in it more than once"))
        self.write(path, text[:start] + new + text[start + len(old) :])

    def mkdir(self, path: str, *, parents: bool = False) -> None:
        """Make a folder. With `parents`, make those above it too, and accept an existing one."""
        if (name := self._name(path)) in self._tree and not (parents and self._tree[name] is None):
            raise FileExistsError(_message(path, "is there already"))
        self._make_room(path, name, parents=parents)
        self._tree[name] = None

    def list_folder(self, path: str = ROOT) -> list[str]:
        """Return the sorted names in a folder; names of folders end in a slash."""
        self._check_folder(path)
        folder = self._name(path)
        inside = (name for name in self._names() if _above(name)[-1] == folder)
        return [name.rpartition("/")[2] + "/" * (self._tree[name] is None) for name in inside]

    def exists(self, path: str) -> bool:
        """Return whether a file or a folder exists there; False for a path out of the tree."""
        try:
            return self._name(path) in self._tree
        except OSError:
            return False

    def is_folder(self, path: str) -> bool:
        return self.exists(path) and self._tree[self._name(path)] is None

    def size(self, path: str) -> int:
        return len(self.read(path).encode())

    def remove(self, path: str, *, tree: bool = False) -> None:
        """Remove a file; with `tree` also a folder and all that is in it."""
        if (name := self._name(path)) == ROOT:
            raise PermissionError(_message(path, "the root cannot be removed"))
        if self._find(path) is None and not tree:
            raise IsADirectoryError(_message(path, "is a folder"))
        for other in reversed(self._names()):  # what is in a folder before the folder
            if f"{other}/".startswith(f"{name}/"):
                del self._tree[other]

    def glob(self, pattern: str) -> list[str]:
        """Return the sorted matches; `*` stays in one part, and a dot at its start is written."""
        parts = self._name(pattern).split("/")
        found = [name for name in self._names() if _matches(name.split("/"), parts)]
        is_below = self._here != ROOT and pattern[:1] != "/"
        return [name.removeprefix(f"{self._here}/") for name in found] if is_below else found

    def snapshot(self) -> dict[str, str]:
        return {name: text for name, text in sorted(self._tree.items()) if text is not None}

    def _names(self) -> list[str]:
        return sorted(name for name in self._tree if name != ROOT)

    def _make_room(self, path: str, name: str, *, parents: bool) -> None:
        """Make the folders above a new file or folder. Raises OSError if a file is in the way."""
        above = _above(name)
        there = parents or above[-1] in self._tree
        if not there or any(self._tree.get(folder) is not None for folder in above):
            raise self._missing(path, above)
        for folder in above:
            self._tree[folder] = None

    def _missing(self, path: str, above: Iterable[str]) -> OSError:
        if any(self._tree.get(folder) is not None for folder in above):
            return NotADirectoryError(_message(path, "a part of the path is a file"))
        return FileNotFoundError(_message(path, "no such file or folder"))


class _OnDisk(MutableMapping[str, str | None]):
    """The tree below a folder on the disk; hidden names only if they are among those given."""

    def __init__(self, folder: Path, given: Iterable[str]) -> None:
        self._folder = folder
        self._given = frozenset(given)

    def __getitem__(self, name: str) -> str | None:
        path = self._folder / name
        if path.is_dir():
            return None
        try:
            if path.is_file():
                return path.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise KeyError(name) from error
        raise KeyError(name)

    def __setitem__(self, name: str, text: str | None) -> None:
        path = self._folder / name
        if text is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.write_text(text, "utf-8", newline="")

    def __delitem__(self, name: str) -> None:
        path = self._folder / name
        if self[name] is None:
            shutil.rmtree(path)
        else:
            path.unlink()

    def __iter__(self) -> Iterator[str]:
        yield ROOT
        for path in self._folder.rglob("*"):
            name = path.relative_to(self._folder).as_posix()
            if (name in self._given or "/." not in f"/{name}") and name in self:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)  # a list would ask for the length first


def _message(path: str, why: str) -> str:
    return f"{escape(path, 100) or repr(path)}: {why}"


def _above(name: str) -> list[str]:
    parts = name.split("/")
    return [ROOT, *("/".join(parts[:count]) for count in range(1, len(parts)))]


def _matches(parts: list[str], patterns: list[str]) -> bool:
    return len(parts) == len(patterns) and all(
        fnmatch.fnmatchcase(part, pattern) and (part[0] != "." or pattern[0] == ".")
        for part, pattern in zip(parts, patterns, strict=True)
    )
