"""Scenario files as test items, and the reports of failing tests with the frames of the user."""

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr

    from simloop.runs.run import Simulation
    from simloop.world.user_functions import UserError

SUFFIX = ".simloop.yaml"
_HEADING = "simloop: the last run of this test"
Raised: TypeAlias = pytest.ExceptionInfo[BaseException]


def last_of(run: "Simulation", raised: "Sequence[UserError]", which: str, again: str) -> str:
    """Return the end of the last run of a test, and the command that repeats it."""
    from simloop.escape import escape  # noqa: PLC0415 - see the docstring of the plugin
    from simloop.runs.result import account  # noqa: PLC0415

    return which + account(run.trace, (), raised).lstrip("\n") + f"\nreproduce: {escape(again)}"


class ScenarioFile(pytest.File):
    """A scenario file, with one item."""

    def collect(self) -> Iterator["ScenarioItem"]:
        path = self.path

        def play(simloop_run: Callable[[Path], object]) -> None:
            simloop_run(path)

        yield ScenarioItem.from_parent(self, name=path.name.removesuffix(SUFFIX), callobj=play)


class ScenarioItem(pytest.Function):
    """A scenario as a test. It is a Function, so that fixtures, marks and other plugins work."""

    def reportinfo(self) -> tuple[str, int, str]:
        return str(self.path), 0, self.name

    # The signature of pytest's Function; Node has one parameter more.
    def repr_failure(self, excinfo: Raised) -> "str | TerminalRepr":  # type: ignore[override]
        """Return the message of a finding without frames, or the text of pytest for others."""
        if not is_finding(excinfo.value) or self.config.getoption("fulltrace"):
            return super().repr_failure(excinfo)
        return message_alone(excinfo, self.path, 1)


def message_alone(excinfo: Raised, path: Path, line: int) -> "TerminalRepr":
    """Return the message of an error without frames; summaries name the place that is given."""
    shown = excinfo.getrepr(style="value", chain=False)
    if shown.reprcrash is not None:  # summaries and junit files quote it
        first = str(excinfo.value).partition("\n")[0]
        crash = dataclasses.replace(shown.reprcrash, path=str(path), lineno=line, message=first)
        shown.reprcrash = crash
        if hasattr(shown, "chain"):  # xdist sends it
            shown.chain = [(shown.reprtraceback, crash, None)]
    return shown


def is_finding(error: BaseException) -> bool:
    """Return whether the error is of the author or the loop."""
    errors = sys.modules.get("simloop.errors")
    return errors is not None and isinstance(error, errors.CheckFailed | errors.ScenarioError)


@contextlib.contextmanager
def folded(call: pytest.CallInfo[None]) -> Iterator[list[str]]:
    """Let pytest see the frames of the user alone, and yield lines about the others.

    An exception that led to the error and has no frame of the user becomes a line as well.
    Afterwards each exception has its frames again, for a debugger. Nothing is folded if the error
    has no frame of the user.
    """
    from simloop.world.user_functions import frames_of_the_user  # noqa: PLC0415 - see the docstring of the plugin

    info, lines = call.excinfo, list[str]()
    if info is None or frames_of_the_user(info.value) is None:
        yield lines
        return
    with contextlib.ExitStack() as restored:
        _fold(info.value, lines, restored)
        call.excinfo = pytest.ExceptionInfo.from_exception(info.value)
        restored.callback(setattr, call, "excinfo", info)
        yield lines


def _fold(error: BaseException, lines: list[str], restored: contextlib.ExitStack) -> None:
    from simloop.escape import escape  # noqa: PLC0415 - as above
    from simloop.world import user_functions  # noqa: PLC0415

    frames_of_the_user = user_functions.frames_of_the_user
    if place := user_functions.place_in_a_library(error):
        lines.append(f"raised by {escape(place)} (--full-trace shows its frames)")
    last, seen = error, {id(error)}
    while True:
        cause = _led_to(last)
        while cause is not None and frames_of_the_user(cause) is None and id(cause) not in seen:
            seen.add(id(cause))
            if not user_functions.is_simloops_own(cause):
                lines.append(f"after {escape(user_functions.describe(cause))}")
            cause = _led_to(cause)
        # Restored from the last to the first: an assignment to the cause sets the first of them.
        for name in ("__suppress_context__", "__cause__", "__traceback__"):
            restored.callback(setattr, last, name, getattr(last, name))
        last.__traceback__ = frames_of_the_user(last)
        for each in last.exceptions if isinstance(last, BaseExceptionGroup) else ():
            _fold(each, lines, restored)
        if cause is not _led_to(last):
            last.__cause__ = cause
        if cause is None or id(cause) in seen:
            return
        seen.add(id(cause))
        last = cause


def _led_to(error: BaseException) -> BaseException | None:
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def begin_with(report: pytest.TestReport, excinfo: Raised, text: str) -> None:
    """Put a text before the frames of a report, in a form that xdist can send."""
    longrepr: Any = report.longrepr
    chain = getattr(longrepr, "chain", None)  # the native style has none
    if (first := chain[0][0] if chain else getattr(longrepr, "reprtraceback", None)) is None:
        report.sections.append((_HEADING, text))
        return
    native: Any = excinfo.getrepr(style="native", chain=False)
    (entry,) = native.reprtraceback.reprentries
    entry.lines = [f"{_HEADING}\n", text, "\n"]
    first.reprentries = [entry, *first.reprentries]
