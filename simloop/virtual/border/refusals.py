"""The refusal of calls that leave or end a simulation: blocking sockets, forks and signals.

Other threads and debuggers are let through. Stand-ins refuse calls that have no audit event.
"""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from simloop.virtual.border.absence import EVENTS, guarded, named
from simloop.virtual.border.answers import Answers, answers_here
from simloop.virtual.real_world import ADVICE, LISTS, is_exempt

_ABSENT = "absent"
_ADVICE = {
    event: advice for advice, events in LISTS.audit_events.items() for event in events
} | dict.fromkeys(EVENTS, _ABSENT)


def _refusing(original: Any, name: str, advice: str) -> Callable[..., Any]:
    def refuse(answers: Answers, *_: Any, **__: Any) -> Any:
        __tracebackhide__ = True
        raise answers.loop.refuse(name, advice)

    return guarded(original, refuse)


def _exit(answers: Answers, _: Any, status: int) -> None:
    """End a whole program, as `os._exit` ends a process; refused in any other run."""
    threads = answers.loop.threads
    if threads is None or not threads.has_main:
        raise answers.loop.refuse("os._exit", ADVICE["end"])
    threads.exit_program(status)


@functools.cache
def watch_reaches() -> None:
    """Add the audit hook of the process, once; Python never removes it."""
    sys.addaudithook(_on_event)


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    # Every audit event of the process comes through here, for ever: it costs one look-up.
    advice = _ADVICE.get(event)
    __tracebackhide__ = True
    if advice is None:
        return
    answers = answers_here()
    if answers is None:
        return
    if advice == "thread" and getattr(args[0], "__module__", "") == _THREADS:
        return
    if is_exempt(sys._getframe(1)):  # noqa: SLF001 - the caller
        return
    if advice != _ABSENT:
        raise answers.loop.refuse(event, ADVICE[advice])
    error = EVENTS[event](answers, *args)
    if error is not None:
        raise error


_THREADS = "simloop.virtual.threads.scheduler"


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    original: _refusing(original, name, ADVICE[advice])
    for advice, names in LISTS.silent_functions.items()
    for name in names
    for original in [named(*name.split("."))]
    if original is not None
} | {os._exit: guarded(os._exit, _exit)}


def _without_waiting(original: Any, name: str) -> Callable[..., Any]:
    """Return a method that a socket of the run's network has; it is refused if it may wait."""

    def method(answers: Answers, original: Any, one: Any, *args: Any, **_: Any) -> Any:
        __tracebackhide__ = True
        network = answers.loop.network
        if network is not None and network.has(one):
            return network.answer(name, original, one, *args)
        if name in _HARMLESS:
            return original(one, *args)
        raise answers.loop.refuse(f"socket.{name.lstrip('_')}", ADVICE["transport"])

    return guarded(original, method)


_HARMLESS = ("close", "shutdown", "getsockname", "getpeername", "setsockopt", "getsockopt")
METHODS: tuple[tuple[type, str, Any], ...] = tuple(
    (kind, name, _without_waiting(vars(kind)[name], name))
    for place, names in (*LISTS.silent_methods.items(), ("_socket.socket", _HARMLESS))
    for kind in [named(*place.split("."))]
    for name in names
    if kind is not None and name in vars(kind)
)
