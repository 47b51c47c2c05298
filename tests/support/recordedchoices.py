"""Choices that a test states, so that it can draw one certain value."""

from collections.abc import Sequence

from simloop.fuzz.choices import InOrder


class RecordedChoices(InOrder):
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
