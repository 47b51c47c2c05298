"""Reliable delivery of Ctrl-C.

Python raises KeyboardInterrupt at any point of the main thread. In a `__del__` or a weakref
callback, which garbage collection calls between any two steps of a run, it is printed as ignored
and lost; in a function that pydantic calls it becomes an error of pydantic's. Measured: one Ctrl-C
in 25 during a long run. The rule to keep: an interrupt ends the command, and as an interrupt.
"""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

_AGAIN_S = 0.01


@contextmanager
def insistent_interrupts() -> Iterator[None]:
    """Raise a lost interrupt again inside the block. Raises Abort at the end if there was one."""
    came = False
    hook, handler = sys.unraisablehook, signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: Any) -> None:
        nonlocal came
        came = True
        signal.default_int_handler(number, frame)

    def insist(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _raise_soon()
        else:
            hook(unraisable)

    ours = handler is signal.default_int_handler  # false if a shell makes us ignore Ctrl-C
    if ours:
        signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = insist
    try:
        yield
    finally:
        sys.unraisablehook = hook
        if ours:
            signal.signal(signal.SIGINT, handler)
        if came:
            raise click.Abort


@contextmanager
def postponed_interrupts() -> Iterator[Callable[[], bool]]:
    """Yield a question: whether Ctrl-C came inside the block. A second Ctrl-C ends the command.

    It is for work that has a result whenever it is stopped.
    """
    came = False
    before = signal.getsignal(signal.SIGINT)

    def postpone(number: int, frame: Any) -> None:
        nonlocal came
        if came:
            signal.default_int_handler(number, frame)
        came = True

    heard = callable(before)  # false if a shell makes us ignore Ctrl-C
    if heard:
        signal.signal(signal.SIGINT, postpone)
    try:
        yield lambda: came
    finally:
        if heard:
            signal.signal(signal.SIGINT, before)


def _raise_soon() -> None:
    # From another thread: raised here, it would be lost again.
    import _thread  # noqa: PLC0415 - rarely needed
    import threading  # noqa: PLC0415 - rarely needed

    threading.Timer(_AGAIN_S, _thread.interrupt_main).start()
