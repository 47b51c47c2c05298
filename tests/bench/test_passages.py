"""Passages of a point call the engine's own code, as often as asked, and time that alone."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from clocks import Watch

from simloop.bench.passages import INPUTS, Passages
from simloop.engine.hooks import BEFORE_TOOL_CALL, POINTS
from simloop.errors import ScenarioError
from simloop.virtual.simulate import run_virtual
from simloop.world.user_function import UserFunction


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


def test_a_failure_names_the_hook_and_the_point() -> None:
    calls: list[object] = []

    def fails_at_the_third(given: object) -> None:
        calls.append(given)
        if len(calls) == 3:
            raise ValueError("no three")

    message = "the hook h1 fails at before_tool_call: ValueError: no three"
    with pytest.raises(ScenarioError, match=message) as caught:
        batch(lambda _: None, fails_at_the_third)
    assert (caught.value.key, bool(caught.value.hint)) == ("hook", True)


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
