"""Files that live in memory, and the five tools of document 003 that work on them.

An error says what a file system would say, as an OSError whose message is `path: why`, and changes
nothing. Every listing is sorted, so that the same steps give the same bytes. A command line is read
whole before any of it is done, and what the shell lacks is refused, not guessed at.
"""

import asyncio
import fnmatch
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from simloop.escape import escape
from simloop.messages import ToolResult
from simloop.world.tools import Tool, toolbox

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
        for path, text in (texts or {}).items():
            self.write(path, text)

    def read(self, path: str) -> str:
        """Return the text of a file."""
        name = normalise(path)
        if name not in self._texts:
            raise self._no_file(path)
        return self._texts[name]

    def write(self, path: str, text: str, *, parents: bool = True) -> None:
        """Replace the text of a file. Without `parents` the folder must exist."""
        name = normalise(path)
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
        name = normalise(path)
        if name in self._texts or (name in self._folders and not parents):
            raise FileExistsError(_message(path, "is there already"))
        self._make_room(path, name, parents=parents)
        self._folders.add(name)

    def list_folder(self, path: str = ROOT) -> list[str]:
        """Return the sorted names in a folder; names of folders end in a slash."""
        folder = normalise(path)
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
            name = normalise(path)
        except OSError:
            return False
        return name in self._texts or name in self._folders

    def is_folder(self, path: str) -> bool:
        """Return whether a folder exists there; False for a path out of the tree."""
        return self.exists(path) and normalise(path) in self._folders

    def size(self, path: str) -> int:
        """Return the size of a file in bytes of UTF-8."""
        return len(self.read(path).encode())

    def remove(self, path: str, *, tree: bool = False) -> None:
        """Remove a file; with `tree` also a folder and all that is in it."""
        name = normalise(path)
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
        parts = normalise(pattern).split("/")
        return [name for name in self._names() if _matches(name.split("/"), parts)]

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
        name = normalise(path)
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


# A word is of plain characters, quoted stretches and escaped characters. What no group fits
# (expansions, comments, numbered outputs) is what this shell lacks.
_TOKEN = re.compile(
    r"""[ \t\r]+|\\\n|(?P<operator>[();<>|&]+|\n)|"""
    r"""(?P<word>(?!\#|[0-9]+[<>])(?:[^\s'"\\$`();<>|&]|'[^']*'|"(?:\\[^$`]|[^"\\$`])*+"|\\[^\n])+)"""
)
_REDIRECTS = frozenset((">", ">>"))
# Taken for a command that is not found, these would have the next one done all the same.
_NEVER = frozenset(("if", "for", "while", "until", "case", "{", "!", "cd", "exit", "exec", "set"))
_PATTERN = re.compile(r"[\\.\[*^$]")
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")

_FAILED, _MISUSED, _UNKNOWN = 1, 2, 127


SHELL_TIMEOUT_MS = 30_000
"""The figure of document 003; its program waits for 10 s by default."""


def file_tools(files: Files, shell_timeout_ms: int = SHELL_TIMEOUT_MS) -> dict[str, Tool]:
    """Return the tools by name. They change `files`, so a repeated run needs fresh files.

    `shell_timeout_ms` is virtual time, after which a call of RunShellCommand is given up.
    """
    does = "Run a command line: " + ", ".join(("sleep", *_COMMANDS)) + "; with &&, ;, > and >>."
    folder = "List the names in a folder (if none is given, the root), with a slash after folders."
    write = "Write a text file, and the folders above it; what was there is lost."
    edit = "Replace the one place in a file where the old text stands."
    return toolbox(
        [
            _tool(
                "RunShellCommand",
                partial(_run_shell_command, files),
                does,
                "command",
                timeout_ms=shell_timeout_ms,
            ),
            _tool("ReadFile", partial(_read_file, files), "Read a text file.", "path"),
            _tool("ReadFolder", partial(_read_folder, files), folder, may=["path"]),
            _tool("WriteFile", partial(_write_file, files), write, "path", "content"),
            _tool("EditFile", partial(_edit_file, files), edit, "path", "old", "new"),
        ]
    )


def _tool(
    name: str,
    function: Callable[..., Any],
    does: str,
    *needed: str,
    may: Iterable[str] = (),
    timeout_ms: int | None = None,
) -> Tool:
    schema = {
        "type": "object",
        "properties": {argument: {"type": "string"} for argument in (*needed, *may)},
        "required": needed,
        "additionalProperties": False,
    }
    return Tool(function, name=name, description=does, parameters=schema, timeout_ms=timeout_ms)


def _read_file(files: Files, path: str) -> ToolResult:
    return ToolResult(files.read(path), details=_facts(files, path))


def _read_folder(files: Files, path: str = ROOT) -> ToolResult:
    names = files.list_folder(path)
    return ToolResult("\n".join(names), details={"path": normalise(path), "names": names})


def _write_file(files: Files, path: str, content: str) -> ToolResult:
    files.write(path, content)
    return ToolResult(f"wrote {normalise(path)}", details=_facts(files, path))


def _edit_file(files: Files, path: str, old: str, new: str) -> ToolResult:
    files.edit(path, old, new)
    return ToolResult(f"edited {normalise(path)}", details=_facts(files, path))


def _facts(files: Files, path: str) -> dict[str, Any]:
    return {"path": normalise(path), "bytes": files.size(path)}


class _Given(NamedTuple):
    files: Files
    name: str
    options: str
    operands: list[str]


class _Done(NamedTuple):
    """The result of a command. `err` is shown too, but is not redirected with the output."""

    out: str = ""
    err: str = ""
    code: int = 0


async def _run_shell_command(files: Files, command: str) -> ToolResult:
    try:
        steps = _parse(command)
    except ValueError as error:
        return _result(f"syntax error: {error}\n", _MISUSED)
    said, code = "", 0
    for joined, words in steps:
        if joined != "&&" or not code:
            out, err, code = await _perform(files, words)
            said += out + err
    return _result(said, code)


def _result(said: str, code: int) -> ToolResult:
    if code:
        said += "\n" if said and not said.endswith("\n") else ""
        said += f"exit code {code}"
    return ToolResult(said, is_error=code != 0, details={"exit_code": code})


def _parse(command: str) -> list[tuple[str, list[str]]]:
    """Return each command's words, with their quotes, and the operator before it.

    Raises ValueError for unknown syntax.
    """
    steps: list[tuple[str, list[str]]] = [(";", [])]
    for kind, token in _tokens(command):
        words = steps[-1][1]
        if kind == "word" or token in _REDIRECTS:
            words.append(token)
        elif token not in (";", "&&", "\n"):
            raise ValueError(f"this shell has no {token}")
        elif words:
            steps.append((token, []))
        elif token != "\n":  # noqa: S105 - no password
            raise ValueError(f"{token} has nothing before it")
    joined, words = steps[-1]
    if not words and joined == "&&":
        raise ValueError("&& has nothing after it")
    steps = steps if words else steps[:-1]
    never = [words[0] for _, words in steps if words[0] in _NEVER]
    if never:
        raise ValueError(f"this shell has no {never[0]}")
    if any(_REDIRECTS & {words[0], *words[1:-2], words[-1]} for _, words in steps):
        raise ValueError("> and >> stand between a command and one path")
    return steps


def _tokens(command: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(command):
        found = _TOKEN.match(command, at)
        if found is None:
            raise ValueError(f"this shell cannot read {command[at : at + 20]}")
        at = found.end()
        if found.lastgroup:
            yield found.lastgroup, found[0]


def _expand(files: Files, word: str) -> list[str]:
    """Return the words that one stands for. One that is quoted, even in part, is no pattern."""
    text = _unquoted(word)
    return (files.glob(word) if text == word and re.search(r"[*?[]", word) else []) or [text]


def _unquoted(word: str) -> str:
    return shlex.split(word)[0]


async def _perform(files: Files, words: list[str]) -> _Done:
    redirect = _REDIRECTS.intersection(words[-2:-1])
    try:
        if not redirect:
            return await _call(files, words)
        path = _unquoted(words[-1])
        if ">" in redirect:
            files.write(path, "", parents=False)
        files.append(path, "")  # before the command, which is not run if that fails
        done = await _call(files, words[:-2])
        files.append(path, done.out)
        return done._replace(out="")
    except OSError as error:
        return _Done(err=f"sh: {error}\n", code=_FAILED)


async def _call(files: Files, words: list[str]) -> _Done:
    name, *arguments = [one for word in words for one in _expand(files, word)]
    if name == "sleep":
        return await _sleep(arguments)
    if name not in _COMMANDS:
        return _Done(err=f"{name}: command not found\n", code=_UNKNOWN)
    act, options, least = _COMMANDS[name]
    dashed = [word for word in arguments if options is not None and word[:1] == "-"]
    operands = [word for word in arguments if word not in dashed]
    given = _Given(files, name, "".join(word[1:] for word in dashed), operands)
    unknown = given.options.strip(options)
    if unknown or len(operands) < least:
        why = f"option -{unknown[0]} is not known" if unknown else "an operand is missing"
        return _Done(err=f"{name}: {why}\n", code=_MISUSED)
    return act(given)


async def _sleep(arguments: list[str]) -> _Done:
    if len(arguments) != 1 or not _SECONDS.fullmatch(arguments[0]):
        return _Done(err="sleep: takes a number of seconds\n", code=_MISUSED)
    await asyncio.sleep(float(arguments[0]))
    return _Done()


def _each(given: _Given, act: Callable[[str], str | None]) -> _Done:
    out = err = ""
    for path in given.operands:
        try:
            out += act(path) or ""
        except OSError as error:
            err += f"{given.name}: {error}\n"
    return _Done(out, err, _FAILED if err else 0)


def _ls(given: _Given) -> _Done:
    files, options = given.files, given.options
    paths = given.operands or [ROOT]

    def show(path: str) -> str:
        if not files.is_folder(path):
            return _row(files, path, path, options)
        title = f"{path}:\n" if len(paths) > 1 else ""
        names = [n for n in files.list_folder(path) if "a" in options or n[0] != "."]
        return title + "".join(_row(files, f"{path}/{n}", n, options) for n in names)

    return _each(given._replace(operands=paths), show)


def _row(files: Files, path: str, name: str, options: str) -> str:
    """Return a name, in the long form after the bytes of a file or a dash.

    Dates and owners are not shown.
    """
    size = "-" if files.is_folder(path) else str(files.size(path))
    return f"{size:>8} {name}\n" if "l" in options else f"{name}\n"


def _wc(given: _Given) -> _Done:
    if not given.options:
        return _Done(err="wc: only wc -l is known\n", code=_MISUSED)
    counts: list[int] = []

    def count(path: str) -> str:
        counts.append(given.files.read(path).count("\n"))
        return f"{counts[-1]} {path}\n"

    done = _each(given, count)
    total = f"{sum(counts)} total\n" if given.operands[1:] else ""
    return done._replace(out=done.out + total)


def _grep(given: _Given) -> _Done:
    pattern, *paths = given.operands
    if _PATTERN.search(pattern):
        return _Done(err="grep: patterns are not known, only texts\n", code=_MISUSED)

    def find(path: str) -> str:
        lines = given.files.read(path).removesuffix("\n").split("\n")
        before = f"{path}:" if len(paths) > 1 else ""
        return "".join(f"{before}{line}\n" for line in lines if pattern in line)

    done = _each(given._replace(operands=paths), find)
    return done._replace(code=_MISUSED if done.err else int(not done.out))


def _touch(files: Files, path: str) -> None:
    if not files.is_folder(path):
        files.append(path, "")


# What a command does, the options that it knows (None: to it all words are alike), and how many
# operands it needs.
_COMMANDS: Mapping[str, tuple[Callable[[_Given], _Done], str | None, int]] = {
    "ls": (_ls, "la", 0),
    "cat": (lambda g: _each(g, g.files.read), "", 1),
    "pwd": (lambda _: _Done("/\n"), "", 0),
    "echo": (lambda g: _Done(" ".join(g.operands) + "\n"), None, 0),
    "wc": (_wc, "l", 1),
    "mkdir": (lambda g: _each(g, partial(g.files.mkdir, parents="p" in g.options)), "p", 1),
    "touch": (lambda g: _each(g, partial(_touch, g.files)), "", 1),
    "rm": (lambda g: _each(g, partial(g.files.remove, tree="r" in g.options)), "r", 1),
    "grep": (_grep, "", 2),
}
