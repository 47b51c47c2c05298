"""What hooks cost in the engine: usual ones, and numbers of idle ones.

python -m pytest tests/benchmarks/bench_hooks.py --benchmark-columns=min,median,iqr,rounds

A row is a batch of 1,000 passages of a point, so its milliseconds are microseconds of one passage.
`--benchmark-autosave` and `--benchmark-compare` work as usual.
"""

from collections.abc import Callable
from typing import Any

import pytest
from usual_hooks import usual_hooks

from simloop.bench.hook_bench import GivenHook, HookBenchmark
from simloop.engine.hooks import BEFORE_TOOL_CALL, POINTS

COUNTS = (1, 4, 16)
USUAL = [GivenHook(at, hook) for at in POINTS for hook in getattr(usual_hooks, at)]


@pytest.mark.parametrize("hook", USUAL, ids=lambda hook: f"{hook.point}-{hook.function.name}")
def test_usual_hooks(hook_benchmark: HookBenchmark, hook: GivenHook) -> None:
    hook_benchmark(hook.function, at=hook.point)


def _nothing(given: object) -> None:
    """Do nothing."""


async def _nothing_async(given: object) -> None:
    """Do nothing."""


@pytest.mark.parametrize("hook", [_nothing, _nothing_async])
@pytest.mark.parametrize("hooks", COUNTS)
def test_numbers_of_hooks(
    hook_benchmark: HookBenchmark, hooks: int, hook: Callable[[Any], Any]
) -> None:
    hook_benchmark(hook, at=BEFORE_TOOL_CALL, hooks=hooks)
