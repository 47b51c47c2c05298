"""Files that live in memory, or in a folder on the disk for a whole program.

An error is an OSError with the message `path: why`, and changes nothing. Every listing is sorted.
"""

import copy
import fnmatch
import shutil
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, MutableSet
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
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and not parts:
            raise PermissionError(_message(path, "leads above the root"))
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts) or ROOT


class Files:
    """A tree of text files. A folder is there once something was put in it, and then it stays.

    Raises OSError for texts whose paths do not fit in one tree.
    """

    def __init__(self, texts: Mapping[str, str] | None = None) -> None:
        self._texts: MutableMapping[str, str] = {}
        self._folders: MutableSet[str] = {ROOT}
        self._here = ROOT
        self._root = ""
        for path, text in (texts or {}).items():
            self.write(path, text)

    def at(self, path: str) -> "Files":
        """Return these files as they are seen from a folder: relative paths begin there."""
        if not self.is_folder(path):
            if self.exists(path):
                raise NotADirectoryError(_message(path, "is a file"))
            raise self._no_file(path)
        seen = copy.copy(self)
        seen._here = self._name(path)  # noqa: SLF001 - of this class
        return seen

    @property
    def here(self) -> str:
        return "/" if self._here == ROOT else f"/{self._here}"

    def keep_in(self, folder: Path) -> None:
        """Put the files into a folder on the disk, and work on those that are there from now on."""
        texts, folders, self._root = self._texts, self._folders, str(folder)
        self._texts, self._folders = _TextsOnDisk(folder, texts), _FoldersOnDisk(folder)
        for name in sorted(folders):
            self._folders.add(name)
        for name, text in texts.items():
            self._texts[name] = text

    def _name(self, path: str) -> str:
        if self._root and f"{path}/".startswith(f"{self._root}/"):
            path = f"/{path.removeprefix(self._root)}"
        is_below = self._here != ROOT and path[:1] not in {"/", ""}
        return normalise(f"{self._here}/{path}" if is_below else path)

    def read(self, path: str) -> str:
        name = self._name(path)
        if name not in self._texts:
            raise self._no_file(path)
        return self._texts[name]

    def write(self, path: str, text: str, *, parents: bool = True) -> None:
        """Replace the text of a file. Without `parents` the folder must exist."""
        name = self._name(path)
        if name in self._folders:
            raise IsADirectoryError(_message(path, "is a folder"))
        self._make_room(path, name, parents=parents)
        self._texts[name] = text

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
        name = self._name(path)
        if name in self._texts or (name in self._folders and not parents):
            raise FileExistsError(_message(path, "is there already"))
        self._make_room(path, name, parents=parents)
        self._folders.add(name)

    def list_folder(self, path: str = ROOT) -> list[str]:
        """Return the sorted names in a folder; names of folders end in a slash."""
        folder = self._name(path)
        if folder in self._texts:
            raise NotADirectoryError(_message(path, "is a file"))
        if folder not in self._folders:
            raise self._no_file(path)
        return [
            name.rpartition("/")[2] + ("/" if name in self._folders else "")
            for name in self._names()
            if _folder_of(name) == folder
        ]

    def exists(self, path: str) -> bool:
        """Return whether a file or a folder exists there; False for a path out of the tree."""
        try:
            name = self._name(path)
        except OSError:
            return False
        return name in self._texts or name in self._folders

    def is_folder(self, path: str) -> bool:
        return self.exists(path) and self._name(path) in self._folders

    def size(self, path: str) -> int:
        return len(self.read(path).encode())

    def remove(self, path: str, *, tree: bool = False) -> None:
        """Remove a file; with `tree` also a folder and all that is in it."""
        name = self._name(path)
        if name == ROOT:
            raise PermissionError(_message(path, "the root cannot be removed"))
        if name not in self._texts and not (tree and name in self._folders):
            raise self._no_file(path)
        inside = f"{name}/"
        gone = [other for other in self._names() if f"{other}/".startswith(inside)]
        for other in gone:
            self._texts.pop(other, None)
        for other in reversed(gone):
            self._folders.discard(other)

    def glob(self, pattern: str) -> list[str]:
        """Return the sorted matches; `*` stays in one part, and a dot at its start is written."""
        parts = self._name(pattern).split("/")
        found = [name for name in self._names() if _matches(name.split("/"), parts)]
        is_below = self._here != ROOT and pattern[:1] != "/"
        return [name.removeprefix(f"{self._here}/") for name in found] if is_below else found

    def snapshot(self) -> dict[str, str]:
        return dict(sorted(self._texts.items()))

    def _names(self) -> list[str]:
        return sorted([*self._texts, *(name for name in self._folders if name != ROOT)])

    def _make_room(self, path: str, name: str, *, parents: bool) -> None:
        """Make the folders above a new file or folder. Raises OSError if a file is in the way."""
        above = _above(name)
        if any(folder in self._texts for folder in above):
            raise NotADirectoryError(_message(path, "a part of the path is a file"))
        if not parents and above[-1] not in self._folders:
            raise self._no_file(path)
        for folder in above:
            self._folders.add(folder)

    def _no_file(self, path: str) -> OSError:
        name = self._name(path)
        if name in self._folders:
            return IsADirectoryError(_message(path, "is a folder"))
        if any(folder in self._texts for folder in _above(name)):
            return NotADirectoryError(_message(path, "a part of the path is a file"))
        return FileNotFoundError(_message(path, "no such file or folder"))


class _TextsOnDisk(MutableMapping[str, str]):
    """The texts of the files below a folder; hidden ones only if they are among those given."""

    def __init__(self, folder: Path, given: Iterable[str]) -> None:
        self._folder = folder
        self._given = frozenset(given)

    def __getitem__(self, name: str) -> str:
        try:
            return (self._folder / name).read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise KeyError(name) from error

    def __setitem__(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text, "utf-8", newline="")

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        (self._folder / name).unlink()

    def __iter__(self) -> Iterator[str]:
        for path in sorted(self._folder.rglob("*"), key=Path.as_posix):
            parts = path.relative_to(self._folder).parts
            name = "/".join(parts)
            is_hidden = any(part[0] == "." for part in parts)
            if (name in self._given or not is_hidden) and path.is_file() and name in self:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)  # a list would ask for the length first


class _FoldersOnDisk(MutableSet[str]):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __contains__(self, name: object) -> bool:
        return (self._folder / str(name)).is_dir()

    def __iter__(self) -> Iterator[str]:
        yield ROOT
        for path in self._folder.rglob("*"):
            name = path.relative_to(self._folder).as_posix()
            if path.is_dir() and not name.startswith(".") and "/." not in name:
                yield name

    def __len__(self) -> int:
        return sum(1 for _ in self)  # a list would ask for the length first

    def add(self, name: str) -> None:
        (self._folder / name).mkdir(parents=True, exist_ok=True)

    def discard(self, name: str) -> None:
        if name in self:
            shutil.rmtree(self._folder / name)


def _message(path: str, why: str) -> str:
    return f"{escape(path, 100) or repr(path)}: {why}"


def _folder_of(name: str) -> str:
    return name.rpartition("/")[0] or ROOT


def _above(name: str) -> list[str]:
    parts = name.split("/")
    return [ROOT, *("/".join(parts[:count]) for count in range(1, len(parts)))]


def _matches(parts: list[str], patterns: list[str]) -> bool:
    return len(parts) == len(patterns) and all(
        fnmatch.fnmatchcase(part, pattern) and (part[0] != "." or pattern[0] == ".")
        for part, pattern in zip(parts, patterns, strict=True)
    )
