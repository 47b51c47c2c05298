"""Listeners on a virtual loop: they hear of sleeps, cancellations and blocking calls of a program.

They hear nothing of simloop itself. `AgentRecord` (world/agent.py) is the listener.
"""
# ruff: noqa: SLF001 - private functions of asyncio, and the stack

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from simloop.virtual.clock.instants import NEVER_S, SECOND_NS
from simloop.virtual.places import callers_place
from simloop.virtual.real_world import stack

LEAST_NS = SECOND_NS
"""The shortest sleep and blocking call of which a listener hears: polls are shorter."""
_LEAST_HELD_NS = SECOND_NS // 10  # a write to a file or to a database takes less
_LEAST_S = LEAST_NS / SECOND_NS
_WAITING = frozenset({"asyncio", "anyio", "concurrent", "queue", "threading"})
_STAND_INS = frozenset(f"simloop.virtual.{name}" for name in (
    "border.answers", "border.pipes", "border.processes", "border.standard_input",
    "border.thread_stand_ins", "clock.loop", "clock.listener", "clock.tasks", "threads.scheduler",
))  # fmt: skip
"""The modules of simloop whose functions a program calls without knowing it."""

WAKE = asyncio.futures._set_result_unless_cancelled  # type: ignore[attr-defined]
"""The callback for which `asyncio.sleep` sets a timer: it sets the result of a future."""


@contextlib.contextmanager
def listened(loop: Any, listener: Any) -> Iterator[None]:
    """Let `listener` hear of the program on `loop`; the newest listener hears alone."""
    loop.listeners.append(listener)
    try:
        yield
    finally:
        loop.listeners.remove(listener)


def listener_of(loop: Any) -> Any:
    """Return the listener on `loop`, or None if none hears."""
    listeners = getattr(loop, "listeners", ())
    return listeners[-1] if listeners and listeners[-1].hears else None


def report_blocking(loop: Any, took_ns: int) -> None:
    """Tell the listener that the caller has blocked the loop, if that took long enough."""
    listener = listener_of(loop) if took_ns >= LEAST_NS else None
    if listener is not None and not is_of_simloop(sys._getframe(1)):
        listener.blocked(took_ns, callers_place())


def report_sleep(loop: Any, wait_ns: int) -> None:
    """Tell the listener that the calling thread begins to sleep, if it sleeps long enough."""
    listener = listener_of(loop) if wait_ns >= LEAST_NS else None
    if listener is not None and not is_of_simloop(sys._getframe(1)):
        listener.sleeps(wait_ns, callers_place() or "a thread without code of its own")


def report_lock(loop: Any, took_ns: int, holders_place: str) -> None:
    """Tell the listener that a thread has waited for a lock, if its holder let it wait long."""
    if (listener := listener_of(loop) if took_ns >= _LEAST_HELD_NS else None) is not None:
        listener.held(took_ns, holders_place)


class OpenSession(NamedTuple):
    """A session that the program has opened at `place`; `link` is an object of it alone."""

    name: str
    link: object
    place: str
    is_closed: Callable[[], bool]


def report_session(loop: Any, session: OpenSession) -> None:
    """Tell the listener that the program uses a session."""
    if (listener := listener_of(loop)) is not None:
        listener.opens(session)


def hear_timer(loop: Any, delay_s: float, callback: Any) -> None:
    """Tell the listener of a timer of the program: an `asyncio.sleep` that is long enough."""
    listener = listener_of(loop)
    if listener is None or callback is not WAKE or not _LEAST_S <= delay_s < NEVER_S:
        return
    if not is_of_simloop(sys._getframe(2)):
        place = callers_place() or "a task without code of its own"
        listener.sleeps(round(delay_s * SECOND_NS), place)


def is_of_simloop(frame: Any) -> bool:
    """Return whether a call comes from simloop, behind asyncio, anyio and stand-ins."""
    for each in stack(frame):
        name = str(each.f_globals.get("__name__", ""))
        package = name.partition(".")[0]
        # A loop of simloop runs the callbacks of others, as the one of asyncio does.
        is_loop = each.f_code.co_qualname == "InnerLoop.run_forever"
        if name not in _STAND_INS and package not in _WAITING and not is_loop:
            return package == "simloop"
    return False  # a timer of asyncio, such as that of a timeout
