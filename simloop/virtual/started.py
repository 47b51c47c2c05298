"""Awaitables that are run at once up to their first wait.

Most tools, hooks and streams wait for nothing. Running them without a timeout and without a task
keeps them cheap: only those that really wait are awaited. asyncio's own eager tasks (Python 3.12)
would make every awaitable a task, with a context and a turn of its own.
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any

PENDING = object()
"""Stands for the result of an awaitable that waits."""


class Started:
    """An awaitable that was run up to its first wait.

    `result` is its result, or `PENDING`: then awaiting this object goes on with it, once. An
    exception of the awaitable is raised where it happens: by the constructor or by `await`.
    """

    __slots__ = ("_iterator", "_waits_for", "result")

    def __init__(self, awaitable: Awaitable[Any]) -> None:
        self._iterator: Generator[Any, Any, Any] = awaitable.__await__()
        self.result: Any = PENDING
        try:
            self._waits_for = next(self._iterator)
        except StopIteration as done:
            self.result = done.value

    def __await__(self) -> Generator[Any, Any, Any]:
        if self.result is not PENDING:
            return self.result
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
