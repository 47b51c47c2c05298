"""The waits of an agent's code after each entry of its run, noted while the run goes on.

A trace has the sleeps of a second or more alone, because an entry for each wait would make it long.
A run that is watched leaves the trace that it leaves otherwise.
"""

import contextlib
import io
from collections.abc import Iterable
from functools import partial
from types import FrameType

from simloop.errors import SimloopError
from simloop.runs.plan import Plan
from simloop.runs.run import Simulation
from simloop.trace.entries import AnyEntry
from simloop.trace.looptrace import LoopTrace
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.clock.waits import Wait, before_time_moves, sleep_of_caller, waits
from simloop.virtual.simulate import running_loop

MOST_WATCHED = 20_000
"""The entries of a run whose waits are noted."""


class Waits:
    """The waits after the entries of one run; times are those of its trace."""

    def __init__(self) -> None:
        self._after: dict[int, tuple[Wait, ...]] = {}
        self._newest = -1
        self._start_ns = 0
        self._has_moved = False

    def watch(self, run: Simulation) -> None:
        """Note the waits of a run that is about to begin, if it is of an agent of one's own."""
        if run.loop.machine is None:  # an engine records its waits
            run.listen(self._read)

    def watch_again(self, plan: Plan, trace: LoopTrace) -> None:
        """Make a recorded run of an agent again, and note its waits if it is the same run."""
        if plan.loop.machine is not None:
            return
        again = Simulation(plan, seed=trace.header.seed)
        self.watch(again)
        aside = io.StringIO()  # what the agent prints was seen when the run was recorded
        with contextlib.redirect_stdout(aside), contextlib.suppress(SimloopError):
            again.run()
        if again.trace.entries[: len(trace.entries)] != trace.entries:
            self._after.clear()

    def after(self, place: int) -> tuple[Wait, ...]:
        """Return the waits after an entry; none if they were not noted."""
        return self._after.get(place, ())

    def _read(self, entry: AnyEntry) -> None:
        loop = running_loop()
        if self._newest < 0:
            self._start_ns = loop.now_ns - entry.at_ns
            before_time_moves(loop, partial(self._move, loop))
        self._newest, self._has_moved = entry.seq, entry.seq >= MOST_WATCHED
        if not self._has_moved:
            self._note(waits(loop))

    def _move(self, loop: VirtualLoop, nanoseconds: int, frame: FrameType) -> None:
        """Replace the waits at the newest entry by those at the first move of time after it."""
        if not self._has_moved:
            self._has_moved = True
            self._note([*sleep_of_caller(loop, nanoseconds, frame), *waits(loop)])

    def _note(self, found: Iterable[Wait]) -> None:
        self._after[self._newest] = tuple(
            each if each.due_ns is None else each._replace(due_ns=each.due_ns - self._start_ns)
            for each in found
        )
