"""A measured hook does as the hook itself; its waits and the measurement are not in its time."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest
from pacing import nap

from simloop.engine.hook_meter import POINTS, HookMeter, HookTimes, Overhead, measured, overhead
from simloop.engine.hooks import Hooks
from simloop.virtual.running import run_virtual
from simloop.virtual.simulate import running_loop
from simloop.virtual.started import begin
from simloop.world.user_function import UserFunction, independent

US = 1_000


def spin(nanoseconds: int) -> None:
    """Take so much real time."""
    end_ns = time.perf_counter_ns() + nanoseconds
    while time.perf_counter_ns() < end_ns:
        pass


def spins_and_fails() -> None:
    spin(100 * US)
    raise KeyError


def times(call_ns: int = 0, step_ns: int = 0) -> HookTimes:
    return HookTimes("before_tool_call", "hook", Overhead(call_ns, step_ns))


def play(function: Callable[..., Any], taken: HookTimes) -> Any:
    """Call a measured hook as the engine does, in a virtual run, and return its result."""
    hook = measured(UserFunction(function), taken)

    async def main() -> Any:
        result = hook.function("given")
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


class Handwritten(Coroutine[Any, Any, str]):
    """A coroutine that is an object, whose iterator has no `send`."""

    def __await__(self) -> Any:
        return iter(())

    def send(self, _: Any) -> Any:
        raise StopIteration

    def throw(self, *error: Any) -> Any:
        raise error[0]

    def close(self) -> None:
        """End nothing."""


class TestAMeasuredHook:
    def test_gets_the_input_and_returns_the_result(self) -> None:
        assert play(lambda given: [given], times()) == ["given"]

    def test_returns_the_result_of_a_coroutine(self) -> None:
        async def hook(given: str) -> str:
            await nap(1)
            return given

        assert play(hook, times()) == "given"

    def test_may_return_an_awaitable_object(self) -> None:
        async def hook(given: object) -> str:
            del given
            return await Awaitable()

        assert play(hook, times()) == "done"

    def test_may_be_a_coroutine_of_another_kind(self) -> None:
        taken = times()
        assert play(lambda _: Handwritten(), taken) is None
        assert len(taken.real_ns) == 1

    @pytest.mark.parametrize("waits", [False, True])
    def test_passes_on_the_exception_itself(self, *, waits: bool) -> None:
        error, taken = KeyError("x"), times()

        async def fails_later(given: object) -> None:
            del given
            await nap(1)
            raise error

        def fails(given: object) -> None:
            del given
            raise error

        with pytest.raises(KeyError) as caught:
            play(fails_later if waits else fails, taken)
        assert caught.value is error
        assert len(taken.real_ns) == 1

    def test_is_ended_where_it_waits_by_an_exception_from_outside(self) -> None:
        awaitable, taken = Awaitable(), times()

        async def main() -> None:
            hook = measured(UserFunction(lambda _: awaited(awaitable)), taken)
            task = asyncio.ensure_future(begin_and_wait(hook.function(None)))
            await nap(0.5)
            task.cancel()
            await task

        with pytest.raises(asyncio.CancelledError):
            run_virtual(main())
        assert awaitable.seen == ["CancelledError"]
        assert len(taken.real_ns) == 1

    def test_is_closed_where_it_waits(self) -> None:
        awaitable = Awaitable()

        async def main() -> None:
            hook = measured(UserFunction(lambda _: awaited(awaitable)), times())
            iterator = hook.function(None).__await__()
            next(iterator)
            iterator.close()
            assert awaitable.seen == ["GeneratorExit"]  # now, and not when it is deleted

        run_virtual(main())

    def test_that_goes_on_after_an_exception_is_measured_to_its_end(self) -> None:
        taken = times()

        async def stubborn(given: object) -> str:
            del given
            try:
                await nap(10)
            except asyncio.CancelledError:
                spin(300 * US)
                await nap(5)
            return "done"

        async def main() -> Any:
            hook = measured(UserFunction(stubborn), taken)
            task = asyncio.ensure_future(begin_and_wait(hook.function(None)))
            await nap(0.5)
            task.cancel()
            return await task

        assert run_virtual(main()) == "done"
        assert taken.real_ns[0] >= 300 * US

    def test_keeps_what_is_known_of_the_function(self) -> None:
        @independent
        async def hook(given: object) -> None:
            """Do nothing."""

        original = UserFunction(hook, "its name")
        copied = measured(original, times())
        known = (copied.name, copied.is_async, copied.is_independent)
        assert known == ("its name", True, True)
        assert original.function is hook


async def awaited(awaitable: Any) -> Any:
    return await awaitable


class TestTheTimesOfACall:
    def test_have_the_steps_before_between_and_after_waits_in_one_value(self) -> None:
        taken = times()

        async def hook(given: object) -> None:
            del given
            for _ in range(3):
                spin(200 * US)
                await nap(3_600_000)
            spin(200 * US)

        play(hook, taken)
        (real_ns,) = taken.real_ns
        assert real_ns >= 800 * US  # real time is never less; a busy machine may add to it
        assert taken.longest_ns < real_ns
        assert taken.blocked_ns == 0

    def test_have_no_part_of_a_wait(self) -> None:
        taken = times()

        async def hook(given: object) -> None:
            del given
            other = asyncio.ensure_future(spins())
            await other

        async def spins() -> None:
            spin(100_000 * US)

        play(hook, taken)
        assert taken.real_ns[0] < 50_000 * US

    def test_of_two_calls_at_once_are_kept_apart(self) -> None:
        taken = times()

        async def work(given: int) -> None:
            await nap(1)
            spin(given)

        async def main() -> None:
            hook = measured(UserFunction(work), taken)
            both = (hook.function(50_000 * US), hook.function(0))
            await asyncio.gather(*map(begin_and_wait, both))

        run_virtual(main())
        first, second = taken.real_ns
        assert first >= 50_000 * US > second

    def test_name_the_virtual_time_that_passed_without_a_wait(self) -> None:
        taken = times()

        async def main() -> None:
            hook = measured(UserFunction(lambda _: running_loop().advance_ns(7)), taken)
            hook.function(None)

        run_virtual(main())
        assert taken.blocked_ns == 7

    def test_are_less_by_the_overhead_of_the_call_and_of_each_step(self) -> None:
        taken = times(100, 10)
        index = taken.called(150, 0)
        taken.stepped(index, 25, 0)
        taken.stepped(index, 15, 0)
        assert taken.real_ns == [50 + 15 + 5]
        assert taken.longest_ns == 50

    def test_are_never_less_than_nothing(self) -> None:
        taken = times(100, 10)
        taken.stepped(taken.called(80, 0), 5, 0)
        assert taken.real_ns == [0]


@pytest.mark.parametrize("waits", [False, True])
def test_a_hook_that_does_nothing_costs_next_to_nothing(*, waits: bool) -> None:
    """The measurement takes about 300 ns, and has been subtracted."""

    async def nothing_async(given: object) -> None:
        """Do nothing."""

    taken = times(*overhead())
    hook = measured(UserFunction(nothing_async if waits else lambda _: None), taken)

    async def main() -> None:
        for _ in range(201):
            rest = hook.function(None)
            if rest is not None:
                begin(rest)

    run_virtual(main())
    assert sorted(taken.real_ns)[100] < US


class TestAMeter:
    def test_has_times_for_each_hook_in_the_order_of_points_and_hooks(self) -> None:
        meter = HookMeter()
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

    def test_adds_the_real_time_of_runs_even_of_those_that_fail(self) -> None:
        meter = HookMeter()
        with meter.run():
            spin(100 * US)
        once_ns = meter.run_ns
        with pytest.raises(KeyError), meter.run():
            spins_and_fails()
        assert once_ns >= 100 * US
        assert meter.run_ns >= once_ns + 100 * US
