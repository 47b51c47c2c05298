"""What hooks cost: those that do nothing, in the engine, in a plain loop of calls, and in pluggy.

python -m pytest tests/benchmarks/bench_hooks.py --benchmark-columns=min,median,iqr,rounds

A row is a batch of 1,000 passages of a point, so its milliseconds are microseconds of one passage.
`--benchmark-autosave` and `--benchmark-compare` work as usual.
"""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from simloop.bench.fixture import CALLS, HookBenchmark
from simloop.bench.point_calls import PlainCalls, PluggyCalls
from simloop.bench.shapes import SHAPES, shape
from simloop.engine.hooks import BEFORE_TOOL_CALL
from simloop.virtual.running import run_virtual

COUNTS = (1, 4, 16)
KINDS = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@KINDS
@pytest.mark.parametrize(("name", "point"), [(name, at) for name in SHAPES for at in SHAPES[name]])
def test_shapes(hook_benchmark: HookBenchmark, name: str, point: str, *, is_async: bool) -> None:
    hook_benchmark(shape(name, point, is_async=is_async), at=point)


@KINDS
@pytest.mark.parametrize("hooks", COUNTS)
def test_numbers_of_hooks(hook_benchmark: HookBenchmark, hooks: int, *, is_async: bool) -> None:
    hook = shape("no-op", BEFORE_TOOL_CALL, is_async=is_async)
    hook_benchmark(hook, at=BEFORE_TOOL_CALL, hooks=hooks)


@KINDS
@pytest.mark.parametrize("hooks", COUNTS)
def test_plain_calls(benchmark: BenchmarkFixture, hooks: int, *, is_async: bool) -> None:
    benchmark.group = BEFORE_TOOL_CALL
    calls = PlainCalls(
        BEFORE_TOOL_CALL, [shape("no-op", BEFORE_TOOL_CALL, is_async=is_async)] * hooks
    )
    benchmark(lambda: run_virtual(calls.batch(CALLS)))


@pytest.mark.parametrize("hooks", COUNTS)
def test_pluggy(benchmark: BenchmarkFixture, hooks: int) -> None:
    benchmark.group = BEFORE_TOOL_CALL
    calls = PluggyCalls(BEFORE_TOOL_CALL, [shape("no-op", BEFORE_TOOL_CALL) for _ in range(hooks)])
    benchmark(lambda: run_virtual(calls.batch(CALLS)))
