"""Places in the program, in words: where a task waits, and where a call comes from.

A place has no address and no path, so that a report reads the same on every machine.
"""
# ruff: noqa: SLF001 - stacks, tasks and handles keep in private slots what they wait for

import asyncio
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import lru_cache, partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from simloop.virtual.real_world import LISTS, stack

MOST_NAMED = 20
_LIBRARY = os.path.dirname(os.__file__)  # noqa: PTH120 - compared with strings
_COMPREHENSION = re.compile(r"\.<locals>(\.<(?:list|set|dict)comp>)+$|\.?<(?:list|set|dict)comp>")
_INSTALLED = ("site-packages", "dist-packages")


class _Owner(IntEnum):  # from the farthest from the user to the nearest
    PYTHON = 0
    SIMLOOP = 1
    PACKAGE = 2
    PROGRAM = 3


def where_it_waits(task: asyncio.Task[Any]) -> str:
    """Return the place at which a task waits, of the program if possible, and for what."""
    place, awaited, _ = _wait_of(task)
    future: Any = getattr(task, "_fut_waiter", None)
    if not awaited and future is not None:
        named = isinstance(future, asyncio.Task)
        awaited = future.get_name() if named else type(future).__name__.lstrip("_")
    return ", ".join(filter(None, (place, awaited and f"awaiting {awaited}")))


def place_of_task(task: asyncio.Task[Any]) -> str:
    """Return the place at which a task waits: of the program, or else of a package, or none."""
    place, _, owner = _wait_of(task)
    return place if owner >= _Owner.PACKAGE else ""


def sleeps_itself(task: asyncio.Task[Any]) -> bool:
    """Return whether the program's own code waits in `asyncio.sleep`, and not its world."""
    frames = [frame for _, frame in _chain(task.get_coro())]
    owners = (_owner_of(frame) for frame in reversed(frames))
    last = next((each for each in owners if each is not _Owner.PYTHON), _Owner.SIMLOOP)
    return frames[-1].f_code is asyncio.sleep.__code__ and last is not _Owner.SIMLOOP


def _wait_of(task: asyncio.Task[Any]) -> tuple[str, str, "_Owner"]:
    place, awaited, nearest = "", "", _Owner.PYTHON
    for coroutine, frame in _chain(task.get_coro()):
        if (owner := _owner_of(frame)) >= nearest and owner is not _Owner.PYTHON:
            place, awaited, nearest = place_of_code(frame.f_code, frame.f_lineno), "", owner
        else:
            awaited = awaited or coroutine.__qualname__
    return place, awaited, nearest


def _chain(awaitable: Any) -> Iterator[tuple[Any, Any]]:
    while frame := getattr(awaitable, "cr_frame", None) or getattr(awaitable, "gi_frame", None):
        yield awaitable, frame
        awaitable = getattr(awaitable, "cr_await", None) or getattr(awaitable, "gi_yieldfrom", None)


def place_of_code(code: CodeType, line: int) -> str:
    """Return file, line and function of a line of code: `conversation.py:12 in ask`."""
    file = code.co_filename.replace("\\", "/").rpartition("/")[2]
    return f"{file}:{line} in {_COMPREHENSION.sub('', code.co_qualname) or '<module>'}"


def place_of_error(error: BaseException) -> str:
    """Return the innermost place of the program that an exception passed, or one of a package."""
    place, nearest = "", _Owner.PACKAGE
    for frame, line in traceback.walk_tb(error.__traceback__):
        if (owner := _owner_of(frame)) >= nearest:
            place, nearest = place_of_code(frame.f_code, line), owner
    return place


def place_of_callback(handle: asyncio.Handle) -> str:
    """Return file, first line and name of a callback of the program; empty for any other."""
    function: Any = handle._callback  # type: ignore[attr-defined]
    while type(function) in {partial, MethodType}:
        function = function.func if type(function) is partial else function.__func__
    if type(function) is not FunctionType:
        return ""
    code = function.__code__
    if _is_ours_or_pythons(code.co_filename, str(function.__globals__.get("__name__"))):
        return ""
    return place_of_code(code, code.co_firstlineno)


def callers_place(frame: FrameType | None = None) -> str:
    """Return the innermost place of the calling program, or else of a package, or none."""
    found = caller(frame or sys._getframe(1))
    return "" if found is None else place_of_code(*found)


def shares_code(frame: FrameType | None) -> bool:
    """Return whether the calling program is in a function that another thread is in, at `frame`."""
    found = caller(sys._getframe(1))
    return found is not None and any(each.f_code is found[0] for each in stack(frame))


def caller(frame: FrameType) -> tuple[CodeType, int] | None:
    """Return the code and the line of the place that `callers_place` names, for later use."""
    package = None
    for each in stack(frame):
        if (owner := _owner_of(each)) is _Owner.PROGRAM:
            return each.f_code, each.f_lineno
        if owner is _Owner.PACKAGE:
            package = package or (each.f_code, each.f_lineno)
    return package


def place_in_program() -> str:
    """Return the place of the calling program, or else where a task of it waits."""
    caller = sys._getframe(1)
    loop: Any = asyncio._get_running_loop()
    if not any(_owner_of(each) is _Owner.PROGRAM for each in stack(caller)):
        for task in getattr(loop, "unfinished", list)():
            place, _, owner = _wait_of(task)
            if owner is _Owner.PROGRAM:
                return place
    return callers_place(caller)


def askers_place() -> str:
    """Return the innermost place on the stack that is of no SDK and no HTTP client."""
    return _askers(stack(sys._getframe(1)))


def askers_place_in_task(task: asyncio.Task[Any]) -> str:
    """Return the place of the package, or of the program, for which a task waits."""
    return _askers(reversed([frame for _, frame in _chain(task.get_coro())]))


def _askers(frames: Iterable[Any]) -> str:
    place = ""
    for each in frames:
        if _owner_of(each) >= _Owner.PACKAGE:
            place = place_of_code(each.f_code, each.f_lineno)
            if str(each.f_globals.get("__name__")).partition(".")[0] not in LISTS.clients:
                break
    return place


def _owner_of(frame: Any) -> _Owner:
    return _owner(frame.f_code.co_filename, str(frame.f_globals.get("__name__")))


@lru_cache(maxsize=10_000)
def _owner(file: str, module: str) -> _Owner:
    if _is_ours(module):
        # The stand-ins are functions of Python for a program.
        return _Owner.PYTHON if module == "simloop.virtual.border.answers" else _Owner.SIMLOOP
    if module.partition(".")[0] == "anyio" or _is_ours_or_pythons(file, module):
        return _Owner.PYTHON
    return _Owner.PACKAGE if any(part in file for part in _INSTALLED) else _Owner.PROGRAM


def _is_ours_or_pythons(file: str, module: str) -> bool:
    return file.startswith((_LIBRARY, "<frozen")) or _is_ours(module)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "simloop"
