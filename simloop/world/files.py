"""Files that live in memory.

An error says what a file system would say, as an OSError whose message is `path: why`, and changes
nothing. Every listing is sorted, so that the same steps give the same bytes.
"""

import copy
import fnmatch
from collections.abc import Mapping

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
        self._texts: dict[str, str] = {}
        self._folders = {ROOT}
        self._here = ROOT
        for path, text in (texts or {}).items():
            self.write(path, text)

    def at(self, path: str) -> "Files":
        """Return these files as they are seen from a folder: relative paths begin there."""
        if not self.is_folder(path):
            is_file = self.exists(path)
            raise (
                NotADirectoryError(_message(path, "is a file")) if is_file else self._no_file(path)
            )
        seen = copy.copy(self)
        seen._here = self._name(path)  # noqa: SLF001 - of this class
        return seen

    @property
    def here(self) -> str:
        """Return the folder at which relative paths begin, from the root."""
        return "/" if self._here == ROOT else f"/{self._here}"

    def _name(self, path: str) -> str:
        is_below = self._here != ROOT and path[:1] not in {"/", ""}
        return normalise(f"{self._here}/{path}" if is_below else path)

    def read(self, path: str) -> str:
        """Return the text of a file."""
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
        """Replace the only occurrence of `old`. Raises ValueError unless there is exactly one.

        Overlapping occurrences count as two.
        """
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
        """Return whether a folder exists there; False for a path out of the tree."""
        return self.exists(path) and self._name(path) in self._folders

    def size(self, path: str) -> int:
        """Return the size of a file in bytes of UTF-8."""
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
        self._folders.difference_update(gone)
        for other in gone:
            self._texts.pop(other, None)

    def glob(self, pattern: str) -> list[str]:
        """Return the matching files and folders, sorted and normalised; the result may be empty.

        `*`, `?` and `[...]` stay within one part of a path, and a dot at its start must be written.
        """
        parts = self._name(pattern).split("/")
        found = [name for name in self._names() if _matches(name.split("/"), parts)]
        is_below = self._here != ROOT and pattern[:1] != "/"
        return [name.removeprefix(f"{self._here}/") for name in found] if is_below else found

    def snapshot(self) -> dict[str, str]:
        """Return all texts by path, sorted, without empty folders."""
        return dict(sorted(self._texts.items()))

    def _names(self) -> list[str]:
        return sorted([*self._texts, *(self._folders - {ROOT})])

    def _make_room(self, path: str, name: str, *, parents: bool) -> None:
        """Make the folders above a new file or folder. Raises OSError if a file is in the way."""
        above = _above(name)
        if any(folder in self._texts for folder in above):
            raise NotADirectoryError(_message(path, "a part of the path is a file"))
        if not parents and above[-1] not in self._folders:
            raise self._no_file(path)
        self._folders.update(above)

    def _no_file(self, path: str) -> OSError:
        name = self._name(path)
        if name in self._folders:
            return IsADirectoryError(_message(path, "is a folder"))
        if any(folder in self._texts for folder in _above(name)):
            return NotADirectoryError(_message(path, "a part of the path is a file"))
        return FileNotFoundError(_message(path, "no such file or folder"))


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
