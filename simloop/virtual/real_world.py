"""The real world around a simulation: what is refused, what is let through, and a user's Ctrl-C.

`real_world.json` has the names of what was observed, with the date and the versions.
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # every run sets the handler twice; `signal` makes an enum each time


class _Lists(Struct, frozen=True):
    advice: Mapping[str, str]
    """What a refusal tells, by a short name; the lists of refused calls are by that name."""
    loop_methods: Mapping[str, tuple[str, ...]]
    """The methods of an event loop that are refused."""
    audit_events: Mapping[str, tuple[str, ...]]
    """The audit events of calls that leave or end a simulation."""
    silent_functions: Mapping[str, tuple[str, ...]]
    """The functions for which no version of CPython has an audit event."""
    silent_methods: Mapping[str, tuple[str, ...]]
    """By class: methods of sockets without an event. An open socket needs no `connect`."""
    real_clocks: frozenset[str]
    """Packages whose clocks stay real: they wait in the operating system, or measure runs."""
    shells: frozenset[str]
    """The programs that start another one with `-c`."""
    private_twins: frozenset[str]
    """Modules written in C that only the public module of that subject imports."""
    debuggers: frozenset[str]
    """A person who steps through a simulation is outside of it."""
    machine: frozenset[str]
    """They run small programs to find out about the machine, which stays real: the SDK of OpenAI
    asks `distro` and `platform` at its first request."""
    asking_functions: Mapping[str, str]
    """By package, a function that asks as well: urllib3 binds a socket when it is imported."""
    clients: frozenset[str]
    """SDKs of providers, HTTP clients and what repeats their calls, by their modules."""


LISTS = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=_Lists)
ADVICE = LISTS.advice
# The functions below all code of a simulation on a stack.
_STARTS = frozenset({"VirtualLoop.run", "SimulatedThread.bootstrap"})


def pairs(lists: Iterable[tuple[str, Sequence[str]]]) -> Iterator[tuple[str, str]]:
    """Yield the name of a list with each of its items."""
    return ((name, item) for name, items in lists for item in items)


def stack(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of a simulation, from the innermost to the first."""
    while frame is not None and frame.f_code.co_qualname not in _STARTS:
        yield frame
        frame = frame.f_back


def is_exempt(frame: FrameType | None) -> bool:
    """Return whether a debugger, a query about the machine or a repeated Ctrl-C calls."""
    for each in stack(frame):
        name = str(each.f_globals.get("__name__"))
        root = name.partition(".")[0]
        if root in LISTS.debuggers or root in LISTS.machine or name == "simloop.cli.process":
            return True
        if LISTS.asking_functions.get(root) == each.f_code.co_name:
            return True
    return False


class noted_interrupts:  # noqa: N801 - a context manager, named as one reads it
    """Note whether the user presses Ctrl-C inside the block; `pressed` is then true.

    Python raises an equal exception where a program raises KeyboardInterrupt itself. The handler
    that was there is called too. Only the main thread can receive a Ctrl-C.
    """

    pressed = False
    _handler: Any = None

    def __enter__(self) -> Self:
        self.pressed = False
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):  # otherwise no Python handler turns a Ctrl-C into an exception
                signal.signal(signal.SIGINT, self._note)
                self._handler = handler
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.pressed = True
        self._handler(number, frame)

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
