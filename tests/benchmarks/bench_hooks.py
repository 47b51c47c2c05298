"""What hooks cost in the engine: usual ones, and numbers of idle ones.

python -m pytest tests/benchmarks/bench_hooks.py --benchmark-columns=min,median,iqr,rounds

A row is a batch of 1,000 passages of a point, so its milliseconds are microseconds of one passage.
`--benchmark-autosave` and `--benchmark-compare` work as usual.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import pytest
from usual_hooks import usual_hooks

from simloop.bench.hook_bench import GivenHook, Passages
from simloop.engine.hooks import BEFORE_TOOL_CALL, POINTS
from simloop.virtual.simulate import run_virtual
from simloop.world.user_functions import UserFunction

COUNTS = (1, 4, 16)
USUAL = [GivenHook(at, hook) for at in POINTS for hook in getattr(usual_hooks, at)]


def measure(benchmark: Any, point: str, hooks: tuple[UserFunction, ...]) -> None:
    async def passages() -> None:
        await Passages(point, perf_counter_ns).batch(hooks, 1_000)

    benchmark.group = point
    benchmark.extra_info.update(hooks=len(hooks))
    benchmark(lambda: run_virtual(passages(), max_callbacks=10**9))


@pytest.mark.parametrize("hook", USUAL, ids=lambda hook: f"{hook.point}-{hook.function.name}")
def test_usual_hooks(benchmark: Any, hook: GivenHook) -> None:
    measure(benchmark, hook.point, (hook.function,))


def _nothing(given: object) -> None:
    """Do nothing."""


async def _nothing_async(given: object) -> None:
    """Do nothing."""


@pytest.mark.parametrize("hook", [_nothing, _nothing_async])
@pytest.mark.parametrize("hooks", COUNTS)
def test_numbers_of_hooks(benchmark: Any, hooks: int, hook: Callable[[Any], Any]) -> None:
    measure(benchmark, BEFORE_TOOL_CALL, (UserFunction(hook),) * hooks)
