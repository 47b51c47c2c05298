"""Batches of calls: each makes as many calls as it is asked for, and times those alone."""

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

import pytest

from simloop.bench.point_calls import (
    INPUTS,
    Calls,
    FailingHookError,
    IsolatedCalls,
    NoCalls,
    PlainCalls,
    PluggyCalls,
    PointCalls,
    UnitCalls,
    has_pluggy,
)
from simloop.engine.hooks import BEFORE_TOOL_CALL
from simloop.kernel.policies import HookIsolation, HookOrder
from simloop.virtual.running import run_virtual
from simloop.world.user_function import UserFunction

POINTS = tuple(INPUTS)
KINDS: dict[str, Callable[[str, Sequence[UserFunction]], Calls]] = {
    "engine": PointCalls,
    "isolated": IsolatedCalls,
    "plain": PlainCalls,
    "pluggy": PluggyCalls,
}


class Counting:
    """Two hooks that keep their inputs."""

    def __init__(self, *, is_async: bool = False) -> None:
        self.inputs: list[object] = []
        self.hooks = [UserFunction(self._function(is_async=is_async), f"h{n}") for n in range(2)]

    def _function(self, *, is_async: bool) -> Callable[[Any], Any]:
        def keeps(given: object) -> None:
            self.inputs.append(given)

        async def keeps_later(given: object) -> None:
            self.inputs.append(given)

        return keeps_later if is_async else keeps


def batch(make: Callable[[], Calls], calls: int = 5) -> int:
    """Make one batch on a virtual clock, and return the nanoseconds that it states."""

    async def main() -> int:
        return await make().batch(calls)

    return run_virtual(main())


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "pluggy" or has_pluggy()])
def test_each_hook_is_called_as_often_as_asked(kind: str, point: str) -> None:
    counting = Counting()
    assert batch(lambda: KINDS[kind](point, counting.hooks)) > 0
    assert len(counting.inputs) == 2 * 5
    assert {type(given) for given in counting.inputs} == {type(INPUTS[point]())}


@pytest.mark.parametrize("kind", ["engine", "plain"])
def test_async_hooks_are_awaited(kind: str) -> None:
    counting = Counting(is_async=True)
    batch(lambda: KINDS[kind](BEFORE_TOOL_CALL, counting.hooks))
    assert len(counting.inputs) == 2 * 5


@pytest.mark.parametrize("kind", ["engine", "isolated"])
def test_each_pass_of_the_engine_has_an_input_of_its_own(kind: str) -> None:
    counting = Counting()
    batch(lambda: KINDS[kind](BEFORE_TOOL_CALL, counting.hooks))
    assert len({id(given) for given in counting.inputs}) == 5


def test_the_loop_and_the_unit_call_nothing_and_take_time() -> None:
    assert batch(NoCalls, 1_000) > 0
    assert batch(UnitCalls, 1_000) > batch(NoCalls, 1_000)


def test_the_time_outside_of_the_calls_does_not_count() -> None:
    def make() -> Calls:
        calls = PointCalls(BEFORE_TOOL_CALL, Counting().hooks)
        end_ns = perf_counter_ns() + 50_000_000
        while perf_counter_ns() < end_ns:
            pass
        return calls

    assert batch(make, 1) < 50_000_000


@pytest.mark.parametrize("order", HookOrder)
def test_independent_hooks_run_in_the_given_order_of_the_engine(order: HookOrder) -> None:
    active, most = 0, 0

    async def waits(given: object) -> None:
        nonlocal active, most
        del given
        active += 1
        most = max(most, active)
        await asyncio.sleep(1)
        active -= 1

    hooks = [UserFunction(waits, name, is_independent=True) for name in ("a", "b")]
    batch(lambda: PointCalls(BEFORE_TOOL_CALL, hooks, order=order), 2)
    assert most == (2 if order is HookOrder.PARALLEL else 1)


def test_a_failure_names_the_hook_the_point_and_the_call() -> None:
    called = 0

    def fails_at_the_seventh(given: object) -> None:
        nonlocal called
        del given
        called += 1
        if called == 7:
            raise ValueError("no seven")

    hooks = [UserFunction(fails_at_the_seventh, "fussy")]

    async def main() -> None:
        calls = PointCalls(BEFORE_TOOL_CALL, hooks)
        await calls.batch(5)
        await calls.batch(5)

    with pytest.raises(FailingHookError, match="fussy fails at before_tool_call in call 7:") as got:
        run_virtual(main())
    assert got.value.detail == "ValueError: no seven"


def test_calls_of_other_hooks_call_only_those_and_count_for_themselves() -> None:
    first, second = Counting(), Counting()

    async def main() -> None:
        calls = PointCalls(BEFORE_TOOL_CALL, first.hooks)
        await calls.batch(3)
        await calls.with_hooks(second.hooks).batch(2)
        await calls.batch(1)

    run_virtual(main())
    assert (len(first.inputs), len(second.inputs)) == (2 * 4, 2 * 2)


def test_a_hook_that_hangs_fails_after_the_timeout_of_its_isolation() -> None:
    async def hangs(given: object) -> None:
        del given
        await asyncio.sleep(10)

    isolation = HookIsolation(timeout_ms=1_000)
    hooks = [UserFunction(hangs, "slow")]
    with pytest.raises(FailingHookError, match="slow fails"):
        batch(lambda: PointCalls(BEFORE_TOOL_CALL, hooks, isolation), 1)
