"""The benchmark measures what a hook costs, finds a slower one, and raises no false alarm.

Each test has a clock of its own, so a figure is exact on any machine. What the statistics find on
a real clock is in tests/benchmarks/hook_statistics.md.
"""

import asyncio
import gc
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from clocks import BusyWatch, Watch

from simloop import BeforeToolCall
from simloop.bench.hook_bench import (
    CONFIDENCE,
    INPUTS,
    GivenHook,
    HookBench,
    HookBenchmark,
    HookRow,
    Interval,
    Passages,
    given_hooks,
    median_interval,
    tried,
)
from simloop.engine.hooks import AFTER_LLM_CALL, BEFORE_TOOL_CALL, POINTS
from simloop.errors import ScenarioError
from simloop.virtual.simulate import run_virtual
from simloop.world.user_functions import UserFunction

US, HOUR_NS = 1_000, 3_600 * 10**9
UNIT_NS, ROUND_NS = 100 * US, 30 * US


def spinning(watch: Watch, nanoseconds: int, *, is_async: bool = False) -> UserFunction:
    """Return a hook that takes so much time of the watch."""

    async def spins_async(given: object) -> None:
        del given
        watch.takes(nanoseconds)

    def spins(given: object) -> None:
        del given
        watch.takes(nanoseconds)

    return UserFunction(spins_async if is_async else spins, "spins")


def measured(
    watch: Watch,
    hook: UserFunction,
    other: UserFunction | None = None,
) -> HookRow:
    bench = HookBench(clock=watch, unit=lambda: watch.takes(UNIT_NS))
    return bench.measure(GivenHook(BEFORE_TOOL_CALL, hook), ROUND_NS, other)


def between(middle: float, share: float = 0.02) -> Interval:
    """Return the interval of measurements that were all equal: no narrower than can be seen."""
    wider = max(10, share * middle)
    return Interval(middle - wider, middle, middle + wider)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("nanoseconds", [5 * US, 1_000 * US])
def test_a_hook_that_spins_is_measured_exactly(nanoseconds: int, *, is_async: bool) -> None:
    watch = Watch()
    row = measured(watch, spinning(watch, nanoseconds, is_async=is_async))
    assert (row.hook_ns, row.engine_ns, row.cost) == (nanoseconds, 0, between(nanoseconds))
    assert row.units == row.cost.over(UNIT_NS)
    assert row.share == nanoseconds / (nanoseconds + ROUND_NS)


def test_the_readings_of_the_clock_are_no_cost() -> None:
    watch = Watch(reading_ns=64)
    assert measured(watch, spinning(watch, 50 * US)).cost.median == 50 * US


def test_an_hour_of_virtual_time_is_no_real_time() -> None:
    async def hour(given: object) -> None:
        del given
        await asyncio.sleep(3_600)
        watch.takes(300 * US)

    watch = Watch()
    row = measured(watch, UserFunction(hour))
    assert (row.virtual_ns, row.hook_ns) == (HOUR_NS, 300 * US)


class TestAgainstAnotherHook:
    def test_the_growth_is_the_difference_in_parts_of_the_others_cost(self) -> None:
        watch = Watch()
        row = measured(watch, spinning(watch, 60 * US), spinning(watch, 50 * US))
        assert row.against is not None
        assert row.growth == row.against.over(50 * US)
        assert (row.against.median, row.growth.median) == (10 * US, 0.2)

    def test_equal_hooks_show_no_difference_on_a_busy_machine(self) -> None:
        for seed in range(5):
            watch = BusyWatch(seed)
            hook, other = spinning(watch, 100 * US), spinning(watch, 100 * US)
            difference = measured(watch, hook, other).against
            assert difference is not None
            assert difference.has_zero, seed

    def test_a_hook_that_is_a_fifth_slower_is_found_on_a_busy_machine(self) -> None:
        for seed in range(5):
            watch = BusyWatch(seed)
            row = measured(watch, spinning(watch, 120 * US), spinning(watch, 100 * US))
            assert row.growth is not None
            assert 0 < row.growth.low < 0.2 < row.growth.high < 0.4, seed


class TestTheTurns:
    def test_are_few_for_a_hook_that_takes_seconds(self) -> None:
        watch, calls = Watch(), []

        def slow(given: object) -> None:
            calls.append(given)
            watch.takes(10**9)

        row = measured(watch, UserFunction(slow))
        assert row.hook_ns == 10**9
        assert len(calls) == 5 + 5 + 21 + 1  # the size of a batch, the warm-up, the turns, a wait

    def test_begin_with_some_that_do_not_count(self) -> None:
        watch, calls = Watch(), []

        def warms_up(given: object) -> None:
            calls.append(given)
            watch.takes(US * (1_000 if len(calls) > 10 else 9_000))

        assert measured(watch, UserFunction(warms_up)).cost == between(1_000 * US)

    def test_have_an_order_that_is_drawn(self) -> None:
        watch, order = Watch(), ""

        def noting(name: str) -> UserFunction:
            def notes(given: object) -> None:
                nonlocal order
                del given
                order += name
                watch.takes(1_000 * US)

            return UserFunction(notes)

        measured(watch, noting("a"), noting("b"))
        turns = order[5:-1]
        assert {turns[at : at + 2] for at in range(0, len(turns), 2)} == {"ab", "ba"}

    @pytest.mark.parametrize("interrupted", [(1, 2, 3, 4), (7, 11)])
    def test_have_batches_of_equal_size_if_the_machine_is_busy_at_first(
        self, interrupted: tuple[int, ...]
    ) -> None:
        def calls(interrupted: tuple[int, ...]) -> int:
            watch, calls = Watch(), 0

            def hook(given: object) -> None:
                nonlocal calls
                del given
                calls += 1
                watch.takes(10 * US + 10**7 * (calls in interrupted))

            measured(watch, UserFunction(hook))
            return calls

        assert calls(interrupted) == calls(())

    def test_have_no_garbage_collection(self) -> None:
        watch, collects = Watch(), []

        def hook(given: object) -> None:
            del given
            collects.append(gc.isenabled())
            watch.takes(1_000 * US)

        assert gc.isenabled()
        measured(watch, UserFunction(hook))
        assert set(collects[5:-1]) == {False}
        assert gc.isenabled()


class TestARound:
    def test_includes_the_time_of_its_tool(self) -> None:
        watch = Watch()

        def look(path: str) -> str:
            watch.takes(37)
            return path

        assert HookBench(clock=watch, tool=look).round_ns() == 37

    def test_takes_nothing_else_where_no_time_passes(self) -> None:
        assert HookBench(clock=Watch()).round_ns() == 0


def at_each_point(function: Callable[[Any], object], *, is_stated: bool = False) -> Any:
    return tried(GivenHook(point, UserFunction(function, "hook"), is_stated) for point in POINTS)


class TestAHookThatFails:
    def test_at_some_points_is_measured_at_the_others(self) -> None:
        fit, failures = at_each_point(lambda given: given.call.name)
        assert [each.point for each in fit] == ["before_tool_call", "after_tool_call"]
        assert [failure.message for failure in failures] == [
            f"the hook hook fails at {point}: AttributeError: '{kind}' object has no attribute "
            "'call'"
            for point, kind in (
                ("before_llm_call", "BeforeLLMCall"),
                ("after_llm_call", "AfterLLMCall"),
            )
        ]

    def test_at_a_point_that_is_stated_is_refused(self) -> None:
        with pytest.raises(ScenarioError, match="hook fails at before_llm_call: AttributeError"):
            at_each_point(lambda given: given.call.name, is_stated=True)

    def test_at_each_point_is_refused(self) -> None:
        with pytest.raises(ScenarioError, match=r"hook fails at before_llm_call: ZeroDivision"):
            at_each_point(lambda _: 1 // 0)

    @pytest.mark.parametrize("is_async", [False, True])
    def test_in_a_later_call_is_refused_and_not_measured(self, *, is_async: bool) -> None:
        watch, calls = Watch(), []

        def fails(given: object) -> None:
            calls.append(given)
            if len(calls) == 100:
                raise KeyError("x")

        async def fails_async(given: object) -> None:
            fails(given)

        with pytest.raises(ScenarioError, match="fails at before_tool_call: KeyError: 'x'"):
            measured(watch, UserFunction(fails_async if is_async else fails))
        assert len(calls) >= 100

    def test_by_a_cancellation_is_refused(self) -> None:
        def cancels(given: object) -> None:
            raise asyncio.CancelledError

        with pytest.raises(ScenarioError, match="CancelledError"):
            at_each_point(cancels)


def test_a_hook_that_blocks_the_call_is_no_failure() -> None:
    blocks = UserFunction(lambda given: given.block("x"))
    fit, failures = tried([GivenHook("before_tool_call", blocks)])
    assert (len(fit), failures) == (1, [])


# ------------------------------------------------------------------ intervals


def rank_by_coins(size: int) -> int:
    """Return the rank of the lower bound: the last one of which both sides together miss enough.

    The number of samples below the median is that of heads among so many fair coins.
    """
    chances = [Fraction(1)]  # of 0, 1, ... heads, coin by coin
    for _ in range(size):
        chances = [
            (before + after) / 2
            for before, after in zip([Fraction(0), *chances], [*chances, Fraction(0)], strict=True)
        ]
    missed = Fraction(1) - Fraction(CONFIDENCE)
    return max(rank for rank in range(size // 2) if 2 * sum(chances[: rank + 1]) <= missed)


class TestAnInterval:
    @pytest.mark.parametrize("size", [15, 16, 101])
    def test_has_the_samples_at_the_ranks_of_the_binomial(self, size: int) -> None:
        samples = [float(number) for number in range(size)]
        random.Random(size).shuffle(samples)
        rank = rank_by_coins(size)
        assert median_interval(samples) == Interval(rank, (size - 1) / 2, size - 1 - rank)
        assert median_interval(samples, 2).low == rank - 2

    def test_does_not_move_for_a_few_samples_that_are_far_too_large(self) -> None:
        samples = [float(number) for number in range(101)]
        disturbed = [*samples[:-10], *(1e12 for _ in range(10))]
        assert median_interval(disturbed) == median_interval(samples)

    def test_needs_fifteen_samples(self) -> None:
        with pytest.raises(AssertionError, match="14 samples are too few"):
            median_interval([1.0] * 14)


# ------------------------------------------------------------------ the fixture


class Benchmark:
    """The fixture of pytest-benchmark, without its clock."""

    def __init__(self) -> None:
        self.group: str | None = None
        self.extra_info: dict[str, int] = {}

    def __call__(self, function: Callable[[], object]) -> None:
        function()


def guard(given: BeforeToolCall) -> None:
    assert given.call.name


def anywhere(given: object) -> None:
    """Do nothing."""


class TestTheFixture:
    def test_passes_through_the_point_as_often_as_asked(self) -> None:
        benchmark = Benchmark()
        calls: list[object] = []
        HookBenchmark(lambda: benchmark)(calls.append, at=AFTER_LLM_CALL, hooks=4, calls=250)
        assert benchmark.group == "after_llm_call"
        assert benchmark.extra_info == {"hooks": 4, "calls": 250}
        assert len(calls) == 1 + 4 * 250

    def test_takes_the_point_of_an_annotation(self) -> None:
        benchmark = Benchmark()
        HookBenchmark(lambda: benchmark)(guard)
        assert benchmark.group == "before_tool_call"

    @pytest.mark.parametrize(
        ("hook", "at", "message"),
        [
            (anywhere, "", "anywhere fits several points"),
            (anywhere, "before_lunch", "there is no point `before_lunch`"),
            (lambda _: 1 // 0, "before_llm_call", "fails at before_llm_call: ZeroDivisionError"),
        ],
    )
    def test_refuses_a_hook_without_a_point_or_that_fails(
        self, hook: Callable[[Any], object], at: str, message: str
    ) -> None:
        with pytest.raises(ScenarioError, match=message):
            HookBenchmark(Benchmark)(hook, at=at)


PROJECT = """
    from simloop import BeforeToolCall, HookBenchmark

    def guard(given: BeforeToolCall) -> None:
        given.call.name

    def test_the_guard(hook_benchmark: HookBenchmark) -> None:
        hook_benchmark(guard)
"""


@pytest.mark.slow
def test_the_plugin_gives_the_fixture_of_pytest_benchmark(project: pytest.Pytester) -> None:
    project.makepyfile(test_hooks_of_a_user=PROJECT)
    project.runpytest("-p", "benchmark", "--benchmark-disable").assert_outcomes(passed=1)


@pytest.mark.slow
def test_without_pytest_benchmark_the_fixture_says_what_it_needs(project: pytest.Pytester) -> None:
    project.makepyfile(test_hooks_of_a_user=PROJECT)
    run = project.runpytest()
    run.assert_outcomes(failed=1)
    run.stdout.fnmatch_lines(["hook_benchmark needs pytest-benchmark to be installed"])
    run.stdout.no_fnmatch_line("*FixtureLookupError*")


def batch(*functions: Callable[[Any], Any], point: str = BEFORE_TOOL_CALL, calls: int = 5) -> int:
    """Make one batch on a virtual clock, and return the nanoseconds that it states."""

    async def main() -> int:
        hooks = tuple(UserFunction(function, f"h{n}") for n, function in enumerate(functions))
        return await Passages(point, watch).batch(hooks, calls)

    watch = Watch()
    return run_virtual(main())


@pytest.mark.parametrize("point", POINTS)
def test_each_hook_is_called_as_often_as_asked_with_an_input_for_each_passage(point: str) -> None:
    inputs: list[Any] = []
    batch(inputs.append, inputs.append, point=point)
    assert len(inputs) == 2 * 5
    assert len({id(given) for given in inputs}) == 5
    assert {type(given) for given in inputs} == {type(INPUTS[point]())}


def test_async_hooks_are_awaited() -> None:
    inputs: list[object] = []

    async def keeps(given: object) -> None:
        await asyncio.sleep(1)
        inputs.append(given)

    batch(keeps)
    assert len(inputs) == 5


def test_the_time_of_the_calls_counts_and_no_other() -> None:
    watch = Watch(reading_ns=7)

    async def main() -> list[int]:
        passages = Passages(BEFORE_TOOL_CALL, watch)
        watch.takes(1_000)
        hook = UserFunction(lambda _: watch.takes(30), "takes")
        return [await passages.batch((hook,), 4), await passages.batch((), 4)]

    assert run_virtual(main()) == [4 * 30 + 7, 7]


def test_a_hook_may_wait_for_hours_and_not_for_ever() -> None:
    async def waits(given: object) -> None:
        del given
        await asyncio.sleep(36_000)

    async def hangs(given: object) -> None:
        del given
        await asyncio.Event().wait()

    assert batch(waits) == 0
    with pytest.raises(ScenarioError, match="took longer than 86400000 ms"):
        batch(hangs)


MODULE = """
from simloop import AfterToolCall, BeforeToolCall, Hooks

def plain(given): ...
def annotated(given: BeforeToolCall): ...
def quoted(given: "BeforeToolCall | AfterToolCall") -> None: ...
def unknown(given: "NotThere"): ...
def odd(given: int): ...
class Object:
    async def __call__(self, given: AfterToolCall): ...
    def method(self, given: AfterToolCall): ...
an_object = Object()
method = an_object.method
hooks = Hooks(after_tool_call=[plain], before_llm_call=[plain, print])
none = Hooks()
number = 7
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "given_hooks_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("name", "points", "is_stated"),
    [
        ("plain", POINTS, False),
        ("unknown", POINTS, False),
        ("annotated", ("before_tool_call",), True),
        ("quoted", ("before_tool_call", "after_tool_call"), True),
        ("an_object", ("after_tool_call",), True),
        ("method", ("after_tool_call",), True),
    ],
)
def test_a_function_is_for_the_points_of_its_annotation(
    name: str, points: tuple[str, ...], *, is_stated: bool
) -> None:
    found = list(given_hooks(f"given_hooks_module:{name}"))
    assert tuple(each.point for each in found) == points
    assert {each.is_stated for each in found} == {is_stated}
    assert {each.function.name for each in found} == {f"given_hooks_module:{name}"}


@pytest.mark.usefixtures("module")
def test_hooks_are_for_their_own_points() -> None:
    found = [(each.point, each.function.name) for each in given_hooks("given_hooks_module:hooks")]
    assert found == [
        ("before_llm_call", "plain"),
        ("before_llm_call", "print"),
        ("after_tool_call", "plain"),
    ]


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:x", "cannot be loaded: ModuleNotFoundError"),
        ("given_hooks_module:x", "cannot be loaded: AttributeError"),
        ("given_hooks_module", "does not name a hook"),
        ("given_hooks_module:number", "is no hook, but int"),
        ("given_hooks_module:none", "is no hook, but empty Hooks"),
        ("given_hooks_module:odd", "is the input of no point"),
    ],
)
def test_a_name_without_a_hook_is_refused_with_a_hint(name: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=message) as caught:
        list(given_hooks(name))
    assert caught.value.key == "hook"
    assert caught.value.hint
