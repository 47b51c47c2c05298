"""How the cost of something grows with its size, as a ratio measured in one run."""

import time
from collections.abc import Callable

_TRIES = 3
FACTOR = 8
# Twice of what linear growth gives on a noisy machine, half of what the square gives.
LINEAR = 3 * FACTOR


def growth(work: Callable[[int], object], size: int) -> float:
    """Return how much more CPU time `work(FACTOR * size)` takes than `work(size)`, best of 3."""
    small, large = (min(_cost(work, n) for _ in range(_TRIES)) for n in (size, FACTOR * size))
    return large / small


def _cost(work: Callable[[int], object], size: int) -> float:
    start_s = time.process_time()
    work(size)
    return time.process_time() - start_s
