"""Functions of the user: async or not, by their name."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from simloop.errors import ScenarioError
from simloop.world.user_function import UserFunction, independent


def look(at: str) -> str:
    return f"saw {at}"


class AsyncObject:
    async def __call__(self, _: Any) -> None:
        """Do nothing."""


async def async_function(_: Any) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (look, False),
        (lambda _: None, False),
        (async_function, True),
        (functools.partial(async_function, None), True),
        (AsyncObject(), True),
        (AsyncObject().__call__, True),
    ],
)
def test_whether_a_function_is_async_is_known_at_registration(
    function: Callable[..., Any],
    is_async: bool,  # noqa: FBT001
) -> None:
    assert UserFunction(function).is_async is is_async


@pytest.mark.parametrize(
    ("function", "name"),
    [(look, "look"), (AsyncObject(), "AsyncObject"), (functools.partial(look, "a"), "partial")],
)
def test_a_function_is_named_without_an_address(function: Callable[..., Any], name: str) -> None:
    assert UserFunction(function).name == name


def test_a_mark_is_read_from_functions_methods_and_objects() -> None:
    class Guard:
        @independent
        def check(self, given: object) -> None: ...

        def other(self, given: object) -> None: ...

    @independent
    class Counts:
        def __call__(self, given: object) -> None: ...

    @independent
    async def waits(given: object) -> None: ...

    marked: list[Callable[..., Any]] = [Guard().check, Counts(), waits, Guard().other]
    assert [UserFunction(each).is_independent for each in marked] == [True, True, True, False]


def test_a_function_that_takes_no_mark_is_refused() -> None:
    with pytest.raises(ScenarioError, match="cannot be marked as independent"):
        independent(print)
