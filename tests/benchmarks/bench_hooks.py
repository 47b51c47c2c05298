"""What hooks cost: usual ones in the engine, and idle ones in simpler loops of calls.

python -m pytest tests/benchmarks/bench_hooks.py --benchmark-columns=min,median,iqr,rounds

A row is a batch of 1,000 passages of a point, so its milliseconds are microseconds of one passage.
`--benchmark-autosave` and `--benchmark-compare` work as usual.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pluggy
import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from usual_hooks import usual_hooks

from simloop.bench.hook_bench import INPUTS, GivenHook, HookBenchmark
from simloop.engine.hooks import BEFORE_TOOL_CALL, POINTS

CALLS, COUNTS = 1_000, (1, 4, 16)
GIVEN = INPUTS[BEFORE_TOOL_CALL]()
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


@pytest.mark.parametrize("hooks", COUNTS)
def test_plain_calls(benchmark: BenchmarkFixture, hooks: int) -> None:
    def calls() -> None:
        for _ in range(CALLS):
            for function in (_nothing,) * hooks:
                function(GIVEN)

    benchmark.group = BEFORE_TOOL_CALL
    benchmark(calls)


@pytest.mark.parametrize("hooks", COUNTS)
def test_plain_awaits(benchmark: BenchmarkFixture, hooks: int) -> None:
    async def calls() -> None:
        for _ in range(CALLS):
            for function in (_nothing_async,) * hooks:
                await function(GIVEN)

    benchmark.group = BEFORE_TOOL_CALL
    benchmark(lambda: asyncio.run(calls()))


@pytest.mark.parametrize("hooks", COUNTS)
def test_pluggy(benchmark: BenchmarkFixture, hooks: int) -> None:
    manager = pluggy.PluginManager("bench")
    hookspec, hookimpl = pluggy.HookspecMarker("bench"), pluggy.HookimplMarker("bench")

    class Specification:
        @hookspec
        def call(self, given: object) -> None: ...

    manager.add_hookspecs(Specification)
    for _ in range(hooks):

        class Plugin:
            @hookimpl
            def call(self, given: object) -> None:
                """Do nothing."""

        manager.register(Plugin())

    def calls() -> None:
        for _ in range(CALLS):
            manager.hook.call(given=GIVEN)

    benchmark.group = BEFORE_TOOL_CALL
    benchmark(calls)
