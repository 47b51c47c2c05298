"""Hooks that a user names as `module:attribute`, each with the points at which it can run."""

import inspect
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

from simloop.bench.passages import INPUTS
from simloop.engine.hooks import POINTS, Hooks
from simloop.errors import ScenarioError
from simloop.runs.loop import loaded
from simloop.world.user_function import UserFunction

_A_HOOK = (
    "write module:attribute for a hook or for Hooks; the module is looked up in the current folder "
    "and among the installed packages"
)


class GivenHook(NamedTuple):
    """A hook at one point. `is_stated` is whether the user says that it is for this point."""

    point: str
    function: UserFunction
    is_stated: bool = True


def given_hooks(name: str) -> Iterator[GivenHook]:
    """Yield the hooks at `name`, of the form `module:attribute`, each with a point.

    A function runs at each point whose input its first parameter may have, by its annotation. A
    function without an annotation may be for any point.
    Raises ScenarioError if there is no hook.
    """
    if ":" not in name:
        raise ScenarioError(f"`{name}` does not name a hook", key="hook", hint=_A_HOOK)
    found = loaded(name, "hook", _A_HOOK, key="hook")
    if isinstance(found, Hooks) and found:
        yield from (GivenHook(point, hook) for point in POINTS for hook in getattr(found, point))
        return
    if not callable(found):
        kind = "empty Hooks" if isinstance(found, Hooks) else type(found).__name__
        raise ScenarioError(f"`{name}` is no hook, but {kind}", key="hook", hint=_A_HOOK)
    hook, points = UserFunction(found, name), points_of(found)
    if not points:
        message = f"the annotation of the first parameter of `{name}` is the input of no point"
        hint = "annotate it with an input such as BeforeToolCall, or not at all"
        raise ScenarioError(message, key="hook", hint=hint)
    is_stated = _annotation_of(found) is not None
    yield from (GivenHook(point, hook, is_stated) for point in points)


def points_of(function: Any) -> list[str]:
    """Return the points whose input the first parameter of a function may have."""
    wanted = _annotation_of(function)
    return [point for point in POINTS if wanted is None or isinstance(INPUTS[point](), wanted)]


def _annotation_of(function: Any) -> Any:
    call = function if inspect.isroutine(function) else type(function).__call__
    try:
        found = typing.get_type_hints(call)[next(iter(inspect.signature(function).parameters))]
        isinstance(None, found)
    except (KeyError, NameError, StopIteration, TypeError, ValueError):
        return None
    return found
