"""The types of the pytest fixtures, for the annotations of tests.

Not here: the fixtures (pytest_plugin). The rule to keep: nothing here needs pytest, so that a
module of helpers can name the types.
"""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol, TypeVar, Unpack

from simloop.runs.options import RunOptions
from simloop.runs.result import Result
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario
from simloop.world.fake_model import FakeModel

T = TypeVar("T")


class SimloopRun(Protocol):
    """The fixture `simloop_run`."""

    def __call__(
        self, scenario: Scenario | str | Path, *, check: bool = True, **options: Unpack[RunOptions]
    ) -> Result:
        """Run a scenario, or the file at a path relative to the test, and check what it expects.

        A scenario that expects an error instead of an outcome has no result, and the fixture
        returns None. The type omits None, because otherwise every test would have to check for it.
        """
        ...


class VirtualClock(Protocol):
    """The fixture `virtual_clock`."""

    def __call__(self, main: Coroutine[Any, Any, T], **settings: Any) -> T:
        """Run `main` on the virtual clock and return its result."""
        ...


class MakeFakeModel(Protocol):
    """The fixture `fake_model`."""

    def __call__(self, *replies: Reply, summaries: tuple[Reply, ...] = ()) -> FakeModel:
        """Make a fake model that plays the replies."""
        ...
