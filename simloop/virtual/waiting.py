"""Places in the program, in words: where a task waits, and where a call comes from.

The rule to keep: names, lines and qualified names only, never an address or a path, so that a
report reads the same on every machine.
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

_LIBRARY = os.path.dirname(os.__file__)  # noqa: PTH120 - compared with strings
_INSTALLED = ("site-packages", "dist-packages")


def where_it_waits(task: asyncio.Task[Any]) -> str:
    """Return the innermost frame outside asyncio and anyio, and the object it awaits."""
    place, awaited = "", ""
    for coroutine, frame in _chain(task.get_coro()):
        if frame.f_globals.get("__name__", "").partition(".")[0] not in {"asyncio", "anyio"}:
            place, awaited = place_of(frame), ""
        else:
            awaited = awaited or coroutine.__qualname__
    future: Any = getattr(task, "_fut_waiter", None)
    if not awaited and future is not None:
        named = isinstance(future, asyncio.Task)
        awaited = future.get_name() if named else type(future).__name__.lstrip("_")
    return ", ".join(filter(None, (place, awaited and f"awaiting {awaited}")))


def _chain(awaitable: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a coroutine and the awaited ones with their frames, down to the innermost."""
    while frame := getattr(awaitable, "cr_frame", None) or getattr(awaitable, "gi_frame", None):
        yield awaitable, frame
        awaitable = getattr(awaitable, "cr_await", None) or getattr(awaitable, "gi_yieldfrom", None)


def place_of(frame: Any) -> str:
    """Return file, line and function of a frame: `conversation.py:12 in ask`."""
    code = frame.f_code
    file = code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f"{file}:{frame.f_lineno} in {code.co_qualname}"


def callers_place(frame: FrameType | None = None) -> str:
    """Return the innermost place of the calling program; user code precedes a package's.

    `frame` is where to begin; by default, the caller of this function.

    Python's library and simloop itself do not count. Empty if nothing else is on the stack.
    """
    package = ""
    frame = frame or sys._getframe(1)  # noqa: SLF001 - the stack is the question
    while frame is not None and frame.f_code.co_qualname != "VirtualLoop.run":
        file = frame.f_code.co_filename
        if any(part in file for part in _INSTALLED):
            package = package or place_of(frame)
        elif not _is_ours_or_pythons(file, str(frame.f_globals.get("__name__"))):
            return place_of(frame)
        frame = frame.f_back
    return package


def is_of_the_program(namespace: dict[str, Any]) -> bool:
    """Return whether the globals belong to no module of Python, a package or simloop."""
    file, name = namespace.get("__file__"), str(namespace.get("__name__"))
    if not isinstance(file, str) or any(part in file for part in _INSTALLED):
        return name == "__main__"
    return not _is_ours_or_pythons(file, name)


def _is_ours_or_pythons(file: str, module: str) -> bool:
    return file.startswith((_LIBRARY, "<frozen")) or module.partition(".")[0] == "simloop"
