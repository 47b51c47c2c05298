"""The decorator that records the calls of a function as a tool's.

Not here: the entries (own_calls.py) and the settings of a scenario (own_tools.py). The rule to
keep: outside of a run the function is called as it is, and inside of one its caller gets what it
returns or raises, unless the scenario states another result.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from simloop.errors import ScenarioError
from simloop.messages import ToolCall
from simloop.world.current import current_world
from simloop.world.own_tools import OwnCalls, shown_result
from simloop.world.user_errors import message_of
from simloop.world.user_function import TRACED

F = TypeVar("F", bound=Callable[..., Any])


def traced(function: F) -> F:
    """Record each call of `function` in the trace of the run that it happens in, as a tool's.

        @simloop.traced
        async def search(query: str) -> str: ...

    The function may be async. Its name, signature and docstring stay, so that a framework reads
    them. Outside of a run it is called as it is.

    Where the scenario has a tool of this name, its settings hold: `takes` is virtual time before
    the function runs, `timeout` raises TimeoutError, and a tool for which the scenario states the
    end (`returns`, `returns_chars`, `raises`, `hangs`, `cancels`) ends so, and the function does
    not run. The scenario's faults of chance, `tool.slow` and `tool.raises`, reach it too. A timeout
    cannot interrupt a function that is not async, whose result is late then.

    Raises ScenarioError for a generator or a class.
    """
    if inspect.isclass(function) or not callable(function):
        raise _wrong(f"a tool is a function, not {_kind(function)}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise _wrong(f"`{_name(function)}` is a generator, and a tool returns one value")
    wrapper: Any = _async(function) if inspect.iscoroutinefunction(function) else _sync(function)
    setattr(wrapper, TRACED, function)
    return wrapper  # type: ignore[no-any-return]


def _async(function: Callable[..., Any]) -> Callable[..., Any]:
    name = _name(function)

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        world = current_world()
        if world is None:
            return await function(*args, **kwargs)
        calls = world.tools.own_calls
        started = calls.start(name, _arguments(function, args, kwargs))
        tools = world.tools.own_tools
        try:
            value = await tools.call(name, functools.partial(function, *args, **kwargs))
        except Exception as error:
            _failed(calls, started, error)
            raise
        calls.end(started, shown_result(value), details=tools.of(name).details)
        return value

    return call


def _sync(function: Callable[..., Any]) -> Callable[..., Any]:
    name = _name(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        world = current_world()
        if world is None:
            return function(*args, **kwargs)
        calls = world.tools.own_calls
        started = calls.start(name, _arguments(function, args, kwargs))
        tools = world.tools.own_tools
        try:
            value = tools.call_blocking(name, functools.partial(function, *args, **kwargs))
        except Exception as error:
            _failed(calls, started, error)
            raise
        calls.end(started, shown_result(value), details=tools.of(name).details)
        return value

    return call


def _failed(calls: OwnCalls, started: ToolCall, error: Exception) -> None:
    calls.end(started, f"Error: {message_of(error) or type(error).__name__}", is_error=True)


def _arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by name, without the object that a method is of."""
    try:
        parameters = _signature(function).parameters
        given = _signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # the call itself raises the error
        return dict(kwargs)
    found: dict[str, Any] = {}
    for place, (name, value) in enumerate(given.items()):
        if parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        elif place or name not in {"self", "cls"}:
            found[name] = value
    return found


@functools.lru_cache(maxsize=256)
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _kind(value: object) -> str:
    return f"the class `{value.__name__}`" if isinstance(value, type) else type(value).__name__


def _wrong(message: str) -> ScenarioError:
    hint = "put it on a plain or an async function"
    return ScenarioError(message, key="traced", hint=hint)
