"""Hooks that a user names as `module:attribute`, each with the points at which it can run."""

import inspect
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

from simloop.bench.point_calls import INPUTS
from simloop.engine.hook_meter import POINTS
from simloop.engine.hooks import Hooks
from simloop.errors import ScenarioError
from simloop.runs.isolation import imported, isolated
from simloop.world.user_function import UserFunction

_A_HOOK = (
    "write module:attribute for a hook or for Hooks; the module is looked up in the current folder "
    "and among the installed packages"
)


class GivenHook(NamedTuple):
    """A hook at one point."""

    point: str
    function: UserFunction


def given_hooks(name: str) -> Iterator[GivenHook]:
    """Yield the hooks at `name`, of the form `module:attribute`, each with a point.

    A function runs at each point whose input its first parameter may have, by its annotation.
    Raises ScenarioError if there is no hook.
    """
    with isolated(f"the hook `{name}` cannot be loaded", _A_HOOK, key="hook"):
        found: Any = imported(name)
    if isinstance(found, Hooks):
        for point in POINTS:
            for hook in getattr(found, point):
                yield GivenHook(point, hook)
        return
    if not callable(found):
        kind = type(found).__name__
        raise ScenarioError(f"`{name}` is no hook, but {kind}", key="hook", hint=_A_HOOK)
    hook = UserFunction(found, name)
    for point in points_of(found):
        yield GivenHook(point, hook)


def points_of(function: Any) -> Iterator[str]:
    """Yield the points whose input the first parameter of a function may have."""
    wanted = _annotation_of(function)
    for point in POINTS:
        if wanted is None or isinstance(INPUTS[point](), wanted):
            yield point


def _annotation_of(function: Any) -> Any:
    """Return the annotated type of the first parameter, or None if it says nothing."""
    call = function if inspect.isroutine(function) else type(function).__call__
    try:
        hints = typing.get_type_hints(call)
        names = list(inspect.signature(function).parameters)
    except (NameError, TypeError, ValueError):
        return None
    found = hints.get(names[0]) if names else None
    try:
        isinstance(None, found)  # type: ignore[arg-type]
    except TypeError:
        return None
    return found
