"""Calls between coroutines and blocking code: each waits for the other on virtual time.

`asyncio.to_thread` lets the thread go on when its task is cancelled. Here, a cancellation ends the
thread where it is parked, and the call waits for the thread's clean-up. While a thread waits for a
coroutine, the callbacks of the loop that is blocked do not run, as in Python, but time moves.
"""
# ruff: noqa: SLF001 - it replaces the loop that asyncio takes for the running one

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from simloop.errors import ScenarioError
from simloop.virtual.clock.loop import THREADS
from simloop.virtual.threads.inner_loop import InnerLoop
from simloop.virtual.threads.scheduler import SimulatedThread, ThreadEnded, simulated, thread_here

T = TypeVar("T")


async def call_in_thread(function: Callable[[], T], name: str) -> T:
    """Call `function` in a thread of that name, in the context of the caller; return its result.

    Raises what it raises; CancelledError if the task was cancelled and that has ended the thread.
    """
    loop = asyncio.get_running_loop()
    context = contextvars.copy_context()
    result: list[T] = []
    errors: list[BaseException] = []
    ended = loop.create_future()

    def work() -> None:
        try:
            result.append(context.run(function))
        except BaseException as error:  # noqa: BLE001 - it is raised in the task
            errors.append(error)
        finally:
            loop.call_soon_threadsafe(_end, ended)

    thread = threading.Thread(target=work, name=name)
    thread.start()
    cancelled = await _wait(ended, thread)
    if result:
        return result[0]
    error = errors.pop()
    if cancelled is not None and isinstance(error, ThreadEnded):
        raise cancelled
    try:
        raise error
    finally:
        del error  # its traceback has this frame


async def _wait(ended: "asyncio.Future[None]", thread: Any) -> asyncio.CancelledError | None:
    """Wait for the end of the thread. Return the first cancellation of the task, if one came."""
    cancelled = None
    while not ended.done():
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
            running = simulated(thread)
            if running is not None:
                running.threads.throw(running, ThreadEnded())
    return cancelled


def _end(ended: "asyncio.Future[None]") -> None:
    if not ended.done():
        ended.set_result(None)


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
        inner = InnerLoop(me.loop)
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
