"""A function of the user's: a hook, a callback, or the body of a tool.

Whether it is async or independent is decided once, when it is registered, and not at each call.
"""

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from simloop.errors import ScenarioError

_Hook = TypeVar("_Hook", bound=Callable[..., Any])
_MARK = "simloop_independent"
TRACED = "simloop_traced"
"""The attribute of a function that records its own calls: the function that it wraps."""


def independent(hook: _Hook) -> _Hook:
    """Mark a hook as independent: it may read and block, and it changes nothing.

    With `hook_execution: {order: parallel}`, independent hooks that follow one another in the list
    of a point run at once, each with its own input. A change that one makes is a failure of that
    hook. Without the policy, the mark has no effect.
    """
    try:
        setattr(hook, _MARK, True)
    except AttributeError:
        kind = type(hook).__name__
        hint = "put the decorator on the function itself, where it is defined"
        raise ScenarioError(f"a {kind} cannot be marked as independent", hint=hint) from None
    return hook


class UserFunction:
    """A function of the user's, and its name as traces show it.

    `is_async` is whether it must be awaited, and `is_independent` whether it is marked so.
    """

    __slots__ = ("function", "is_async", "is_independent", "name")

    def __init__(
        self, function: Callable[..., Any], name: str = "", *, is_independent: bool = False
    ) -> None:
        if not callable(function):
            kind = type(function).__name__
            hint = "give a plain or an async function"
            raise ScenarioError(f"this must be a function, not {kind}", key=name, hint=hint)
        # simloop records the calls that it makes, so a function that does so too is unwrapped.
        function = getattr(function, "__dict__", {}).get(TRACED, function)
        self.function = function
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.is_independent = is_independent or getattr(function, _MARK, False) is True
        self.is_async = inspect.iscoroutinefunction(function) or (
            type(function) is not FunctionType  # an object may be async
            and inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
        )
