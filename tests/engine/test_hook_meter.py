"""A measured hook does as the hook itself; its waits and the measurement are not in its time."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import pytest
from clocks import Watch
from pacing import nap

from simloop.engine.hook_meter import BLOCKING_NS, SLOW_NS, HookCost, HookMeter, HookTimes
from simloop.engine.hooks import POINTS, Hooks
from simloop.virtual.clock.tasks import begin
from simloop.virtual.simulate import run_virtual, running_loop
from simloop.world.user_functions import UserFunction


class Measured:
    """A hook that a meter measures on a watch, to be called on a virtual clock."""

    def __init__(self, function: Callable[..., Any], reading_ns: int = 0) -> None:
        self.watch = Watch(reading_ns)
        self.meter = HookMeter(self.watch)
        hooks = self.meter.measured(Hooks(before_tool_call=[UserFunction(function, "hook")]))
        (self.hook,) = hooks.before_tool_call

    @property
    def times(self) -> HookTimes:
        """Return the calls so far."""
        (times,) = self.meter.times
        return times

    def __call__(self, given: object = "given") -> Any:
        """Call the hook as the engine does, and return its result or an awaitable of it."""
        return self.hook.function(given)

    def play(self, given: object = "given") -> Any:
        """Call the hook in a virtual run of its own, and return its result."""

        async def main() -> Any:
            result = self(given)
            return await begin_and_wait(result) if hasattr(result, "__await__") else result

        return run_virtual(main())


async def begin_and_wait(awaitable: Any) -> Any:
    rest = begin(awaitable)
    return await rest if hasattr(rest, "__await__") else rest


class Awaitable:
    """An awaitable that waits twice by way of a generator, and notes how it was ended."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __await__(self) -> Generator[Any, Any, str]:
        try:
            yield from nap(1).__await__()
            yield from nap(2).__await__()
        except BaseException as error:
            self.seen.append(type(error).__name__)
            raise
        return "done"


class TestAMeasuredHook:
    def test_gets_the_input_and_returns_the_result(self) -> None:
        assert Measured(lambda given: [given]).play() == ["given"]

    def test_returns_the_result_of_a_coroutine(self) -> None:
        async def hook(given: str) -> str:
            await nap(1)
            return given

        assert Measured(hook).play() == "given"

    @pytest.mark.parametrize("waits", [False, True])
    def test_passes_on_the_exception_itself(self, *, waits: bool) -> None:
        error = KeyError("x")

        async def fails_later(given: object) -> None:
            del given
            await nap(1)
            hook.watch.takes(7)
            raise error

        def fails(given: object) -> None:
            del given
            hook.watch.takes(7)
            raise error

        hook = Measured(fails_later if waits else fails)
        with pytest.raises(KeyError) as caught:
            hook.play()
        assert caught.value is error
        assert hook.times.real_ns == [7]

    def test_is_ended_where_it_waits_by_an_exception_from_outside(self) -> None:
        awaitable = Awaitable()
        hook = Measured(lambda _: awaited(awaitable))

        async def main() -> None:
            task = asyncio.ensure_future(begin_and_wait(hook()))
            await nap(0.5)
            task.cancel()
            await task

        with pytest.raises(asyncio.CancelledError):
            run_virtual(main())
        assert awaitable.seen == ["CancelledError"]
        assert len(hook.times.real_ns) == 1


async def awaited(awaitable: Any) -> Any:
    return await awaitable


class TestTheTimesOfACall:
    def test_have_the_steps_before_between_and_after_waits_in_one_value(self) -> None:
        async def steps(given: object) -> None:
            del given
            for nanoseconds in (200, 300, 250):
                hook.watch.takes(nanoseconds)
                await nap(3_600_000)
            hook.watch.takes(100)

        hook = Measured(steps)
        hook.play()
        assert hook.times.real_ns == [850]
        assert (hook.times.longest_ns, hook.times.blocked_ns) == (300, 0)

    def test_have_no_part_of_a_wait(self) -> None:
        async def waits(given: object) -> None:
            del given
            await asyncio.ensure_future(others())

        async def others() -> None:
            hook.watch.takes(1_000)

        hook = Measured(waits)
        hook.play()
        assert hook.times.real_ns == [0]

    def test_of_two_calls_at_once_are_kept_apart(self) -> None:
        async def works(given: int) -> None:
            await nap(1)
            hook.watch.takes(given)

        async def main() -> None:
            await asyncio.gather(*map(begin_and_wait, (hook(50), hook(3))))

        hook = Measured(works)
        run_virtual(main())
        assert hook.times.real_ns == [50, 3]

    def test_name_the_virtual_time_that_passed_without_a_wait(self) -> None:
        hook = Measured(lambda _: running_loop().advance_ns(7))
        hook.play()
        assert hook.times.blocked_ns == 7

    @pytest.mark.parametrize("waits", [False, True])
    def test_have_no_part_of_the_measurement(self, *, waits: bool) -> None:
        async def later(given: object) -> None:
            del given
            hook.watch.takes(5)
            await nap(1)

        def now(given: object) -> None:
            del given
            hook.watch.takes(5)

        hook = Measured(later if waits else now, reading_ns=60)
        hook.play()
        assert (hook.times.real_ns, hook.times.longest_ns) == ([5], 5)


class TestAMeter:
    def test_has_times_for_each_hook_in_the_order_of_points_and_hooks(self) -> None:
        meter = HookMeter(Watch())
        hooks = Hooks(
            after_tool_call=[len],
            before_llm_call=[repr, str],
            before_tool_call=[UserFunction(len, "b")],
        )
        replaced = meter.measured(hooks)
        assert [(each.point, each.hook) for each in meter.times] == [
            ("before_llm_call", "repr"),
            ("before_llm_call", "str"),
            ("before_tool_call", "b"),
            ("after_tool_call", "len"),
        ]
        for point in POINTS:
            names = [hook.name for hook in getattr(replaced, point)]
            assert names == [hook.name for hook in getattr(hooks, point)]

    def test_adds_the_time_of_runs_even_of_those_that_fail(self) -> None:
        watch = Watch()
        meter = HookMeter(watch)
        with meter.run():
            watch.takes(100)

        def fail() -> None:
            watch.takes(30)
            raise KeyError

        with pytest.raises(KeyError), meter.run():
            fail()
        assert meter.run_ns == 130


def cost(*real_ns: int, run_ns: int = 0, blocked_ns: int = 0) -> HookCost:
    """Return the cost of a hook with these calls."""

    def call(given: int) -> None:
        hook.watch.takes(given)

    hook = Measured(call)
    for each in real_ns:
        hook.play(each)
    hook.times.blocked_ns = blocked_ns
    hook.meter.run_ns = run_ns
    (found,) = hook.meter.costs()
    return found


class TestTheCostOfAHook:
    def test_is_slow_from_ten_milliseconds(self) -> None:
        assert not cost(SLOW_NS - 1).is_slow
        assert cost(SLOW_NS).is_slow

    def test_blocks_from_a_hundred_milliseconds_and_after_any_sleep(self) -> None:
        assert not cost(BLOCKING_NS - 1).blocks
        assert cost(BLOCKING_NS).blocks
        assert cost(1, blocked_ns=1).blocks

    def test_is_a_share_of_the_runs(self) -> None:
        assert cost(1, run_ns=4).share == 0.25
        assert cost(1, run_ns=0).share == 0

    @pytest.mark.parametrize(
        ("calls", "median_ns", "p95_ns"),
        [
            ([], 0, 0),
            ([7], 7, 7),
            ([2, 1], 1, 2),
            ([3, 1, 2], 2, 3),
            (range(1, 21), 10, 19),
            (range(1, 22), 11, 20),
            (range(1, 101), 50, 95),
            (range(1, 102), 51, 96),
        ],
    )
    def test_has_the_first_values_that_enough_calls_do_not_exceed(
        self, calls: list[int], median_ns: int, p95_ns: int
    ) -> None:
        found = cost(*calls)
        assert (found.median_ns, found.p95_ns) == (median_ns, p95_ns)
        assert (found.calls, found.total_ns) == (len(calls), sum(calls))
