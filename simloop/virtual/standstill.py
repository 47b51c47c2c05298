"""The detection of a program that makes no progress.

The detector takes a sample of the program's state (program_state.py) every 75,000 callbacks of the
event loop. The program makes progress if anything changes but numbers: a text, the type of an
object, the size of a collection. A number that changes is progress only towards a goal: another
number of the program that stands still, lies ahead, and can be reached before the bound on
callbacks. Virtual time counts as such a number, so a program that waits until a time makes
progress. The rest of an iterator counts too, and its goal is zero. A number that goes to and fro,
such as one drawn at random, has no goal.

A program without progress is stuck after 300,000 callbacks in which nothing but time changed, or
after 600,000 if numbers changed.

Not here: the bound on callbacks, which ends every program at last (clock.py). The rules to keep: it
counts callbacks and never reads a clock; a doubt counts as progress.
"""

import math
from bisect import bisect_left, bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from simloop.virtual.answers import ANSWERS
from simloop.virtual.program_state import ProgramState, places_of, state_of
from simloop.virtual.waiting import names_of_numbers

if TYPE_CHECKING:
    from simloop.virtual.clock import VirtualLoop

# For a program that makes progress.
MAX_CALLBACKS = 12_000_000
ADVICE = "if the program is meant to run longer, give simulate a larger max_callbacks"
# A goal may be computed, so it is not found; so a program that counts has more time.
_STRIDES = 4
_STRIDES_OF_NUMBERS = 8
_NAMED = 3
# A program that goes round comes back to its earlier places after some callbacks, and to its
# earlier numbers after some rounds. A sample costs as much as thousands of comparisons of places.
_LOOKS = 20_000
_SAMPLES = 8
# Seconds, and the other units in which programs count time.
_UNITS_NS = (1_000_000_000, 1_000_000, 1_000, 1)


class _Sample(NamedTuple):
    callbacks: int
    places: list[Any]
    state: ProgramState
    clocks: list[int]
    walls: list[int]

    @property
    def numbers(self) -> list[float]:
        return [*self.clocks, *self.walls, *self.state.numbers]

    def is_past(self, number: float) -> bool:
        """Return whether the number is a date and time between the start of the run and now."""
        passed = zip(self.clocks, self.walls, strict=False)
        return any(wall - clock <= number <= wall for clock, wall in passed)


class Standstill:
    """Looks at a loop from time to time; `finding` says why the program is stuck, once it is."""

    # 4 times 75,000 callbacks take half a second, and a second if each waits for a timer.
    stride = 75_000

    def __init__(self) -> None:
        self._first: _Sample | None = None
        self._last: _Sample | None = None
        self._alike: _Sample | None = None
        self._looks = 0
        self.finding = ""

    def look(self, loop: "VirtualLoop", callbacks: int) -> int:
        """Compare the state of `loop` with earlier ones, and set `finding` if it is stuck.

        Returns the number of callbacks after which to look again.
        """
        places = places_of(loop)
        self._looks += 1 + len(places)
        first, last = self._first, self._last
        if first is None or last is None or self._looks > _LOOKS:
            return self._go_on(_sample(loop, callbacks, places), callbacks)
        if places != first.places:
            return callbacks
        self._looks += _LOOKS // _SAMPLES
        now = _sample(loop, callbacks, places)
        if now is None or now.state.shape != first.state.shape:
            return callbacks
        self._alike = now
        if _has_goal(first, last, now):
            return callbacks
        changed = _changed(first, now)
        strides = _STRIDES_OF_NUMBERS if changed else _STRIDES
        if callbacks - first.callbacks >= strides * self.stride:
            self.finding = _finding(loop, first, now, changed)
        return self._go_on(now, callbacks)

    def _go_on(self, now: _Sample | None, callbacks: int) -> int:
        """Keep the first sample as long as a later one was like it; else begin with `now`."""
        if self._alike is None:
            self._first = now
        self._last = self._alike or now
        self._alike = None
        self._looks = 0
        # A large state is compared less often.
        return callbacks + self.stride + (len(now.state.shape) if now else _LOOKS)


def _sample(loop: "VirtualLoop", callbacks: int, places: list[Any]) -> _Sample | None:
    state = state_of(loop)
    if state is None:
        return None
    answers = ANSWERS.get(loop)
    return _Sample(
        callbacks,
        places,
        state,
        clocks=[loop.now_ns // unit_ns for unit_ns in _UNITS_NS],
        walls=[answers.wall_ns // unit_ns for unit_ns in _UNITS_NS] if answers else [],
    )


def _has_goal(first: _Sample, last: _Sample, now: _Sample) -> bool:
    """Return whether a number moves steadily towards one that stands still."""
    passed, left = now.callbacks - first.callbacks, MAX_CALLBACKS - now.callbacks
    goals = _goals(first, now)
    for before, between, value in zip(first.numbers, last.numbers, now.numbers, strict=True):
        growth = value - before
        is_moving = growth < 0 or growth > 0  # false for NaN too
        if not is_moving or (between - before) * (value - between) < 0:
            continue
        reach = (abs(growth) + 1) * left // passed
        ahead = (value, value + reach) if growth > 0 else (value - reach, value)
        # The growth counts too: a program may compare the difference to the start.
        grown = (abs(growth), abs(growth) + reach)
        if any(bisect_left(goals, low) < bisect_right(goals, high) for low, high in (ahead, grown)):
            return True
    return False


def _goals(first: _Sample, now: _Sample) -> list[float]:
    """Return the numbers that stand still, in order, without the times that are over."""
    pairs = zip(first.state.numbers, now.state.numbers, strict=True)
    still = {0, *now.state.constants, *(value for before, value in pairs if value == before)}
    return sorted(number for number in still if not now.is_past(number))


def _changed(first: _Sample, now: _Sample) -> set[float]:
    """Return the numbers that changed, without times in seconds that moved with the clock."""
    passed_s = (now.clocks[-1] - first.clocks[-1]) / _UNITS_NS[0]
    return {
        value
        for before, value in zip(first.state.numbers, now.state.numbers, strict=True)
        if (value < before or value > before)
        and not (type(value) is float and math.isclose(value - before, passed_s))
    }


def _finding(loop: "VirtualLoop", first: _Sample, now: _Sample, changed: set[float]) -> str:
    names = list(islice(names_of_numbers(loop.unfinished(), changed), _NAMED))
    what = [
        *(["time"] if now.clocks != first.clocks else []),
        *([f"`{name}`" for name in names] or ["numbers"] * bool(changed)),
    ]
    only = f"only {' and '.join(what)} changed" if what else "nothing changed"
    return f"no progress: {only} in {now.callbacks - first.callbacks} callbacks"
