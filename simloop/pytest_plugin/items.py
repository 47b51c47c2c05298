"""Scenario files as test items.

Not here: which files these are (the hooks of the plugin). The rule to keep: an item is a Function,
so that fixtures, marks and other plugins work with it.
"""

import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest._code.code import TerminalRepr

SUFFIX = ".simloop.yaml"


def escaped(text: str) -> str:
    """Return `text` escaped: pytest prints names, and ends the session if it cannot encode one."""
    from simloop.escape import escape  # noqa: PLC0415 - see the module docstring

    return escape(text, 10_000)  # a longer path than there can be: names stay different


class ScenarioFile(pytest.File):
    """A scenario file, with one item."""

    def collect(self) -> Iterator["ScenarioItem"]:
        """Yield the item."""
        path = self.path

        def play(simloop_run: Callable[[Path], object]) -> None:
            simloop_run(path)

        item: ScenarioItem = ScenarioItem.from_parent(
            self, name=escaped(path.name.removesuffix(SUFFIX)), callobj=play
        )
        yield item


class ScenarioItem(pytest.Function):
    """A scenario as a test. It is a Function, so that fixtures, marks and other plugins work."""

    def reportinfo(self) -> tuple[str, int, str]:
        """Return the place of the scenario, for reports."""
        return escaped(str(self.path)), 0, self.name

    # The signature of pytest's Function; Node has one parameter more.
    def repr_failure(  # type: ignore[override]
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> "str | TerminalRepr":
        """Return the message of a finding without frames, or the text of pytest for others."""
        if not is_finding(excinfo.value) or self.config.getoption("fulltrace"):
            return super().repr_failure(excinfo)
        return message_alone(excinfo, self.path, 1)


def message_alone(
    excinfo: pytest.ExceptionInfo[BaseException], path: Path, line: int
) -> "TerminalRepr":
    """Return the message of an error without frames; summaries name the place that is given."""
    shown = excinfo.getrepr(style="value", chain=False)
    if shown.reprcrash is not None:  # summaries and junit files quote it
        first_line = str(excinfo.value).partition("\n")[0]
        crash = dataclasses.replace(
            shown.reprcrash, path=escaped(str(path)), lineno=line, message=first_line
        )
        shown.reprcrash = crash
        if hasattr(shown, "chain"):  # xdist sends it
            shown.chain = [(shown.reprtraceback, crash, None)]
    return shown


def is_finding(error: BaseException) -> bool:
    """Return whether the error is of the author or the loop."""
    errors = sys.modules.get("simloop.errors")
    return errors is not None and isinstance(error, errors.CheckFailed | errors.ScenarioError)
