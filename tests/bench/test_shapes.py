"""The built-in hooks of the benchmark: each does what its name says."""

import asyncio
from typing import Any

import pytest

from simloop.bench.point_calls import INPUTS
from simloop.bench.shapes import SHAPES, shape, waiting
from simloop.engine.hooks import BEFORE_LLM_CALL, AfterToolCall, BeforeLLMCall, BeforeToolCall
from simloop.virtual.running import run_virtual
from simloop.virtual.simulate import running_loop

SHAPES_AND_POINTS = [(name, point) for name, points in SHAPES.items() for point in points]


def after(name: str, point: str, *, is_async: bool) -> Any:
    """Call the hook once, and return its input afterwards."""
    hook, given = shape(name, point, is_async=is_async), INPUTS[point]()

    async def main() -> None:
        assert asyncio.iscoroutinefunction(hook.function) is is_async
        result: Any = hook.function(given)
        if is_async:
            await result

    run_virtual(main())
    return given


def changes_of(given: Any, other: Any) -> list[str]:
    names = ("system_prompt", "arguments", "result", "text", "tools", "messages", "calls")
    return [name for name in names if getattr(given, name, None) != getattr(other, name, None)]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize(("name", "point"), SHAPES_AND_POINTS)
def test_only_the_hooks_that_replace_change_their_input(
    name: str, point: str, *, is_async: bool
) -> None:
    changed = changes_of(after(name, point, is_async=is_async), INPUTS[point]())
    assert bool(changed) is (name == "replaces")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_what_is_replaced_is_what_a_hook_can_change(*, is_async: bool) -> None:
    given = {point: after("replaces", point, is_async=is_async) for point in SHAPES["replaces"]}
    kinds = {type(each): each for each in given.values()}
    assert kinds[BeforeLLMCall].system_prompt == "You help, briefly."
    assert kinds[BeforeToolCall].arguments == {"path": "LICENSE"}
    assert kinds[AfterToolCall].result.text == "hidden"


def test_each_shape_is_known_by_its_name() -> None:
    assert shape("reads", BEFORE_LLM_CALL).name == "reads"
    assert shape("reads", BEFORE_LLM_CALL, is_async=True).name == "reads, async"


def test_two_hooks_of_a_shape_are_two_functions() -> None:
    one, other = (shape("no-op", BEFORE_LLM_CALL) for _ in range(2))
    assert one.function is not other.function


def test_a_hook_that_waits_takes_virtual_time_and_is_independent() -> None:
    async def main() -> float:
        hook = waiting(3)
        assert hook.is_independent
        assert hook.name == "waits 3s"
        await hook.function(object())
        return running_loop().time()

    assert run_virtual(main()) == 3
