"""Awaitables that are run at once up to their first wait.

Most tools, hooks and streams wait for nothing. Running them without a timeout and without a task
keeps them cheap: only those that really wait are awaited. asyncio's own eager tasks (Python 3.12)
would make every awaitable a task, with a context and a turn of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from types import CoroutineType
from typing import Any

_USUAL = frozenset({bool, int, float, str, bytes, list, tuple, dict})


class Started:
    """The rest of an awaitable that was run up to its first wait.

    To be awaited once, in the task that began it: `asyncio.timeout` and task groups remember the
    task in which they were entered, and cancel that one.
    """

    __slots__ = ("_iterator", "_waits_for")

    def __init__(self, iterator: Any, waits_for: Any) -> None:
        self._iterator = iterator
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, Any]:
        # `yield from iterator` would begin with `next`, and so resume the awaitable before the
        # future that it waits for is done.
        iterator, waits_for = self._iterator, self._waits_for
        while True:
            step: Callable[[Any], Any] = iterator.send
            try:
                given = yield waits_for
            except GeneratorExit:
                iterator.close()
                raise
            except BaseException as error:  # noqa: BLE001 - also a cancellation is for the awaitable
                step, given = iterator.throw, error
            try:
                waits_for = step(given)
            except StopIteration as done:
                return done.value
            finally:
                given = None  # an exception would keep its traceback, which keeps this frame


def is_coroutine(result: object) -> bool:
    """Return whether the result of a plain function is a coroutine, by `asyncio.iscoroutine`.

    asyncio asks an abstract class about each value that is no coroutine, which takes ten times as
    long as this function takes for a result of a usual type.
    """
    return type(result) not in _USUAL and asyncio.iscoroutine(result)


def begin(awaitable: Awaitable[Any]) -> Any:
    """Run an awaitable up to its first wait. Return its result, or a Started if it waits.

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
