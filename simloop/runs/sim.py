"""The fixture `sim` of an async test: the clock, the trace and the tools of its run.

Not here: the fixture itself (pytest_plugin). The rule to keep: it shows the run and adds to its
trace, and changes nothing else.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from simloop.errors import ScenarioError
from simloop.runs.async_test import AsyncTest
from simloop.trace.looptrace import LoopTrace
from simloop.world.current import note
from simloop.world.traced import traced

F = TypeVar("F", bound=Callable[..., Any])


class Sim:
    """The run of an async test."""

    def __init__(self) -> None:
        self._test: AsyncTest | None = None

    def begin(self, test: AsyncTest) -> None:
        """Begin a run of the test."""
        self._test = test

    @property
    def now(self) -> float:
        """Return the virtual seconds since the test began; `now_ns` is exact."""
        return self.now_ns / 1e9

    @property
    def now_ns(self) -> int:
        """Return the virtual nanoseconds since the test began."""
        return self._run().prepared.elapsed_ns

    @property
    def seed(self) -> int:
        """Return the seed of this run."""
        return self._run().prepared.seeds.seed

    @property
    def trace(self) -> LoopTrace:
        """Return the trace, as far as the run has come."""
        return self._run().prepared.trace

    def tool(self, function: F) -> F:
        """Return the function, whose calls are recorded as a tool's: see `simloop.traced`."""
        return traced(function)

    def note(self, text: str) -> None:
        """Write a note into the trace: see `simloop.note`."""
        note(text)

    def _run(self) -> AsyncTest:
        if self._test is None:
            raise ScenarioError("the test has not begun", hint="use `sim` in the body of the test")
        return self._test
