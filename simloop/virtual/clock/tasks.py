"""The tasks of the virtual loop.

Nothing of a task depends on its address, because asyncio and programs keep tasks in sets.
"""

import asyncio
from types import FrameType
from typing import Any, cast

from simloop.virtual.clock.listener import listener_of
from simloop.virtual.places import WAIT_FOR

# The function of Python 3.11 that calls `create_task` for `wait_for`; others have none.
_ENSURE_FUTURE = getattr(getattr(asyncio.tasks, "_ensure_future", None), "__code__", None)


class NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number in the run.

    `TaskGroup` cancels its tasks in the order of a set, and `asyncio.wait` returns sets. By default
    the order of a set of tasks depends on their addresses.
    """

    awaiter: asyncio.Task[Any] | None = None
    """The task that awaits this one in `wait_for`, if that has made it, as in Python 3.11."""

    def __init__(self, number: int, coro: Any, **kwargs: Any) -> None:
        self._number = number  # first, because asyncio adds the new task to a set of all tasks
        super().__init__(coro, **kwargs)

    def __hash__(self) -> int:
        return self._number

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the task, as asyncio does, and tell the listener on its loop.

        It has heard of the cancellation of an awaiter.
        """
        loop: Any = self.get_loop()
        listener = None if self.awaiter else listener_of(getattr(loop, "outer", loop))
        if listener is not None and not self.done() and not self.cancelling():
            listener.cancels(self)
        return super().cancel(msg)


def note_awaiter(task: asyncio.Task[Any], caller: FrameType) -> None:
    """Note the current task as the awaiter, if `wait_for` of Python 3.11 makes the task for it."""
    if caller.f_code is not _ENSURE_FUTURE or not isinstance(task, NumberedTask):
        return
    frame = caller.f_back and caller.f_back.f_back
    if frame is not None and frame.f_code is WAIT_FOR and frame.f_locals["timeout"] > 0:
        task.awaiter = asyncio.current_task()


def of_finalizer(caller: FrameType) -> bool:
    """Return whether a `__del__` creates a task, itself or through `asyncio.create_task`.

    The garbage collector chooses its time, perhaps in a later run: the clients of OpenAI's and
    Anthropic's SDKs close themselves so. Such a task would make equal runs differ.
    """
    outer = caller.f_back
    return caller.f_code.co_name == "__del__" or (
        outer is not None and outer.f_code.co_name == "__del__"
    )


def is_of_finalizer(frame: FrameType | None) -> bool:
    """Return whether a `__del__` is on the stack."""
    while frame is not None and frame.f_code.co_qualname != "VirtualLoop.run":
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def dropped(coroutine: Any, loop: asyncio.AbstractEventLoop) -> asyncio.Task[Any]:
    """Close the coroutine of a finalizer, and return a future as if its task were cancelled."""
    coroutine.close()
    future = loop.create_future()
    future.cancel()
    return cast("asyncio.Task[Any]", future)


def closes(task: asyncio.Task[Any]) -> bool:
    """Return whether the task closes an async generator, as asyncio does for a collected one."""
    return type(task.get_coro()).__name__ == "async_generator_athrow"


def is_unseen(task: asyncio.Task[Any]) -> bool:
    """Return whether the task failed and no code retrieved the exception, by asyncio's mark."""
    return getattr(task, "_log_traceback", False)
