"""Where a task waits, in words: what a deadlock report says of each.

The rule to keep: names, lines and qualified names only, never an address or a path: the same
deadlock reads the same everywhere.
"""

import asyncio
from collections.abc import Iterator
from typing import Any


def where_it_waits(task: asyncio.Task[Any]) -> str:
    """The innermost frame outside asyncio and anyio, and what it awaits."""
    place, awaited = "", ""
    for coroutine, frame in _chain(task.get_coro()):
        if frame.f_globals.get("__name__", "").partition(".")[0] not in {"asyncio", "anyio"}:
            code = frame.f_code
            file = code.co_filename.replace("\\", "/").rpartition("/")[2]
            place, awaited = f"{file}:{frame.f_lineno} in {code.co_qualname}", ""
        else:
            awaited = awaited or coroutine.__qualname__
    future: Any = getattr(task, "_fut_waiter", None)
    if not awaited and future is not None:
        named = isinstance(future, asyncio.Task)
        awaited = future.get_name() if named else type(future).__name__.lstrip("_")
    return ", ".join(filter(None, (place, awaited and f"awaiting {awaited}")))


def _chain(awaitable: Any) -> Iterator[tuple[Any, Any]]:
    """A coroutine and what it awaits, down to the innermost that has a frame, with the frames."""
    while frame := getattr(awaitable, "cr_frame", None) or getattr(awaitable, "gi_frame", None):
        yield awaitable, frame
        awaitable = getattr(awaitable, "cr_await", None) or getattr(awaitable, "gi_yieldfrom", None)
