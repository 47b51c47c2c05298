"""How many rounds a second, trace recorded; and whether time grows with the rounds or faster.

python -m pytest tests/benchmarks/bench_rounds.py
"""

import math
import time
from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from workload import w

from simloop.trace.codec import encode


def encoded(rounds: int) -> None:
    encode(w(rounds))


@pytest.mark.parametrize("rounds", [1, 10, 100, 1_000, 10_000])
@pytest.mark.parametrize("work", [w, encoded], ids=["recorded", "encoded"])
def test_rounds(benchmark: BenchmarkFixture, work: Callable[[int], object], rounds: int) -> None:
    benchmark.group = work.__name__
    benchmark(work, rounds)
    assert benchmark.stats is not None
    per_second = round(rounds / benchmark.stats.stats.median)
    benchmark.extra_info["rounds/s"] = per_second
    print(f"\n{work.__name__}({rounds}): {per_second:,} rounds/s (median)")


def test_time_grows_with_the_rounds_and_no_faster(benchmark: BenchmarkFixture) -> None:
    """The exponent of total time between 100 and 10,000 rounds, garbage collection included."""
    small, large = _best(100, 200), _best(10_000, 5)
    exponent = math.log(large / small) / math.log(100)
    benchmark.extra_info["exponent"] = exponent
    print(f"\nexponent from 100 to 10,000 rounds: {exponent:.3f}")
    benchmark(w, 100)


def _best(rounds: int, passes: int) -> float:
    """The shortest of several passes, in seconds."""
    return min(_seconds(rounds) for _ in range(passes))


def _seconds(rounds: int) -> float:
    start = time.perf_counter()
    w(rounds)
    return time.perf_counter() - start
