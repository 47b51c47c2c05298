"""Running any coroutine in a simulation: virtual clock, sealed border, one seed."""

import asyncio
import contextlib
import inspect
import math
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import Any, TypeVar

from simloop.errors import CheckFailed, ScenarioError, SimloopError
from simloop.virtual.answers import simulation_of_this_thread
from simloop.virtual.border import sealed
from simloop.virtual.clock import MAX_VIRTUAL_NS, VirtualLoop
from simloop.virtual.running import run_virtual
from simloop.virtual.seeds import Seeds

T = TypeVar("T")


def simulate(
    main: Coroutine[Any, Any, T],
    *,
    seed: int = 0,
    shuffle_ties: bool = False,
    max_virtual_s: float = MAX_VIRTUAL_NS / 1e9,
    max_callbacks: int | None = None,
) -> T:
    """Run `main` on the virtual clock and return its result.

    Inside, time, dates and randomness answer from the clock and `seed`; sockets and subprocesses
    are refused. Threads are simulated: one runs at a time, and blocking waits take virtual time.
    `shuffle_ties` draws from the seed the order of timers, and of threads, that are due at one
    instant.

    A program is a RunawayRun after three million callbacks of the event loop, or half a million
    without anything new in the world of a scenario. `max_callbacks` replaces both bounds. So is one
    that reads the clock a million times without a wait.

    Raises what `main` raises, with a note of the seed; Deadlock; RunawayRun, also past
    `max_virtual_s`; ScenarioError if `main` reached for the real world or is no awaitable.
    """
    __tracebackhide__ = True  # pytest then shows the test and the program, and no frame in between
    coroutine: Coroutine[Any, Any, T] = _coroutine(main)
    try:
        seeds = Seeds(seed)
        _check_bounds(max_virtual_s, max_callbacks)
        return run_virtual(
            coroutine,
            shuffle_seed=seeds.stream("ties").getrandbits(64) if shuffle_ties else None,
            max_virtual_ns=round(max_virtual_s * 1e9),
            max_callbacks=max_callbacks,
            seal=partial(sealed, seeds=seeds),
        )
    except CheckFailed as error:
        error.reproduce = error.reproduce or _again(main, seed, shuffle_ties=shuffle_ties)
        raise
    except SimloopError:
        raise
    except Exception as error:
        _note(error, f"simulated with seed={seed}, shuffle_ties={shuffle_ties}")
        raise
    finally:
        if _is_new(coroutine):  # an error came first
            coroutine.close()


def _again(main: Any, seed: int, *, shuffle_ties: bool) -> str:
    """Return the call that runs `main` again, with its place if no name reaches it."""
    name, code = getattr(main, "__qualname__", "main"), getattr(main, "cr_code", None)
    outer, nested, name = name.rpartition("<locals>.")
    place = ""
    if nested and code is not None:
        file = code.co_filename.replace("\\", "/").rpartition("/")[2]
        place = f"  # {name} is at {file}:{code.co_firstlineno}, in {outer.rstrip('.')}"
    shuffled = ", shuffle_ties=True" if shuffle_ties else ""
    return f"simloop.simulate({name}(), seed={seed}{shuffled}){place}"


def _is_new(coroutine: Any) -> bool:
    return (
        inspect.iscoroutine(coroutine)
        and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
    )


def _coroutine(main: Any) -> Coroutine[Any, Any, Any]:
    """Return `main`, or a coroutine that awaits it. Raises ScenarioError otherwise."""
    if inspect.iscoroutine(main):
        if not _is_new(main):
            raise ScenarioError("this coroutine has been started before", hint="make another one")
        return main
    if isinstance(main, Coroutine):
        return main
    if inspect.isawaitable(main):
        return _await(main)
    name = getattr(main, "__qualname__", None) or type(main).__qualname__
    hint = "give it a coroutine, such as main()"
    if inspect.iscoroutinefunction(main):
        hint = f"call the function: simulate({name}())"
    elif callable(main):
        hint = f"make it an `async def` and call it: simulate({name}())"
    raise ScenarioError(f"simulate needs a coroutine, not {_article(main)} `{name}`", hint=hint)


def _check_bounds(max_virtual_s: Any, max_callbacks: Any) -> None:
    """Raise ScenarioError unless the first is a positive number and the second an integer."""
    is_number = isinstance(max_virtual_s, (int, float)) and not isinstance(max_virtual_s, bool)
    if not is_number or not 0 < max_virtual_s < math.inf:
        raise ScenarioError(
            f"max_virtual_s is {max_virtual_s!r}",
            key="max_virtual_s",
            hint="give a positive number of seconds, such as 3600",
        )
    if max_callbacks is not None and (type(max_callbacks) is not int or max_callbacks < 1):
        raise ScenarioError(
            f"max_callbacks is {max_callbacks!r}",
            key="max_callbacks",
            hint="give a positive integer, or None for the default bounds",
        )


def _article(main: Any) -> str:
    if inspect.isasyncgen(main):
        return "the async generator"
    return "the function" if inspect.isroutine(main) else "an object such as"


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable


def _note(error: Exception, text: str) -> None:
    """Add a note once, to an exception that takes notes."""
    with contextlib.suppress(TypeError):  # a class may have set `__notes__` to anything
        if text not in getattr(error, "__notes__", ()):
            error.add_note(text)


def running_loop() -> VirtualLoop:
    """Return the virtual loop of the caller. Raises ScenarioError on any other loop."""
    loop = asyncio._get_running_loop()  # noqa: SLF001 - a simulated thread runs none
    if not isinstance(loop, VirtualLoop):
        loop = simulation_of_this_thread() or asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop):
        return loop
    raise ScenarioError(
        "this needs the virtual clock", hint="run the coroutine with simloop.simulate(...)"
    )
