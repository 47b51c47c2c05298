"""A function of the user's: a hook, a callback, or the body of a tool.

Not here: calling it (user_code.py, tool_calls.py). The rule to keep: whether a function is async is
decided once, when it is registered, and not at each call.
"""

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

from simloop.errors import ScenarioError


class UserFunction:
    """A function of the user's, its name as traces show it, and whether it must be awaited."""

    __slots__ = ("function", "is_async", "name")

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        if not callable(function):
            kind = type(function).__name__
            hint = "give a plain or an async function"
            raise ScenarioError(f"this must be a function, not {kind}", key=name, hint=hint)
        self.function = function
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.is_async = inspect.iscoroutinefunction(function) or (
            type(function) is not FunctionType  # an object may be async
            and inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
        )
