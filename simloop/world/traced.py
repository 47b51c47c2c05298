"""The decorator that records the calls of a function as a tool's."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from simloop.errors import ScenarioError
from simloop.world.current import current_world
from simloop.world.own_tools import shown_result
from simloop.world.user_errors import message_of
from simloop.world.user_function import TRACED
from simloop.world.world import World

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
        with _recorded(world, name, _arguments(function, args, kwargs)) as end:
            tools = world.tools.own_tools
            value = await tools.call(name, functools.partial(function, *args, **kwargs))
            end(value)
        return value

    return call


def _sync(function: Callable[..., Any]) -> Callable[..., Any]:
    name = _name(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        world = current_world()
        if world is None:
            return function(*args, **kwargs)
        with _recorded(world, name, _arguments(function, args, kwargs)) as end:
            tools = world.tools.own_tools
            value = tools.call_blocking(name, functools.partial(function, *args, **kwargs))
            end(value)
        return value

    return call


@contextlib.contextmanager
def _recorded(
    world: World, name: str, arguments: Mapping[str, Any]
) -> Iterator[Callable[[Any], None]]:
    """Record the start of a call; the block gives its result to the function, or raises."""
    calls = world.tools.own_calls
    started = calls.start(name, arguments)

    def end(value: Any) -> None:
        details = world.tools.own_tools.of(name).details
        calls.end(started, shown_result(value), details=details)

    try:
        yield end
    except Exception as error:
        text = f"Error: {message_of(error) or type(error).__name__}"
        calls.end(started, text, is_error=True)
        raise


def _arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
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
