"""The methods of a simulation's loops that reach for a descriptor, a host or a program."""
# ruff: noqa: SLF001 - the transports of asyncio are private, and have many arguments
# typeshed ties the type of a callback to its arguments; a loop passes both on unseen.
# mypy: disable-error-code="override"

import asyncio
import errno
import functools
import os
import select
import selectors
import shlex
import socket
import sys
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from simloop.virtual.clock import tasks
from simloop.virtual.real_world import ADVICE, LISTS, pairs


def absent(outer: Any, args: Sequence[Any]) -> FileNotFoundError:
    """Return the error of a program that is not there; the run on the loop `outer` records it.

    The program of a shell is the first word of its command.
    """
    words = [os.fsdecode(each) for each in args]
    name, asked = words[0] if words else "", shlex.join(words)
    error = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    if words[1:2] == ["-c"] and words[2:] and os.path.basename(name) in LISTS.shells:  # noqa: PTH119
        asked = words[2]
        name = (asked.split() or [name])[0]
    outer.note_refused("program", os.path.basename(name), asked)  # noqa: PTH119
    return error


class _Generators(WeakKeyDictionary[Any, None]):
    """Generators in order of first use: a WeakSet is ordered by `id()`."""

    add = WeakKeyDictionary.setdefault

    def discard(self, generator: Any) -> None:
        self.pop(generator, None)


_Selector: Any = getattr(selectors, "PollSelector", selectors.SelectSelector)


class Watches(_Selector):  # type: ignore[misc]
    """The pipes (border/pipes.py) that a loop watches; a look at them takes no time."""

    _selector_cls = getattr(select, "poll", None)  # the original, of which a run has another

    def __init__(self, loop: Any) -> None:
        super().__init__()
        self._loop = loop

    def register(self, fileobj: Any, events: int, data: Any = None) -> Any:
        outer = self._loop.outer
        if outer.pipes is None:
            name = "add_reader" if events == selectors.EVENT_READ else "add_writer"
            raise outer.refuse(f"loop.{name}", ADVICE["transport"])
        return self._begun(super().register(fileobj, events, data))

    def modify(self, fileobj: Any, events: int, data: Any = None) -> Any:
        return self._begun(super().modify(fileobj, events, data))

    def _begun(self, key: selectors.SelectorKey) -> selectors.SelectorKey:
        is_read = bool(key.events & selectors.EVENT_READ)
        self._loop.outer.pipes.watch(self._loop, key.fd, is_read=is_read)
        return key

    def select(self, _: float | None = None) -> Any:
        return super().select(0) if self.get_map() else []


class ReachingLoop(asyncio.SelectorEventLoop):
    """An event loop without a network of its own: what it asks for, the border answers.

    Only noted pipes can be watched; a run without any refuses all of them. `outer` is the virtual
    loop, on which all that belongs to the run hangs.
    """

    outer: Any
    _task_factory: Any
    _process_events: Any

    def __init__(self) -> None:
        super().__init__(Watches(self))
        self._selector: Any
        self._asyncgens = _Generators()

    def create_task(self, coro: Any, *, name: object = None, **kwargs: Any) -> asyncio.Task[Any]:
        """Create a task, named `task-1`, `task-2`, ... per run; asyncio counts per process."""
        if tasks.of_finalizer(sys._getframe(1)):
            return tasks.dropped(coro, self)
        self.outer.task_count += 1
        default = f"task-{self.outer.task_count}"
        self._check_closed()  # type: ignore[attr-defined]
        return self._start(coro, default if name is None else name, **kwargs)

    def create_future(self) -> asyncio.Future[Any]:
        return tasks.Future(loop=self)

    def _start(self, coro: Any, name: Any, **kwargs: Any) -> asyncio.Task[Any]:
        if self._task_factory is not None:
            return super().create_task(coro, name=name, **kwargs)
        return tasks.NumberedTask(self.outer.task_count, coro, loop=self, name=name, **kwargs)

    def __del__(self, *_: object) -> None:
        """Do nothing; this loop holds no sockets, so no leak warning is due."""

    def _refuse_method(self, name: str, advice: str, *_: object, **__: object) -> None:
        # A library that asks the user wants to hear of Ctrl-C, and such a user presses none.
        if self.outer.standard_input is None or not name.endswith("signal_handler"):
            raise self.outer.refuse(name, advice)

    def _make_self_pipe(self) -> None:
        """Do nothing: no pair of sockets wakes this loop."""

    _close_self_pipe = _make_self_pipe

    async def _make_subprocess_transport(self, *given: Any, **more: Any) -> Any:
        _, args, is_shell, *_ = given
        if self.outer.processes is None:
            raise absent(self.outer, ("/bin/sh", "-c", args) if is_shell else args)
        # As asyncio does, without a child watcher: the end of the process calls the transport.
        unix: Any = asyncio.unix_events
        waiter = self.create_future()
        transport = unix._UnixSubprocessTransport(self, *given, waiter=waiter, **more)
        self.outer.processes.tell(transport.get_pid(), self, transport._process_exited)
        try:
            await waiter
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException:
            transport.close()
            await transport._wait()
            raise
        return transport

    async def getaddrinfo(self, host: Any, port: Any, **more: int) -> list[Any]:
        return socket.getaddrinfo(host, port, **more)

    async def sock_connect(self, sock: Any, address: Any) -> None:
        try:
            sock.connect(address)
        except OSError as error:
            raise type(error)(error.errno, f"Connect call failed {address}") from None

    async def create_unix_connection(self, _: Any, path: Any = None, **__: Any) -> Any:
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(path)


def refuse_methods(cls: type[ReachingLoop], *, without: frozenset[str] = frozenset()) -> None:
    """Let the methods of an event loop that reach the real world call its `_refuse_method`."""
    for advice, name in pairs(LISTS.loop_methods.items()):
        if name not in without:
            method = functools.partialmethod(cls._refuse_method, f"loop.{name}", ADVICE[advice])
            setattr(cls, name, method)
