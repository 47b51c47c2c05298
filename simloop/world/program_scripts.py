"""The scripts of programs: which command lines they answer, and with which answers."""

import itertools
import re
import shlex
from collections.abc import Callable, Sequence

from msgspec import Struct

from simloop.virtual.real_world import LISTS
from simloop.world.user_functions import parameters_of

FILES = "files"
"""The script of a shell that works on the files in memory."""


class Completed(Struct, frozen=True):
    """The end of a program, as a function `(args, stdin) -> Completed` returns it."""

    stdout: str | bytes = ""
    stderr: str | bytes = ""
    exit: int = 0


ProgramFunction = Callable[..., Completed | str | None]


class OutputPiece(Struct, frozen=True):
    """A part of the output, and the time before it."""

    after_ns: int
    stream: str
    text: str | bytes


class ProgramAnswer(Struct, frozen=True, kw_only=True):
    """One answer of a program. `times` is None for always."""

    pieces: tuple[OutputPiece, ...] = ()
    takes_ns: int = 0
    exit: int = 0
    signal: int = 0
    hangs: bool = False
    endless: bool = False
    ignores: frozenset[int] = frozenset()
    contains: tuple[str, ...] | None = None
    times: int | None = None
    function: ProgramFunction | None = None


class ProgramCall(Struct):
    """A call of a scripted program: its words, and what it has read from its standard input."""

    args: tuple[str, ...]
    stdin: str = ""


class ProgramScript:
    """The answers of the programs whose command line begins with these words; `*` is any text."""

    def __init__(self, key: str, answers: Sequence[ProgramAnswer] | None) -> None:
        self.key = key
        self.words = words_of(key)
        self.is_shell = answers is None
        self.calls: list[ProgramCall] = []
        self._patterns = [pattern_of(word) for word in self.words]
        self._answers = list(answers or ())
        self._left = [each.times for each in self._answers]
        self.reads = any(
            each.contains is not None or (each.function is not None and takes_input(each.function))
            for each in self._answers
        )
        """Whether an answer depends on the whole standard input."""

    def matches(self, args: Sequence[str], *, whole: bool = False) -> bool:
        """Return whether the command line begins with the words, or `whole`: is equal to them."""
        if len(args) < len(self.words) or (whole and len(args) != len(self.words)):
            return False
        if not (self.names(args[0].rpartition("/")[2]) or self.names(args[0])):
            return False
        return all(map(_fits, self.words[1:], self._patterns[1:], args[1:]))

    def names(self, program: str) -> bool:
        return _fits(self.words[0], self._patterns[0], program)

    def has_answer(self) -> bool:
        return any(left is None or left > 0 for left in self._left)

    def unused(self) -> list[str]:
        """Return the places of the answers that were used less often than they say."""
        return [f"programs.{self.key}.{index}" for index, left in enumerate(self._left) if left]

    def take(self, text: str, *, uses_up: bool) -> ProgramAnswer | None:
        """Return the next answer for a call with this input; None if none fits."""
        for index, (answer, left) in enumerate(zip(self._answers, self._left, strict=True)):
            if left == 0 or not all(each in text for each in answer.contains or ()):
                continue
            if left is not None and uses_up:
                self._left[index] = left - 1
            return answer
        return None


def _fits(word: str, pattern: re.Pattern[str], given: str) -> bool:
    return word == given or ("*" in word and pattern.fullmatch(given) is not None)


def pattern_of(word: str) -> re.Pattern[str]:
    """Return the pattern of a text in which `*` stands for any characters."""
    return re.compile(".*".join(map(re.escape, word.split("*"))), re.DOTALL)


def words_of(key: str) -> list[str]:
    """Return the words of a command line. Raises ValueError if there are none, or open quotes."""
    if not (words := shlex.split(key)):
        raise ValueError("a command line has at least the name of a program")
    return words


def takes_input(function: ProgramFunction) -> bool:
    """Return whether the function of a program takes the standard input too."""
    if (known := parameters_of(function)) is None:
        return True
    parameters = known.values()
    positional = [p for p in parameters if p.kind <= p.POSITIONAL_OR_KEYWORD]
    return len(positional) > 1 or any(p.kind is p.VAR_POSITIONAL for p in parameters)


def command_line(args: Sequence[str]) -> str:
    """Return a command line as a person writes it: of a shell with `-c`, that of the shell."""
    line = line_of_shell(args)
    return shlex.join(args) if line is None else line


def line_of_shell(args: Sequence[str]) -> str | None:
    """Return the command line that a shell runs; None for other programs."""
    if args[0].rpartition("/")[2] not in LISTS.shells:
        return None
    for option, line in itertools.pairwise(args[1:]):
        if option in {"-c", "-lc", "-ic", "-ec", "-lec"}:
            return line
    return None
