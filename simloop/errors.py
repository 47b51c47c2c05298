"""Errors, grouped by their cause: the author's input, the loop under test, or simloop.

The text of an error is escaped. In a message of several lines, text of others is escaped first: its
newlines could forge a line.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Self

from simloop.escape import escape, escape_lines


class SimloopError(Exception):
    """The base of all errors that simloop raises. `exit_code` is the command line's exit code."""

    exit_code: ClassVar[int] = 3

    def __str__(self) -> str:
        return escape_lines(super().__str__())


class ScenarioError(SimloopError):
    """The author's file or call is wrong: `path:line:column: key: message (hint)`."""

    exit_code = 2

    def __init__(
        self, message: str, *, path: str | Path | None = None, line: int | None = None,
        column: int | None = None, key: str = "", hint: str = "",
    ) -> None:  # fmt: skip
        self.message = message
        self.path = path
        self.line = line  # counted from 1, as `column`
        self.column = column
        self.key = key  # the path inside the file, such as `model.1.http.status`
        self.hint = hint
        self.others: tuple[ScenarioError, ...] = ()  # of the same file
        super().__init__(message)

    def __str__(self) -> str:
        """Return one line for each mistake, escaped, so that an editor can jump to the place."""
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part)
        first = escape(_one_line(place, self.key, self.message, self.hint))
        return "\n".join((first, *map(str, self.others)))


class CannotExpress(ScenarioError):  # noqa: N818 - what a loop design cannot do is no error of it
    """The scenario asks for a feature that its loop design does not have, such as hooks."""

    def __init__(self, loop: str, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        message = f"the loop `{loop}` cannot express this: {'; '.join(reasons)}"
        super().__init__(message, key="loop", hint="run it on another loop")


class AgentNotMade(ScenarioError):  # noqa: N818 - named for what is wrong, as CannotExpress
    """The class or the function of an agent raises an exception when a run makes the agent."""


class CheckFailed(SimloopError, AssertionError):  # noqa: N818 - a check failed, nothing broke
    """The loop under test is wrong."""

    exit_code = 1

    def __init__(self, message: str, *, key: str = "", hint: str = "", reproduce: str = "") -> None:
        self.message = message
        self.path: str | Path | None = None  # of the scenario, with `key` as the place in it
        self.key = key
        self.hint = hint
        self.reproduce = reproduce  # the one command that shows the failure again
        self.others: tuple[str, ...] = ()  # further findings, each on a line of its own
        self.account = ""  # the end of the run, several lines
        super().__init__(message)

    def finding(self, place: str = "") -> str:
        """Return the message with key and hint, and the other findings; escaped, no command."""
        key, hint = escape(self.key), escape(self.hint)
        first = _one_line(escape(place), key, escape_lines(self.message), hint)
        return "\n".join((first, *map(escape, self.others)))

    def __str__(self) -> str:
        """Return the finding, the end of the run, then the reproducing command; all escaped."""
        finding = self.finding(str(self.path or ""))
        reproduce = f"reproduce: {escape(self.reproduce)}" if self.reproduce else ""
        return "\n".join(filter(None, (finding, escape_lines(self.account), reproduce)))


class ScriptExhausted(CheckFailed):
    """The loop asked the fake model for one reply more than its script holds."""


class ScriptUnused(CheckFailed):
    """The run ended before all replies were requested, or before a trigger of the scenario came."""


class ExpectationFailed(CheckFailed):
    """A run did not end as its scenario expects."""


class InvariantViolated(CheckFailed):
    """A run lacks a property that every run must have, independent of its expectations."""


class ReplayDiverged(CheckFailed):
    """A repeated run differs from the first run."""


class Deadlock(CheckFailed):
    """Nothing is ready to run and no timer is set: virtual time cannot move."""


class RunawayRun(CheckFailed):
    """A run goes on without anything new, or passed a bound, and has no outcome."""


class BrokenMachine(CheckFailed):
    """A user's loop machine raised, left its map, or made an impossible request."""


class InternalError(SimloopError):
    """An error in simloop, not in its use. Please report it with the message."""


@dataclass(frozen=True, slots=True)
class ErrorDetails:
    """One error as data, the place apart from the message; texts are escaped, None is unknown."""

    type: str
    message: str
    path: str | None = None
    line: int | None = None
    column: int | None = None
    key: str | None = None
    hint: str | None = None
    reproduce: str | None = None

    @classmethod
    def of(cls, error: SimloopError) -> tuple[Self, ...]:
        """Return the details of `error`; a ScenarioError has one for each mistake of the file."""
        name = type(error).__name__
        if not isinstance(error, ScenarioError | CheckFailed):
            return (cls(name, str(error)),)
        message, path = escape_lines(error.message), str(error.path) if error.path else None
        found = cls(name, message, path, key=error.key or None, hint=escape(error.hint) or None)
        if isinstance(error, ScenarioError):
            first = replace(found, line=error.line, column=error.column)
            return (first, *(each for other in error.others for each in cls.of(other)))
        message = "\n".join((message, *map(escape, error.others)))
        return (replace(found, message=message, reproduce=error.reproduce or None),)


def _one_line(place: str, key: str, message: str, hint: str) -> str:
    """Return `place: key: message (hint)`, with the parts that are known."""
    text = ": ".join(part for part in (place, key, message) if part)
    return f"{text} ({hint})" if hint else text


def install_hint(extra: str) -> str:
    """Return the command that installs an extra: nothing is published, so users have a clone."""
    return f"in a clone of simloop: pip install '.[{extra}]'"
