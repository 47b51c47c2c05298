"""Running any coroutine in a simulation: virtual clock, sealed border, one seed."""

import asyncio
import inspect
import math
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from types import CoroutineType
from typing import Any, TypeVar

from simloop.errors import CheckFailed, ScenarioError, SimloopError
from simloop.virtual.border.seal import sealed
from simloop.virtual.clock.loop import MAX_VIRTUAL_NS, VirtualLoop, loop_here
from simloop.virtual.seeds import Seeds

T = TypeVar("T")
_spare = threading.local()
_TOOL = 3  # the number by which Hypothesis watches lines from Python 3.12 on


def simulate(
    main: Coroutine[Any, Any, T], *, seed: int = 0, shuffle_ties: bool = False,
    max_virtual_s: float = MAX_VIRTUAL_NS / 1e9, max_callbacks: int | None = None,
) -> T:  # fmt: skip
    """Run `main` on the virtual clock and return its result.

    Inside, time, dates and randomness answer from the clock and `seed`; hosts and programs are
    not there. Threads are simulated: one runs at a time, and blocking waits take virtual time.
    `shuffle_ties` draws from the seed the order of timers, and of threads, that are due at once.

    A program is a RunawayRun after three million callbacks of the event loop, or half a million
    without anything new in the world of a scenario. `max_callbacks` replaces both bounds. So is one
    that reads the clock a million times without a wait.

    Raises what `main` raises, with a note of the seed; Deadlock; RunawayRun, also past
    `max_virtual_s`; ScenarioError if `main` reached for the real world or is no coroutine.
    """
    __tracebackhide__ = True  # pytest then shows the test and the program, and no frame in between
    _check_main(main)
    try:
        seeds = Seeds(seed)
        _check_bounds(max_virtual_s, max_callbacks)
        return run_virtual(
            main, shuffle_seed=seeds.stream("ties").getrandbits(64) if shuffle_ties else None,
            max_virtual_ns=round(max_virtual_s * 1e9), max_callbacks=max_callbacks, seeds=seeds,
        )  # fmt: skip
    except CheckFailed as error:
        error.reproduce = error.reproduce or _again(main, seed, shuffle_ties=shuffle_ties)
        raise
    except SimloopError:
        raise
    except Exception as error:
        note = f"simulated with seed={seed}, shuffle_ties={shuffle_ties}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise
    finally:
        if _is_new(main):  # an error came first
            main.close()


def _again(main: Any, seed: int, *, shuffle_ties: bool) -> str:
    name = getattr(main, "__qualname__", "main").rpartition("<locals>.")[2]
    return f"simloop.simulate({name}(), seed={seed}{', shuffle_ties=True' * shuffle_ties})"


def _is_new(main: Coroutine[Any, Any, Any]) -> bool:
    if type(main) is not CoroutineType or main.cr_frame is None:  # the latter: it has ended
        return False
    return inspect.getcoroutinestate(main) == inspect.CORO_CREATED


def _check_main(main: Any) -> None:
    if type(main) is CoroutineType:
        if not _is_new(main):
            raise ScenarioError("this coroutine has been started before", hint="make another one")
    elif not isinstance(main, Coroutine):
        name = getattr(main, "__qualname__", None) or type(main).__qualname__
        hint = "call an `async def`, as in simulate(main())"
        raise ScenarioError(f"simulate needs a coroutine, not `{name}`", hint=hint)


def _check_bounds(max_virtual_s: Any, max_callbacks: Any) -> None:
    is_number = isinstance(max_virtual_s, (int, float)) and not isinstance(max_virtual_s, bool)
    if not is_number or not 0 < max_virtual_s < math.inf:
        hint = "give a positive number of seconds, such as 3600"
        raise ScenarioError(f"max_virtual_s is {max_virtual_s!r}", key="max_virtual_s", hint=hint)
    if max_callbacks is not None and (type(max_callbacks) is not int or max_callbacks < 1):
        hint = "give a positive integer, or None for the default bounds"
        raise ScenarioError(f"max_callbacks is {max_callbacks!r}", key="max_callbacks", hint=hint)


def running_loop() -> VirtualLoop:
    """Return the virtual loop of the caller. Raises ScenarioError on any other loop."""
    if (loop := loop_here()) is None:
        asyncio.get_running_loop()  # without any loop, the error is that of Python
        hint = "run the coroutine with simloop.simulate(...)"
        raise ScenarioError("this needs the virtual clock", hint=hint)
    return loop


@contextmanager
def _untraced() -> Iterator[None]:
    """Pause the tracing of Hypothesis, with which a run takes ten times as long."""
    tracer, watch = sys.gettrace(), getattr(sys, "monitoring", None)
    is_its = (getattr(tracer, "__module__", None) or "").startswith("hypothesis.")
    events = watch.get_events(_TOOL) if watch and watch.get_tool(_TOOL) == "scrutineer" else 0
    if is_its:
        sys.settrace(None)
    if watch and events:
        watch.set_events(_TOOL, 0)
    try:
        yield
    finally:
        if is_its:
            sys.settrace(tracer)
        if watch and events:
            watch.set_events(_TOOL, events)


def run_virtual(
    main: Coroutine[Any, Any, T], *, shuffle_seed: int | None = None, seeds: Seeds | None = None,
    max_virtual_ns: int = MAX_VIRTUAL_NS, max_callbacks: int | None = None,
) -> T:  # fmt: skip
    """Run `main` on a loop that is kept for this thread; with `seeds`, the run is sealed."""
    __tracebackhide__ = True
    loop: VirtualLoop | None = getattr(_spare, "loop", None)
    if loop is None or loop.is_running():
        loop = _spare.loop = VirtualLoop()
    loop.shuffle_seed = shuffle_seed
    loop.max_virtual_ns = max_virtual_ns
    loop.max_callbacks = max_callbacks
    try:
        with _untraced(), nullcontext() if seeds is None else sealed(loop, seeds):
            return loop.run(main)
    finally:
        if loop.is_spoilt:  # no later run is to hear of the thread
            _spare.loop = None
            loop.close()
