"""Blocking waits of code that is written with async: the thread that calls is blocked meanwhile.

Not here: the event loops that a program makes in its threads (inner_loop.py). The rule to keep: the
callbacks of the loop that is blocked do not run, as in Python, but virtual time moves.
"""
# ruff: noqa: SLF001 - it replaces the loop that asyncio takes for the running one

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from simloop.errors import ScenarioError
from simloop.virtual.answers import THREADS
from simloop.virtual.inner_loop import InnerLoop
from simloop.virtual.simulated_thread import SimulatedThread
from simloop.virtual.threads import thread_here

T = TypeVar("T")

_BLOCKING: set["asyncio.Task[Any]"] = set()


def is_blocking(task: "asyncio.Task[Any]") -> bool:
    """Return whether a task blocks its loop: it runs, although it is not the current task."""
    return task in _BLOCKING


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run `coroutine` to its end on a loop of its own, and return its result.

    The calling thread is blocked, which may be the event loop's own. Raises what `coroutine`
    raises, and ScenarioError outside of simulations.
    """
    me = thread_here()
    if me is None:
        coroutine.close()
        raise ScenarioError("this needs the virtual clock", hint="call it in a simulation")
    with _no_loop_running(me):
        inner = InnerLoop(me.threads.loop)
        try:
            return inner.run_until_complete(coroutine)
        finally:
            inner.close()


@contextmanager
def _no_loop_running(me: SimulatedThread) -> Iterator[None]:
    """Let the thread run a loop although it may be in a callback of another one."""
    running: Any = asyncio._get_running_loop()
    if running is None:
        yield
        return
    task = asyncio.current_task(running)
    ident = threading.get_ident()
    is_new = ident not in THREADS
    if task is not None:
        asyncio._leave_task(running, task)
        _BLOCKING.add(task)
    asyncio._set_running_loop(None)
    if is_new:
        # Code of a simulation is known by its running loop, which is another one now.
        THREADS[ident] = me
    try:
        yield
    finally:
        if is_new:
            del THREADS[ident]
        asyncio._set_running_loop(running)
        if task is not None:
            _BLOCKING.discard(task)
            asyncio._enter_task(running, task)
