"""A call of a blocking function in a simulated thread of its own, awaited by a task.

`asyncio.to_thread` lets the thread go on when its task is cancelled. The rule to keep: here, a
cancellation ends the thread where it is parked, and the call waits for the thread's clean-up.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from simloop.virtual.simulated_thread import ThreadEnded
from simloop.virtual.thread_stand_ins import simulated

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
