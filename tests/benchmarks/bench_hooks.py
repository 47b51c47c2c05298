"""What a hook costs: 0, 1, 4 and 16 hooks that do nothing at each of the four points.

python -m pytest tests/benchmarks/bench_hooks.py
"""

import time
from collections.abc import Callable
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from workload import same_hook_everywhere, w

ROUNDS = 100
COUNTS = (0, 1, 4, 16)


def plain(given: object) -> None:
    """A hook that does nothing."""


async def asynchronous(given: object) -> None:
    """An async hook that does nothing."""


def hook_calls(count: int) -> int:
    """Two points see every round, two only those with a tool call."""
    return count * (2 * ROUNDS + 2 * (ROUNDS - 1))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("hook", [plain, asynchronous], ids=["sync", "async"])
def test_hooks(benchmark: BenchmarkFixture, hook: Callable[..., Any], count: int) -> None:
    benchmark.group = hook.__name__
    benchmark(w, ROUNDS, same_hook_everywhere(hook, count))


@pytest.mark.parametrize("hook", [plain, asynchronous], ids=["sync", "async"])
def test_marginal_cost(benchmark: BenchmarkFixture, hook: Callable[..., Any]) -> None:
    """Nanoseconds for one hook call more, from runs taken in turn so that noise is shared."""
    best = dict.fromkeys(COUNTS, float("inf"))
    for _ in range(30):
        for count in COUNTS:
            start = time.perf_counter()
            w(ROUNDS, same_hook_everywhere(hook, count))
            best[count] = min(best[count], time.perf_counter() - start)
    for count in COUNTS[1:]:
        marginal_ns = (best[count] - best[0]) / hook_calls(count) * 1e9
        benchmark.extra_info[f"ns per call, {count} hooks"] = marginal_ns
        print(f"\n{hook.__name__}, {count} at each point: {marginal_ns:.0f} ns per hook call")
    benchmark(w, ROUNDS)
