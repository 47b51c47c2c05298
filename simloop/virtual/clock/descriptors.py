"""The methods of an event loop by which asyncio's own transports of pipes and processes work."""
# ruff: noqa: SLF001 - the transports of asyncio are private, and have many arguments
# typeshed ties the type of a callback to its arguments; a loop passes both on unseen.
# mypy: disable-error-code="override"

import asyncio
import select
import weakref
from typing import Any, cast

from simloop.virtual.clock.transports import ReachingLoop
from simloop.virtual.real_world import TRANSPORT

READ, WRITE = getattr(select, "POLLIN", 1), getattr(select, "POLLOUT", 4)


class LoopWithPipes(ReachingLoop):
    """An event loop with the methods for readers, writers, pipes and processes.

    Only noted pipes (border/pipes.py) can be watched. A run without any refuses all of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._transports = weakref.WeakValueDictionary[int, Any]()

    def _pipes_for(self, method: str) -> Any:
        """Return the pipes of the run. Raises the refusal of a method if it has none."""
        own: Any = self
        pipes = own.pipes
        if pipes is None:
            raise own.refuse(f"loop.{method}", TRANSPORT)
        return pipes

    def look_at_pipes(self) -> None:
        """Look soon which descriptors are ready: one of the pipes has changed."""
        raise NotImplementedError

    def _add_reader(self, fd: Any, callback: Any, *args: Any) -> asyncio.Handle:
        return self._watch("add_reader", fd, READ, callback, args)

    def _remove_reader(self, fd: Any) -> bool:
        return bool(self._pipes_for("remove_reader").unwatch(self, _number(fd), READ))

    def _add_writer(self, fd: Any, callback: Any, *args: Any) -> asyncio.Handle:
        return self._watch("add_writer", fd, WRITE, callback, args)

    def _remove_writer(self, fd: Any) -> bool:
        return bool(self._pipes_for("remove_writer").unwatch(self, _number(fd), WRITE))

    add_reader, remove_reader = cast("Any", _add_reader), _remove_reader
    add_writer, remove_writer = cast("Any", _add_writer), _remove_writer

    def _watch(self, method: str, fd: Any, event: int, callback: Any, args: Any) -> asyncio.Handle:
        own: Any = self
        handle = asyncio.Handle(callback, args, own, None)
        self._pipes_for(method).watch(self, _number(fd), event, handle)
        return handle

    def _make_read_pipe_transport(self, *args: Any, **kwargs: Any) -> Any:
        self._pipes_for("connect_read_pipe")
        unix: Any = asyncio.unix_events
        return unix._UnixReadPipeTransport(self, *args, **kwargs)

    def _make_write_pipe_transport(self, *args: Any, **kwargs: Any) -> Any:
        self._pipes_for("connect_write_pipe")
        unix: Any = asyncio.unix_events
        return unix._UnixWritePipeTransport(self, *args, **kwargs)

    async def _make_subprocess_transport(
        self, _protocol: Any, args: Any, *given: Any, **more: Any
    ) -> Any:
        """Start a process as asyncio does, without a child watcher: its end calls the transport."""
        own: Any = self
        if own.processes is None:
            return await super()._make_subprocess_transport(_protocol, args, *given, **more)
        unix: Any = asyncio.unix_events
        waiter = own.create_future()
        transport = unix._UnixSubprocessTransport(
            self, _protocol, args, *given, waiter=waiter, **more
        )
        own.processes.tell(transport.get_pid(), own, transport._process_exited)
        try:
            await waiter
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException:
            transport.close()
            await transport._wait()
            raise
        return transport


for _name in (
    "_start_serving", "_stop_serving", "_accept_connection", "_accept_connection2",
    "_ensure_fd_no_transport", "_make_socket_transport", "sock_recv", "_sock_recv",
    "sock_recv_into", "_sock_recv_into", "sock_sendall", "_sock_sendall", "sock_accept",
    "_sock_accept", "_sock_read_done", "_sock_write_done",
):  # fmt: skip
    # Those of asyncio need nothing but readers and writers.
    setattr(LoopWithPipes, _name, vars(asyncio.selector_events.BaseSelectorEventLoop)[_name])


def _number(fd: Any) -> int:
    return fd if isinstance(fd, int) else int(fd.fileno())
