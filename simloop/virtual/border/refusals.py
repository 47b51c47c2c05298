"""The refusal of calls that leave or end a simulation: blocking sockets, forks and signals.

Other threads and debuggers are let through. Stand-ins refuse calls that have no audit event.
"""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from simloop.virtual import real_world
from simloop.virtual.border.absence import EVENTS, named
from simloop.virtual.border.answers import answers_here
from simloop.virtual.clock.loop import loop_here

_ABSENT = "absent"
_ADVICE = {
    event: advice for advice, events in real_world.AUDIT_EVENTS.items() for event in events.split()
} | dict.fromkeys(EVENTS, _ABSENT)
_hooks: list[Callable[..., None]] = []


def _refusing(original: Any, name: str, advice: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def refusing(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        _refuse(name, advice)
        return original(*args, **kwargs)

    return refusing


def _refuse(what: str, advice: str) -> None:
    __tracebackhide__ = True
    answers = answers_here()
    if answers is not None and not real_world.is_exempt(sys._getframe(2)):  # noqa: SLF001 - its caller
        raise answers.loop.refuse(what, advice)


def _exit(status: int) -> None:
    """End a whole program, as `os._exit` ends a process; refused in any other run."""
    answers = answers_here()
    threads = None if answers is None else answers.loop.threads
    if threads is not None and threads.has_main and not real_world.is_exempt(sys._getframe(1)):  # noqa: SLF001 - as above
        threads.exit_program(status)
    _refusing_exit(status)


_refusing_exit = _refusing(os._exit, "os._exit", real_world.END)


def watch_reaches() -> None:
    """Add the audit hook of the process, once; Python never removes it."""
    if not _hooks:
        sys.addaudithook(_on_event)
        _hooks.append(_on_event)


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    # Every audit event of the process comes through here, for ever: it costs one look-up.
    advice = _ADVICE.get(event)
    __tracebackhide__ = True
    if advice is None:
        return
    answers = answers_here()
    if answers is None:
        return
    if advice == _ABSENT:
        error = None if real_world.is_exempt(sys._getframe(1)) else EVENTS[event](answers, *args)  # noqa: SLF001 - the caller
        if error is not None:
            raise error
    elif advice is not real_world.THREAD or getattr(args[0], "__module__", "") != _THREADS:
        _refuse(_described(event, args), advice)


_THREADS = "simloop.virtual.threads.scheduler"


def _described(event: str, args: tuple[Any, ...]) -> str:
    place = real_world.COMMANDS.get(event)
    return event if place is None else real_world.with_command(event, args[place])


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    original: _refusing(original, name, advice)
    for advice, names in real_world.SILENT_FUNCTIONS.items()
    for name in names.split()
    for original in [named(*name.split("."))]
    if original is not None
} | {os._exit: functools.wraps(os._exit)(_exit)}


def _without_waiting(original: Any, name: str) -> Callable[..., Any]:
    """Return a method of sockets that is refused, unless the socket is one of the run's network."""
    refusing = _refusing(original, f"socket.{name.lstrip('_')}", real_world.TRANSPORT)

    @functools.wraps(original)
    def method(one: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        loop = loop_here()
        if loop is not None and loop.network is not None and loop.network.has(one):
            return loop.network.answer(name, original, one, *args)
        return refusing(one, *args, **kwargs)

    return method


METHODS: tuple[tuple[type, str, Any], ...] = tuple(
    (kind, name, _without_waiting(vars(kind)[name], name))
    for place, names in real_world.SILENT_METHODS.items()
    for kind in [named(*place)]
    for name in names.split()
    if kind is not None and name in vars(kind)
)
