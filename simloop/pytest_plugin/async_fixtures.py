"""Async fixtures of tests that run on the virtual clock.

The function of such a fixture runs in the simulation, right before the body of the test, and anew
for each seed; its value does not exist before. So pytest gets a Pending in its place. Not here: the
hook that calls this module. The rule to keep: a fixture that would get a Pending for a value is an
error with the names of both.
"""

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest


class Pending:
    """An async fixture that has not run: its function, and its arguments."""

    def __init__(self, function: Callable[..., Any], given: Mapping[str, Any]) -> None:
        self.function = function
        self.given = given


def is_async(function: object) -> bool:
    """Return whether the function of a fixture is async."""
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


@contextlib.contextmanager
def deferred(definition: Any, request: Any) -> Iterator[None]:
    """Let pytest set up a fixture of a test in the simulation; an async one becomes a Pending."""
    name, function = definition.argname, definition.func
    if not is_async(function):
        for each in definition.argnames:
            if isinstance(request.getfixturevalue(each), Pending):
                pytest.fail(
                    f"the fixture `{name}` is not async and asks for the async fixture `{each}`, "
                    f"which runs with the body of the test: make `{name}` async",
                    pytrace=False,
                )
        yield
        return
    if definition.scope != "function":
        pytest.fail(
            f"the async fixture `{name}` has the scope {definition.scope}: a test in the "
            "simulation has its own event loop, and so it takes those of the scope function",
            pytrace=False,
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(definition, "func", _pending(_bound(function, request.instance)))
        yield


def _pending(function: Callable[..., Any]) -> Callable[..., Pending]:
    def pending(**given: Any) -> Pending:
        return Pending(function, given)

    return pending


def _bound(function: Any, instance: object) -> Callable[..., Any]:
    """Return a fixture that is a method as one of the test's own instance."""
    if inspect.ismethod(function):
        plain: Any = function.__func__
        if isinstance(instance, type(function.__self__)):
            return plain.__get__(instance)  # type: ignore[no-any-return]
        return function
    parameters = [*inspect.signature(function).parameters]
    if instance is not None and parameters[:1] == ["self"]:
        return function.__get__(instance)  # type: ignore[no-any-return]
    return function  # type: ignore[no-any-return]


@contextlib.asynccontextmanager
async def entered(given: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """Run the pending fixtures among `given`, in order, and yield their values with the others.

    At the end the generators go on after their `yield`, in the opposite order.
    """
    made: dict[int, Any] = {}
    async with contextlib.AsyncExitStack() as stack:
        yield {name: await _value(each, made, stack) for name, each in given.items()}


async def _value(each: Any, made: dict[int, Any], stack: contextlib.AsyncExitStack) -> Any:
    if not isinstance(each, Pending):
        return each
    if id(each) not in made:  # the pending fixtures live as long as the test
        given = {name: await _value(value, made, stack) for name, value in each.given.items()}
        if inspect.isasyncgenfunction(each.function):
            entering = contextlib.asynccontextmanager(each.function)(**given)
            made[id(each)] = await stack.enter_async_context(entering)
        else:
            made[id(each)] = await each.function(**given)
    return made[id(each)]
