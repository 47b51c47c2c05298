"""Confidence intervals that assume no distribution.

The rule to keep: no sample is left out. A median and its interval by ranks stay where they are when
a few samples are a thousand times too large, as the timings of a busy machine are.
"""

from collections.abc import Sequence
from math import comb

from msgspec import Struct

CONFIDENCE = 0.9999
"""Of each interval. A table has about 50, so at 95 % each table would have false alarms."""


class Interval(Struct, frozen=True):
    """A median, and the bounds of its confidence interval."""

    low: float
    median: float
    high: float

    @property
    def has_zero(self) -> bool:
        """Return whether zero lies between the bounds."""
        return self.low <= 0 <= self.high

    def widened(self, by: float) -> "Interval":
        """Return the interval with both bounds moved outwards."""
        return Interval(self.low - by, self.median, self.high + by)

    def over(self, divisor: float) -> "Interval":
        """Return the interval of the quotient with a positive number."""
        return Interval(self.low / divisor, self.median / divisor, self.high / divisor)


def median_interval(samples: Sequence[float]) -> Interval:
    """Return the median of at least 15 samples, and the interval of it at `CONFIDENCE`.

    A sample lies below the true median with a probability of one half, so the number of those that
    do is binomial (the sign test). The bounds are the samples at the ranks that follow from that.
    """
    ordered, size = sorted(samples), len(samples)
    middle = (ordered[(size - 1) // 2] + ordered[size // 2]) / 2
    rank = _rank(size)
    return Interval(ordered[rank], middle, ordered[size - 1 - rank])


def _rank(size: int) -> int:
    """Return the rank, counted from 0, of the sample at the lower bound."""
    allowed = (1 - CONFIDENCE) / 2 * 2**size
    rank, below = 0, 1
    assert below <= allowed, f"{size} samples are too few"
    while (below := below + comb(size, rank + 1)) <= allowed:
        rank += 1
    return rank
