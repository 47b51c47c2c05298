"""The waits of a program on a virtual loop: its sleeps, its timeouts, its tasks and its threads."""
# ruff: noqa: SLF001 - the loop, its tasks and its timers keep in private slots what they wait for

import asyncio
import re
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from simloop.virtual.clock.listener import WAKE, is_of_simloop
from simloop.virtual.clock.loop import THREADS, VirtualLoop
from simloop.virtual.places import callers_place, place_of_callback, place_of_task, sleeps_itself

_UNNAMED = re.compile(r"main|task-\d+|close .*")


class Wait(NamedTuple):
    """A wait: `what` is sleep, timeout, task, thread or callback.

    `name` is that of a task or a thread, empty if the program has not named it. `due_ns` is the
    virtual time that ends the wait, or None if no timer does.
    """

    what: str
    name: str
    place: str
    due_ns: int | None = None


def name_of_task(task: asyncio.Task[Any]) -> str:
    """Return the name that the program gave to a task; empty if it gave none."""
    name = task.get_name()
    return "" if _UNNAMED.fullmatch(name) else name


def waits(loop: VirtualLoop) -> Iterator[Wait]:
    """Yield the waits of a program: of its tasks and threads first, then its other timers."""
    handles: list[tuple[int, Any]] = sorted(
        ((when_ns, handle) for when_ns, _, _, handle in loop.timers()), key=lambda timer: timer[0]
    )
    wakes = {handle._args[0]: when_ns for when_ns, handle in handles if handle._callback is WAKE}
    for task in loop.unfinished():
        if (future := getattr(task, "_fut_waiter", None)) is None:  # it can run
            continue
        place, name = place_of_task(task), name_of_task(task)
        if future in wakes and sleeps_itself(task):
            yield Wait("sleep", name, place, wakes[future])
        elif place or name:
            yield Wait("task", name, place)
    for what, name, place, timer in () if loop.threads is None else loop.threads.waiting():
        due_ns = next((when_ns for when_ns, handle in handles if handle is timer), None)
        yield Wait(what, name, place, due_ns if what == "sleep" else None)
    for when_ns, handle in handles:
        bounded = _bounded(handle)
        if place := place_of_callback(handle) if bounded is None else place_of_task(bounded):
            what = "callback" if bounded is None else "timeout"
            yield Wait(what, "" if bounded is None else name_of_task(bounded), place, when_ns)


def _bounded(handle: Any) -> asyncio.Task[Any] | None:
    owner = getattr(handle._callback, "__self__", None)
    task = getattr(owner, "_task", None) or getattr(owner, "_host_task", None)
    return task if isinstance(task, asyncio.Task) else None


def before_time_moves(loop: VirtualLoop, look: Callable[[int, FrameType], None]) -> None:
    """Call `look` with the nanoseconds and the caller's frame whenever time is about to move."""
    plain = loop.advance_ns

    def advance_ns(nanoseconds: int) -> None:
        if nanoseconds:
            look(nanoseconds, sys._getframe(1))
        plain(nanoseconds)

    # In the object and not in its class, so that a run that nobody watches pays nothing.
    vars(loop)["advance_ns"] = advance_ns
    loop.at_end.append(lambda: vars(loop).pop("advance_ns", None))


def sleep_of_caller(loop: VirtualLoop, nanoseconds: int, frame: FrameType) -> Iterator[Wait]:
    """Yield the sleep of code that moves time itself: in the loop's thread, or in one alone."""
    place = callers_place(frame)
    if place and not (loop.threads is not None and loop.threads.is_blocking):
        thread = THREADS.get(threading.get_ident())
        name = "" if thread is None else thread.name
        if is_of_simloop(frame):
            yield Wait("thread" if thread else "task", name, place)
        else:
            yield Wait("sleep", name, place, loop.now_ns + nanoseconds)
