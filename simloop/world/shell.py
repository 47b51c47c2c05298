"""A small shell over files in memory, which knows the usual commands of an agent.

A command line is read whole before any of it is done, and what the shell lacks is refused.
"""

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from simloop.world.files import ROOT, Files

FAILED, MISUSED, UNKNOWN = 1, 2, 127
"""The exit statuses of a command that fails, is given wrong, or is not found."""

Write = Callable[[str, str], Awaitable[None]]
"""Writes a text to a stream: stdout or stderr."""
Startable = Callable[[list[str], str, Write], Awaitable[int | None]]
"""Runs a command with its words and its input, and returns its exit status; None: not found."""

# A word is of plain characters, quoted stretches and escaped characters. What no group fits
# (expansions, comments, numbered outputs) is what this shell lacks.
_TOKEN = re.compile(
    r"""[ \t\r]+|\\\n|(?P<nothing><\ ?/dev/null)(?=[\s;|&]|$)|"""
    r"""(?P<errors>2>(?:&1|\ ?/dev/null))(?=[\s;|&]|$)|"""
    r"""<<\ ?(?P<here>'\w+'|"\w+"|\w+)|(?P<operator>[();<>|&]+|\n)|"""
    r"""(?P<word>(?!\#|[0-9]+[<>])(?:[^\s'"\\$`();<>|&]|'[^']*'|"""
    r""""(?:\\[^$`]|\$\?|[^"\\$`])*+"|\\[^\n]|\$\?)+)"""
)
_REDIRECTS = frozenset((">", ">>"))
_JOINTS = frozenset((";", "&&", "||", "|", "\n"))
# Taken for a command that is not found, these would have the next one done all the same.
_NEVER = frozenset(("if", "for", "while", "until", "case", "{", "!", "exit", "exec", "set"))
_PATTERN = re.compile(r"[\\.\[*^$]")
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_LINES = re.compile(r"-(?:n ?)?([0-9]{1,9})")
_STATUS = re.compile(r"'[^']*'|\\.|\$\?", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
NULL = "/dev/null"
_QUOTES = "'\""


class UnfinishedLineError(ValueError):
    """A quote, or a here-document, has no end yet."""


class ShellCommand(Struct):
    """One command of a line: its quoted words, where its errors go, and a here-document."""

    joint: str
    words: list[str] = []
    errors: str = ""
    text: str | None = None


class ShellInput(NamedTuple):
    """The input of a command of the shell."""

    files: Files
    name: str
    options: str
    operands: list[str]
    text: str | None = None


class Done(NamedTuple):
    """The result of a command of the shell."""

    out: str = ""
    err: str = ""
    code: int = 0


class Shell(Struct, eq=False):
    """A shell. `sleep` waits; `start` runs the commands that it takes from the shell."""

    files: Files
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    start: Startable | None = None
    status: int = 0

    async def run(self, line: str, write: Write, text: str | None = None) -> int:
        """Run a command line, whose first command gets `text` as input. Raises ValueError."""
        piped: str | None = None
        commands = parse(line)
        for command, after in zip(commands, [*commands, None][1:], strict=True):
            skips = {"&&": self.status != 0, "||": self.status == 0, "|": piped is None}
            if skips.get(command.joint):
                continue
            given = text if command is commands[0] and command.text is None else command.text
            given = piped if command.joint == "|" else given
            if after is None or after.joint != "|":
                self.status, piped = await self._perform(command, given, write), None
            else:
                to_pipe: list[str] = []
                self.status = await self._perform(command, given, _collecting(to_pipe, write))
                piped = "".join(to_pipe)
        return self.status

    async def _perform(self, command: ShellCommand, text: str | None, write: Write) -> int:
        words = command.words
        redirect = _REDIRECTS.intersection(words[-2:-1])
        try:
            if not redirect:
                return await self._call(words, text, _redirected(command.errors, write))
            path, kept = _unquoted(words[-1]), list[str]()
            if path != NULL:
                if ">" in redirect:
                    self.files.write(path, "", parents=False)
                self.files.append(path, "")  # before the command, not run if that fails
            writes = _redirected(command.errors, _collecting(kept, write))
            code = await self._call(words[:-2], text, writes)
            if path != NULL:
                self.files.append(path, "".join(kept))
        except OSError as error:
            await write("stderr", f"sh: {error}\n")
            return FAILED
        return code

    async def _call(self, words: list[str], text: str | None, write: Write) -> int:
        known = {"$?": str(self.status)}
        words = [_STATUS.sub(lambda found: known.get(found[0], found[0]), word) for word in words]
        while words and _ASSIGNMENT.match(words[0]):  # no program looks at it
            words = words[1:]
        if not words:
            return 0
        expanded = [one for word in words for one in _expand(self.files, word)]
        code = None if self.start is None else await self.start(expanded, text or "", write)
        if code is not None:
            return code
        out, err, code = await self._own(*expanded, text=text)
        for stream, told in (("stdout", out), ("stderr", err)):
            if told:
                await write(stream, told)
        return code

    async def _own(self, name: str, *arguments: str, text: str | None) -> Done:
        if name == "sleep":
            if len(arguments) != 1 or not _SECONDS.fullmatch(arguments[0]):
                return Done(err="sleep: takes a number of seconds\n", code=MISUSED)
            await self.sleep(float(arguments[0]))
            return Done()
        if name == "cd":
            self.files = self.files.at(*(arguments[:1] or ["/"]))
            return Done()
        if name not in _COMMANDS:
            return Done(err=f"{name}: command not found\n", code=UNKNOWN)
        act, options, least = _COMMANDS[name]
        dashed = [word for word in arguments if options is not None and word[:1] == "-"]
        operands = [word for word in arguments if word not in dashed]
        given = ShellInput(self.files, name, "".join(word[1:] for word in dashed), operands, text)
        if (unknown := given.options.strip(options)) or len(operands) < least - (text is not None):
            why = f"option -{unknown[0]} is not known" if unknown else "an operand is missing"
            return Done(err=f"{name}: {why}\n", code=MISUSED)
        return act(given)


def knows(name: str) -> bool:
    """Return whether the shell has a command of that name."""
    return name in {"sleep", "cd"} or name in _COMMANDS


def _collecting(kept: list[str], write: Write) -> Write:
    async def collect(stream: str, text: str) -> None:
        if stream == "stdout":
            kept.append(text)
        else:
            await write(stream, text)

    return collect


def _redirected(errors: str, write: Write) -> Write:
    async def redirected(stream: str, text: str) -> None:
        if stream == "stdout" or errors.endswith("1"):
            await write("stdout", text)

    return redirected if errors else write


def parse(line: str) -> list[ShellCommand]:
    """Return the commands of a line, in order. Raises ValueError for unknown syntax."""
    commands = [ShellCommand(";")]
    here = commands[0]
    for kind, token in _tokens(line):
        last = commands[-1]
        if kind == "word" or token in _REDIRECTS:
            last.words.append(token)
        elif kind == "errors":
            last.errors = token
        elif kind == "here":
            last.text, here = "", last
        elif kind == "text":
            here.text = token
        elif kind == "nothing":
            last.text = ""
        elif token not in _JOINTS:
            raise ValueError(f"this shell has no {token}")
        elif last.words:
            commands.append(ShellCommand(token))
        elif token != "\n":  # noqa: S105 - no password
            raise ValueError(f"{token} has nothing before it")
    last = commands[-1]
    if not last.words and last.joint in {"&&", "||", "|"}:
        raise ValueError(f"{last.joint} has nothing after it")
    commands = commands if last.words else commands[:-1]
    for each in commands:
        if each.words[0] in _NEVER:
            raise ValueError(f"this shell has no {each.words[0]}")
    if any(_REDIRECTS & {each.words[0], *each.words[1:-2], each.words[-1]} for each in commands):
        raise ValueError("> and >> stand between a command and one path")
    return commands


def is_simple_command(line: str) -> bool:
    """Return whether a line is one command without redirections. Raises ValueError."""
    commands = parse(line)
    words = commands[0].words if len(commands) == 1 else [">"]
    return _REDIRECTS.isdisjoint(words) and shlex.split(line) == list(map(_unquoted, words))


def is_whole(line: str) -> bool:
    """Return whether a line has the ends of its quotes and here-documents."""
    try:
        parse(line)
    except ValueError as error:  # any other one is reported where the line is run
        return not isinstance(error, UnfinishedLineError)
    return True


def _tokens(line: str) -> Iterator[tuple[str, str]]:
    at, here = 0, ""
    while at < len(line):
        if (found := _TOKEN.match(line, at)) is None:
            error = UnfinishedLineError if line[at] in _QUOTES else ValueError
            raise error(f"this shell cannot read {line[at : at + 20]}")
        at = found.end()
        kind, token = found.lastgroup, found[found.lastgroup or 0]
        if kind == "here":
            here = token
            yield kind, token
        elif here and token == "\n":  # noqa: S105 - no password
            text, is_there, rest = f"\n{line[at:]}\n".partition(f"\n{here.strip(_QUOTES)}\n")
            if not is_there or (here[0] not in _QUOTES and re.search(r"[$`\\]", text)):
                error = ValueError if is_there else UnfinishedLineError
                raise error(f"this shell cannot read <<{here}")
            yield "text", f"{text[1:]}\n" if text else ""
            line, at, here = f"\n{rest}", 0, ""
        elif kind:
            yield kind, token
    if here:
        raise UnfinishedLineError(f"this shell cannot read <<{here}")


def _expand(files: Files, word: str) -> list[str]:
    """Return the words that one stands for. One that is quoted, even in part, is no pattern."""
    text = _unquoted(word)
    return (files.glob(word) if text == word and re.search(r"[*?[]", word) else []) or [text]


def _unquoted(word: str) -> str:
    return shlex.split(word)[0]


def _each(given: ShellInput, act: Callable[[str], str | None]) -> Done:
    out = err = ""
    for path in given.operands:
        try:
            out += act(path) or ""
        except OSError as error:
            err += f"{given.name}: {error}\n"
    return Done(out, err, FAILED if err else 0)


def _ls(given: ShellInput) -> Done:
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
    size = "-" if files.is_folder(path) else str(files.size(path))
    return f"{size:>8} {name}\n" if "l" in options else f"{name}\n"


def _wc(given: ShellInput) -> Done:
    if not given.options:
        return Done(err="wc: only wc -l is known\n", code=MISUSED)
    if not given.operands:
        return Done(f"{(given.text or '').count(chr(10))}\n")
    counts: list[int] = []

    def count(path: str) -> str:
        counts.append(given.files.read(path).count("\n"))
        return f"{counts[-1]} {path}\n"

    done = _each(given, count)
    return done._replace(out=done.out + f"{sum(counts)} total\n" * bool(given.operands[1:]))


def _grep(given: ShellInput) -> Done:
    pattern, *paths = given.operands
    if _PATTERN.search(pattern):
        return Done(err="grep: patterns are not known, only texts\n", code=MISUSED)

    def find(path: str) -> str:
        before = f"{path}:" if len(paths) > 1 else ""
        lines = (given.files.read(path) if paths else path).removesuffix("\n").split("\n")
        return "".join(f"{before}{line}\n" for line in lines if pattern in line)

    done = _each(given._replace(operands=paths or [given.text or ""]), find)
    return done._replace(code=MISUSED if done.err else int(not done.out))


def _ends(given: ShellInput) -> Done:
    """Do `head` or `tail`: with `-n 3` or `-3`, of files or of the input."""
    paths, count = given.operands, 10
    if found := _LINES.match(" ".join(paths)):
        paths, count = paths[2 if paths[0] == "-n" else 1 :], int(found[1])

    def end(path: str) -> str:
        lines = (given.files.read(path) if paths else path).splitlines(keepends=True)
        first = 0 if given.name == "head" else max(0, len(lines) - count)
        return "".join(lines[first : first + count])

    return _each(given._replace(operands=paths or [given.text or ""]), end)


def _touch(files: Files, path: str) -> None:
    if not files.is_folder(path):
        files.append(path, "")


# What a command does, the options that it knows (None: to it all words are alike), and how many
# operands it needs, one less if it has an input.
_COMMANDS: Mapping[str, tuple[Callable[[ShellInput], Done], str | None, int]] = {
    "ls": (_ls, "la", 0),
    "cat": (lambda g: _each(g, g.files.read) if g.operands else Done(g.text or ""), "", 1),
    "pwd": (lambda g: Done(f"{g.files.here}\n"), "", 0),
    "echo": (lambda g: Done(" ".join(g.operands) + "\n"), None, 0), "wc": (_wc, "l", 1),
    "mkdir": (lambda g: _each(g, partial(g.files.mkdir, parents="p" in g.options)), "p", 1),
    "touch": (lambda g: _each(g, partial(_touch, g.files)), "", 1),
    "rm": (lambda g: _each(g, partial(g.files.remove, tree="r" in g.options)), "r", 1),
    "grep": (_grep, "", 2), "head": (_ends, None, 1), "tail": (_ends, None, 1),
    "export": (lambda _: Done(), None, 0), "true": (lambda _: Done(), None, 0),
    "false": (lambda _: Done(code=FAILED), None, 0),
}  # fmt: skip
