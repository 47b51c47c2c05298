"""Choices: the one interface through which worlds are drawn, and its back ends.

Not here: the values to draw (settings.py, replies.py, scripts.py). The rule to keep: 0 is always
the benign choice (no fault, no latency, the default), and a recorded list that is used up gives 0.
So a shorter list, or a list with smaller numbers, draws a plainer world. A world has no count in
front of a list and no pick from the rest of a list: a shrinker could not take one element away
without a change of the others.
"""

import _random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Protocol, TypeVar

from simloop.virtual.seeds import Seeds

T = TypeVar("T")


class Choices(Protocol):
    """A source of choices."""

    def boolean(self, p: float) -> bool:
        """Return whether something of probability `p` happens; False is the benign choice."""
        ...

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`; `low` is the benign choice."""
        ...

    def weighted(self, weights: Sequence[int]) -> int:
        """Return an index with a probability proportional to its weight, never one of weight 0.

        Index 0 is the benign choice, also if its weight is 0.
        """
        ...

    def maybe(self, p: float, make: Callable[["Choices"], T]) -> T | None:
        """Return the value that `make` draws, with the probability `p`, or None.

        A shrinker takes the value away with all choices that `make` needs.
        """
        ...

    def several(self, most: int, make: Callable[[int], T]) -> list[T]:
        """Return up to `most` values; `make` draws each of them, and takes its index.

        A choice whether there is one more comes before each value. All lengths are equally
        probable.
        """
        ...


def one_of(choices: Choices, values: Sequence[Any]) -> Any:
    """Return one of the values; the first is the benign choice."""
    return values[choices.integer(0, len(values) - 1)]


class _InOrder:
    """Choices that are made one after the other: nothing marks those of one value."""

    __slots__ = ()

    def maybe(self: Choices, p: float, make: Callable[[Choices], T]) -> T | None:
        """Return the value that `make` draws, or None."""
        return make(self) if self.boolean(p) else None

    def several(self: Choices, most: int, make: Callable[[int], T]) -> list[T]:
        """Return up to `most` values that `make` draws."""
        drawn: list[T] = []
        for number in range(most):
            if not self.boolean((most - number) / (most - number + 1)):
                break
            drawn.append(make(number))
        return drawn


class SeededChoices(_InOrder):
    """Choices drawn from a seed, by a generator of their own."""

    __slots__ = ("_draw",)

    def __init__(self, seed: int, stream: str = "fuzz") -> None:
        # The base class of `random.Random` draws equal numbers with fewer calls.
        self._draw = _random.Random(Seeds(seed).number(stream)).random

    def boolean(self, p: float) -> bool:
        """Return whether something of probability `p` happens."""
        return self._draw() < p

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`."""
        return low + int(self._draw() * (high - low + 1))

    def weighted(self, weights: Sequence[int]) -> int:
        """Return an index with a probability proportional to its weight."""
        bounds = list(accumulate(weights))
        index = bisect_right(bounds, self._draw() * bounds[-1])
        return index if index < len(bounds) else 0


class RecordedChoices(_InOrder):
    """Choices read from a list; after the end of the list, each choice is 0, the benign one.

    A number above the range of its choice becomes the largest number of the range.
    """

    __slots__ = ("_left",)

    def __init__(self, drawn: Sequence[int]) -> None:
        self._left = iter(drawn)

    def boolean(self, p: float) -> bool:
        """Return whether something happens, unless it has the probability 0 or 1."""
        drawn = bool(next(self._left, 0))
        return (drawn or p >= 1) and p > 0

    def integer(self, low: int, high: int) -> int:
        """Return the next number above `low`, at most `high`."""
        return min(low + max(next(self._left, 0), 0), high)

    def weighted(self, weights: Sequence[int]) -> int:
        """Return the next number as an index; 0 if its weight is 0."""
        index = min(max(next(self._left, 0), 0), len(weights) - 1)
        return index if weights[index] else 0


class Recording(_InOrder):
    """Choices from another source, recorded in `drawn` for `RecordedChoices`."""

    __slots__ = ("_source", "drawn")

    def __init__(self, source: Choices) -> None:
        self._source = source
        self.drawn: list[int] = []

    def boolean(self, p: float) -> bool:
        """Return and record a choice of the source."""
        value = self._source.boolean(p)
        self.drawn.append(int(value))
        return value

    def integer(self, low: int, high: int) -> int:
        """Return and record a choice of the source."""
        value = self._source.integer(low, high)
        self.drawn.append(value - low)
        return value

    def weighted(self, weights: Sequence[int]) -> int:
        """Return and record a choice of the source."""
        value = self._source.weighted(weights)
        self.drawn.append(value)
        return value
