"""Pipes that a program makes in a simulation: a wait for one parks the caller on virtual time.

The kernel holds the bytes, and virtual time decides when they are put in. A call that may wait asks
with timeout 0 whether the descriptor is ready. If not, the caller parks, and looks again whenever a
pipe was read, written or closed. A pipe is noted by its inode, because numbers are reused. Others
never park: the output of the program may be a pipe that nobody drains in virtual time.
"""

import functools
import io
import os
import select
import selectors
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from simloop.virtual.border.answers import stand_in
from simloop.virtual.border.exchange import NameExchange
from simloop.virtual.clock.loop import VirtualLoop, loop_here
from simloop.virtual.real_world import is_exempt
from simloop.virtual.threads.scheduler import Fiber, SimulatedThread, parked, thread_here

T = TypeVar("T")

# The originals. This exchange leaves the modules of simloop alone.
_read, _dup2, _fstat, _get_blocking = os.read, os.dup2, os.fstat, os.get_blocking
_poll, _select = select.poll, select.select
_FILE: Any = vars(io.FileIO)
READ, WRITE = select.POLLIN, select.POLLOUT
PIPE_BUF = 4096
"""The bytes that a pipe which is ready surely takes; a larger write may block."""
PIPE_SIZE = 65_536
_WHAT = "a pipe"
exchanged = functools.partial(stand_in, what="pipes")


def until_ns(loop: VirtualLoop, seconds: float) -> int:
    """Return the instant at which a wait of that length ends.

    Code such as `subprocess` waits until `now > start + seconds` holds for doubles. If the clock
    stood at the deadline itself, that code would ask for ever.
    """
    end_s, when_ns = loop.now_ns / 1e9 + seconds, loop.now_ns + round(seconds * 1e9) + 1
    while when_ns / 1e9 <= end_s:
        when_ns += 1
    return when_ns


class Pipes:
    """The noted pipes of one run, and those who wait for them: threads, fibers and event loops."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self._noted: set[tuple[int, int]] = set()
        self._heard: tuple[Any, Callable[[], object], bool] | None = None
        self._waiting: list[SimulatedThread] = []
        self._empty_ns = self._moved_ns = -1
        """The instants of the last poll that found nothing, and of the last that moved time."""
        self._loops: dict[Any, None] = {}  # that watch, in order

    def note(self, ends: tuple[int, int]) -> tuple[int, int]:
        self._noted.update(filter(None, map(inode_of, ends)))
        return ends

    def has(self, descriptor: int) -> bool:
        return inode_of(descriptor) in self._noted

    def hear_readers(self, fd: int, asks: Callable[[], object], *, is_terminal: bool) -> None:
        """Call `asks` before each wait for one pipe, which may be a terminal for the program."""
        self._heard = inode_of(fd), asks, is_terminal

    def is_terminal(self, descriptor: int) -> bool:
        return self._heard is not None and self._heard[::2] == (inode_of(descriptor), True)

    def _tell(self, descriptors: Iterable[Any]) -> None:
        """Tell that somebody waits to read from these descriptors, or looks whether they can."""
        if self._heard is not None:
            inode, asks, _ = self._heard
            for each in descriptors:
                if inode_of(each) == inode:
                    asks()

    def changed(self) -> None:
        """Let all who wait look again."""
        for each in self._waiting:
            if not each.is_ready:
                each.threads.wake(each)
        for loop in self._loops:
            loop.look_at_pipes()

    def wait(self, descriptor: int, event: int) -> None:
        """Wait until an end of a noted pipe is ready, unless it is in non-blocking mode."""
        if is_ready(descriptor, event):
            return
        if event == READ:
            self._tell([descriptor])
        if _get_blocking(descriptor):
            self.wait_for(functools.partial(is_ready, descriptor, event))

    def wait_for(self, look: Callable[[], T], seconds: float | None = None, what: str = _WHAT) -> T:
        """Park the caller until `look` finds something or the time is over; return its value."""
        found, me = look(), thread_here()
        assert me is not None
        if found or (seconds is not None and seconds <= 0):
            self.loop.progress.count(not found)  # a program that polls for ever does nothing new
            if not found and seconds is not None:
                self._pass_a_deadline(me)
            return found
        if me.threads.run_new_fiber() and (found := look()):
            return found
        end_ns = None if seconds is None else until_ns(self.loop, seconds)
        woken = True
        while woken and not found:
            self._waiting.append(me)
            try:
                woken = me.threads.park(me, end_ns, what)
            finally:
                self._waiting.remove(me)
            found = look()
        return found

    def _pass_a_deadline(self, me: SimulatedThread) -> None:
        """Move time once if somebody polls twice in an instant, as `Popen` does at a deadline."""
        if (now_ns := self.loop.now_ns) != self._empty_ns:
            self._empty_ns = now_ns
        elif now_ns != self._moved_ns:
            me.threads.sleep(me, 1)
            self._empty_ns = self._moved_ns = self.loop.now_ns

    async def await_for(self, fiber: Fiber, look: Callable[[], T], what: str = _WHAT) -> T:
        """Park a fiber, in its turn, until `look` finds something; return its value."""
        while not (found := look()):
            self._waiting.append(fiber)
            try:
                await parked(None, what)
            finally:
                self._waiting.remove(fiber)
        return found

    def watch(self, loop: Any, descriptor: int, *, is_read: bool) -> None:
        """Hear that a loop watches a descriptor, from now until `forget`."""
        self._loops[loop] = None
        loop.look_at_pipes()
        if is_read:
            self._tell([descriptor])

    def is_watched(self, descriptor: int) -> bool:
        inode = inode_of(descriptor)
        keys = (key for loop in self._loops for key in loop._selector.get_map().values())  # noqa: SLF001
        return any(key.events & selectors.EVENT_READ and inode_of(key.fd) == inode for key in keys)

    def forget(self, loop: Any) -> None:
        self._loops.pop(loop, None)


def inode_of(descriptor: Any) -> tuple[int, int] | None:
    """Return the device and the inode of a descriptor; None if it is closed, or is none."""
    try:
        found = _fstat(descriptor if isinstance(descriptor, int) else descriptor.fileno())
    except (OSError, OverflowError, ValueError, AttributeError):
        return None
    return found.st_dev, found.st_ino


def is_ready(descriptor: int, event: int) -> bool:
    """Return whether the kernel would not block a read, or a write of a few bytes."""
    poller = _poll()
    poller.register(descriptor, event)
    return bool(poller.poll(0))


def read_now(pipes: Pipes, descriptor: int) -> bytes:
    """Read what is there, without waiting: nothing at its end, or if nothing has come yet."""
    found = bytearray()
    while is_ready(descriptor, READ):
        if not (piece := _read(descriptor, PIPE_SIZE)):
            break
        found += piece
    if found:
        pipes.changed()
    return bytes(found)


def _noting(original: Any) -> Callable[..., Any]:
    def note(pipes: Pipes, *args: Any) -> Any:
        ends = original(*args)
        # The real process that `platform` starts answers in real time.
        return ends if is_exempt(sys._getframe(1)) else pipes.note(ends)  # noqa: SLF001

    return exchanged(original, note)


def _waiting(original: Any, answer: Callable[..., Any]) -> Callable[..., Any]:
    def inside(pipes: Pipes, fd: Any, *args: Any) -> Any:
        number = fd if isinstance(fd, int) else -1 if fd.closed else fd.fileno()
        if number < 0 or not pipes.has(number):
            return original(fd, *args)
        return answer(pipes, original, number, fd, *args)

    return exchanged(original, inside)


def _changing(pipes: Pipes, original: Any, _: int, file: Any, *args: Any) -> Any:
    found = original(file, *args)
    pipes.changed()
    return found


def _reading(pipes: Pipes, original: Any, fd: int, file: Any, *args: Any) -> Any:
    pipes.wait(fd, READ)
    return _changing(pipes, original, fd, file, *args)


def _writing(pipes: Pipes, original: Any, fd: int, file: Any, data: Any) -> int:
    if not _get_blocking(fd):
        return int(_changing(pipes, original, fd, file, data))
    rest = memoryview(data).cast("B")
    size = len(rest)
    while rest:  # as in Python, a write in blocking mode returns when all is written
        pipes.wait(fd, WRITE)
        rest = rest[original(file, rest[:PIPE_BUF]) :]
        pipes.changed()
    return size


def _duplicate_to(pipes: Pipes, fd: int, fd2: int, *more: Any, **named: Any) -> int:
    found = _dup2(fd, fd2, *more, **named)
    pipes.changed()  # what was open there is closed
    return found


def _select_from(pipes: Pipes, read: Any, write: Any, errors: Any, timeout: Any = None, /) -> Any:
    read, write, errors = list(read), list(write), list(errors)
    pipes._tell(read)  # noqa: SLF001 - one of the stand-ins of this module

    def look() -> Any:
        found = _select(read, write, errors, 0)
        return found if any(found) else None

    return pipes.wait_for(look, timeout) or ([], [], [])


class Poller:
    """A `select.poll` or `select.epoll` object; its `poll` parks. `unit` is that of a timeout."""

    def __init__(self, real: Any, unit: float) -> None:
        self._real = real
        self._unit = unit
        self._descriptors: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def register(self, fd: Any, *events: int) -> None:
        self._real.register(fd, *events)
        self._descriptors.append(fd)

    def poll(self, timeout: float | None = None, *most: int) -> Any:
        if (loop := loop_here()) is None or loop.pipes is None:
            return self._real.poll(timeout, *most)
        seconds = None if timeout is None or timeout < 0 else timeout * self._unit
        pipes: Pipes = loop.pipes
        pipes._tell(self._descriptors)  # noqa: SLF001 - as above
        return pipes.wait_for(functools.partial(self._real.poll, 0, *most), seconds)


def _polling(original: Any, unit: float) -> Callable[..., Any]:
    return exchanged(original, lambda _, *args: Poller(original(*args), unit))


def _is_terminal(original: Callable[..., bool], number: Callable[[Any], int]) -> Any:
    return exchanged(original, lambda pipes, of: pipes.is_terminal(number(of)) or original(of))


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    os.isatty: _is_terminal(os.isatty, int),
    **{each: _noting(each) for name in ("pipe", "pipe2", "openpty")
       if (each := getattr(os, name, None)) is not None},
    os.read: _waiting(os.read, _reading),
    os.write: _waiting(os.write, _writing),
    os.close: _waiting(os.close, _changing),
    os.dup2: exchanged(os.dup2, _duplicate_to),
    select.select: exchanged(select.select, _select_from),
    select.poll: _polling(select.poll, 1e-3),
}  # fmt: skip
if hasattr(select, "epoll"):
    FUNCTIONS[select.epoll] = _polling(select.epoll, 1)


def _read_file(pipes: Pipes, original: Any, fd: int, file: io.FileIO, size: Any = -1) -> Any:
    if size is None or size < 0:
        return _read_whole(pipes, _FILE["readall"], fd, file)
    return _reading(pipes, original, fd, file, size)


def _read_whole(pipes: Pipes, original: Any, fd: int, file: io.FileIO) -> Any:
    if not _get_blocking(fd):
        return original(file)
    return b"".join(iter(functools.partial(_reading, pipes, _read, fd, fd, PIPE_SIZE), b""))


_OF_FILES: dict[str, Callable[..., Any]] = {
    "read": _read_file, "readinto": _reading, "readall": _read_whole, "write": _writing,
    "close": _changing,
}  # fmt: skip
_SELECTORS = (("PollSelector", "_selector_cls"), ("EpollSelector", "_selector_cls"),
              ("SelectSelector", "_select"))  # fmt: skip

METHODS: tuple[tuple[type, str, Any], ...] = (
    # Python's buffered files, in C, call these methods of the raw file by their names.
    *((io.FileIO, name, _waiting(_FILE[name], answer)) for name, answer in _OF_FILES.items()),
    (io.FileIO, "isatty", _is_terminal(_FILE["isatty"], io.FileIO.fileno)),
    *((cls, name, staticmethod(FUNCTIONS[vars(cls)[name]]))
      for kind, name in _SELECTORS if (cls := getattr(selectors, kind, None)) is not None),
)  # fmt: skip

KEPT_BY = frozenset({"simloop", "_pytest", "pytest", "hypothesis", "execnet", "xdist"})
"""The packages that keep the originals: simloop itself, and those that drive a test."""
_exchange = NameExchange(FUNCTIONS, METHODS, kept_by=KEPT_BY)


def run_with_pipes(loop: VirtualLoop) -> Pipes:
    """Return the noted pipes of the run on a loop; the first call puts the stand-ins in place."""
    if loop.pipes is None:
        loop.pipes = Pipes(loop)
        _exchange.enter()
        loop.at_end.append(_exchange.leave)
    return cast("Pipes", loop.pipes)
