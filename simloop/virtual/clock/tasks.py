"""The tasks of the virtual loop, and awaitables that run without a task up to their first wait.

Nothing of a task or a future depends on its address: asyncio and programs keep them in sets.
"""

import asyncio
from collections.abc import Awaitable
from types import CoroutineType, FrameType
from typing import Any, cast

from simloop.virtual.clock.listener import listener_of

_USUAL = frozenset({bool, int, float, str, bytes, list, tuple, dict})


class NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number in the run.

    `TaskGroup` cancels its tasks in the order of a set, and `asyncio.wait` returns sets. By default
    the order of a set of tasks depends on their addresses.
    """

    def __init__(self, number: int, coro: Any, **kwargs: Any) -> None:
        self._number = number  # first, because asyncio adds the new task to a set of all tasks
        super().__init__(coro, **kwargs)
        # What a run leaves behind is in its trace; Python would print it into the next report.
        self._log_destroy_pending = False

    def __hash__(self) -> int:
        return self._number

    def cancel(self, msg: Any | None = None) -> bool:
        loop: Any = self.get_loop()
        listener = listener_of(getattr(loop, "outer", loop))
        if listener is not None and not self.done() and not self.cancelling():
            listener.cancels(self)
        return super().cancel(msg)


class Future(asyncio.Future[Any]):
    """A future of the loop whose hash is its number among those that were put in a set."""

    _number = 0

    def __hash__(self) -> int:
        if not self._number:
            loop: Any = self.get_loop()
            loop.outer.future_count += 1
            self._number = loop.outer.future_count
        return self._number


def of_finalizer(caller: FrameType) -> bool:
    """Return whether a `__del__` creates a task, itself or through `asyncio.create_task`.

    The garbage collector chooses its time, perhaps in a later run: the clients of OpenAI's and
    Anthropic's SDKs close themselves so. Such a task would make equal runs differ.
    """
    return any(each and each.f_code.co_name == "__del__" for each in (caller, caller.f_back))


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


class Started:
    """The rest of an awaitable that was run up to its first wait.

    To be awaited once, in the task that began it: `asyncio.timeout` and task groups remember the
    task in which they were entered, and cancel that one.
    """

    __slots__ = ("_first", "close", "send", "throw")

    def __init__(self, iterator: Any, waits_for: Any) -> None:
        self._first = [waits_for]
        self.send, self.throw, self.close = iterator.send, iterator.throw, iterator.close

    def __await__(self) -> Any:
        return self

    def __next__(self) -> Any:
        # Not the next step at first: it would resume the awaitable before the future that it waits
        # for is done.
        return self._first.pop() if self._first else self.send(None)


def is_coroutine(result: object) -> bool:
    """Return whether a result is a coroutine; ten times as fast for results of usual types."""
    return type(result) not in _USUAL and asyncio.iscoroutine(result)


def begin(awaitable: Awaitable[Any]) -> Any:
    """Run an awaitable up to its first wait. Return its result, or a Started if it waits.

    Most tools, hooks and streams wait for nothing: without a task and a timeout they stay cheap.
    An exception of the awaitable is raised where it happens: here, or where the rest is awaited.
    """
    # A coroutine has the methods of its iterator: a wrapper less for the most usual awaitable.
    iterator: Any = awaitable
    try:
        if type(awaitable) is CoroutineType:
            waits_for = iterator.send(None)
        else:
            iterator = awaitable.__await__()
            waits_for = next(iterator)
    except StopIteration as done:
        return done.value
    return Started(iterator, waits_for)
