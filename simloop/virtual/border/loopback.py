"""Servers of a program on its own machine, and the connections to them from inside of the run.

A socket that is bound or connected gets one end of a pair of sockets, and no port of the machine.
"""

import _socket
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from simloop.virtual.border.pipes import READ, WRITE, Pipes, inode_of, is_ready, run_with_pipes
from simloop.virtual.clock.loop import VirtualLoop

_FIRST_PORT = 49152
_HERE = frozenset({"", "0.0.0.0", "127.0.0.1", "localhost", "::", "::1"})  # noqa: S104 - nothing is bound
_LOCAL: dict[int, tuple[str]] = {socket.AF_INET: ("127.0.0.1",), socket.AF_INET6: ("::1",)}
# The flow and the scope of an address.
_MORE: dict[int, tuple[int, ...]] = {socket.AF_INET: (), socket.AF_INET6: (0, 0)}
_Key = tuple[int, int] | None
_SEND = _socket.socket.send


class _Server:
    """A socket that is bound to a port. A byte through `bell` says that a connection waits."""

    def __init__(self, port: int, bell: socket.socket) -> None:
        self.port = port
        self.bell = bell
        self.listens = False
        self.waiting: deque[tuple[int, Any]] = deque()

    def close(self) -> None:
        """Hang up on those who wait to be accepted, as the kernel does."""
        self.bell.close()
        while self.waiting:
            os.close(self.waiting.popleft()[0])


class Loopback:
    """The servers and the connections of one run."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.pipes: Pipes = run_with_pipes(loop)
        self._servers: dict[_Key, _Server] = {}
        self._names: dict[_Key, tuple[Any, Any]] = {}
        self._next_port = _FIRST_PORT

    def has(self, one: Any) -> bool:
        return bool(self.pipes.has(one.fileno()))

    def end(self) -> None:
        for server in self._servers.values():
            server.close()

    def server_at(self, family: int, port: int) -> _Server | None:
        for key, each in self._servers.items():
            if each.port == port and each.listens and self._names[key][0][0] in _LOCAL[family]:
                return each
        return None

    def serves(self, host: str, port: int | None) -> bool:
        return host in _HERE and any(self.server_at(family, port or 0) for family in _LOCAL)

    def bind(self, one: Any, address: Any) -> None:
        """Bind a socket to a port of this network. Raises OSError for a port that is taken."""
        family, port = one.family, address[1]
        if port == 0:
            port, self._next_port = self._next_port, self._next_port + 1
        elif self.server_at(family, port) is not None:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        bell, end = socket.socketpair()
        self._take(one, end, ((*_LOCAL[family], port, *_MORE[family]), None))
        self._servers[inode_of(one)] = _Server(port, bell)

    def connect(self, one: Any, address: Any) -> bool:
        """Connect a socket to a server of this run. Return whether there is one."""
        if (server := self.server_at(one.family, address[1])) is None or address[0] not in _HERE:
            return False
        here = _LOCAL[one.family]
        mine = (*here, self._next_port, *_MORE[one.family])
        theirs = (*here, server.port, *_MORE[one.family])
        self._next_port += 1
        near, far = socket.socketpair()
        self.pipes.note((near.fileno(), far.fileno()))
        self._names[inode_of(far)] = theirs, mine
        self._take(one, near, (mine, theirs))
        server.waiting.append((far.detach(), mine))
        os.write(server.bell.fileno(), b"c")
        self.pipes.changed()
        return True

    def answer(self, name: str, original: Callable[..., Any], one: Any, *given: Any) -> Any:
        """Answer a call of the method `name` of one of these sockets."""
        match name:
            case "close" | "shutdown":
                if name == "close" and (server := self._servers.pop(inode_of(one), None)):
                    server.close()
                original(one, *given)
                self.pipes.changed()
                return None
            case "getsockname" | "getpeername":
                if (found := self._names[inode_of(one)][name == "getpeername"]) is None:
                    raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
                return found
            case "setsockopt" | "getsockopt":  # of TCP, which a pair does not have
                return None if name == "setsockopt" else 0
            case "listen":
                self._servers[inode_of(one)].listens = True
                return None
            case "_accept":
                self._wait(one, READ)
                if not is_ready(one.fileno(), READ):
                    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
                os.read(one.fileno(), 1)
                return self._servers[inode_of(one)].waiting.popleft()
            case "send":
                data, *flags = given
                return self._send(partial(original, one, data), one, *flags)
            case "sendmsg":
                buffers, ancillary = (*given, ())[:2]
                return self._send(partial(original, one, buffers, ancillary), one)
            case "sendall":
                rest = memoryview(given[0]).cast("B")
                while rest:
                    rest = rest[self._send(partial(_SEND, one, rest), one, *given[1:]) :]
                return None
            case _:
                self._wait(one, READ)
                found = original(one, *given)
                self.pipes.changed()
                return found

    def _send(self, send: Callable[[int], int], one: Any, flags: int = 0) -> int:
        self._wait(one, WRITE)
        # A write of more than the kernel takes at once would wait in real time.
        sent = send(flags | socket.MSG_DONTWAIT)
        self.pipes.changed()
        return sent

    def _take(self, one: Any, end: socket.socket, names: tuple[Any, Any]) -> None:
        os.dup2(end.fileno(), one.fileno(), inheritable=False)
        end.close()
        self.pipes.note((one.fileno(), one.fileno()))
        os.set_blocking(one.fileno(), one.gettimeout() is None)
        self._names[inode_of(one)] = names

    def _wait(self, one: Any, event: int) -> None:
        if (seconds := one.gettimeout()) == 0:
            return
        if not self.pipes.wait_for(partial(is_ready, one.fileno(), event), seconds, "a socket"):
            raise TimeoutError("timed out")


def network_of(loop: VirtualLoop) -> Loopback:
    """Return the network of the run on a loop; the first call makes it."""
    if loop.network is None:
        loop.network = Loopback(loop)
        loop.at_end.append(loop.network.end)
    return cast("Loopback", loop.network)
