"""The methods of an event loop that reach for a host or a program.

Both loops of a simulation have them: the virtual one, and those that a program makes inside.
"""
# typeshed ties the type of a callback to its arguments; a loop passes both on unseen.
# mypy: disable-error-code="override"

import asyncio
import errno
import os
import shlex
import socket
from collections.abc import Sequence
from typing import Any

from simloop.errors import ScenarioError
from simloop.virtual.real_world import PROCESS, SHELLS, TRANSPORT


def absent(loop: "ReachingLoop", args: Sequence[Any]) -> FileNotFoundError:
    """Return the error of a program that is not there; the run on `loop` records it.

    The program of a shell is the first word of its command.
    """
    words = [os.fsdecode(each) for each in args]
    name, asked = words[0] if words else "", shlex.join(words)
    error = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    if words[1:2] == ["-c"] and words[2:] and os.path.basename(name) in SHELLS:  # noqa: PTH119
        asked = words[2]
        name = (asked.split() or [name])[0]
    loop.note_refused("program", os.path.basename(name), asked)  # noqa: PTH119
    return error


class ReachingLoop(asyncio.BaseEventLoop):
    """An event loop without a network of its own: what it asks for, the border answers.

    Outside of the border, where no code of a program runs, each call is refused.
    """

    @property
    def is_sealed(self) -> bool:
        """Return whether a border answers."""
        raise NotImplementedError

    def refuse(self, what: str, advice: str) -> ScenarioError:
        """Return an error for the caller to raise."""
        raise NotImplementedError

    def note_refused(self, what: str, name: str, asked: str, place: str = "") -> None:
        """Tell the run that the world refuses something, at the place that asks for it.

        `what` is host, program, or call; `name` is that of the host or the program, and `asked`
        is all that the code asked for.
        """
        raise NotImplementedError

    def _check_sealed(self, what: str, advice: str = TRANSPORT) -> None:
        if not self.is_sealed:
            raise self.refuse(f"loop.{what}", advice)

    async def getaddrinfo(
        self, host: Any, port: Any, *, family: int = 0, type: int = 0, proto: int = 0,  # noqa: A002 - Python's signature
        flags: int = 0,
    ) -> list[Any]:  # fmt: skip
        """Return the addresses of a host, as the function of that name does."""
        self._check_sealed("getaddrinfo")
        return socket.getaddrinfo(host, port, family, type, proto, flags)

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        """Return the name of an address, as the function of that name does."""
        self._check_sealed("getnameinfo")
        return socket.getnameinfo(sockaddr, flags)

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """Connect a socket. Raises OSError, as asyncio does."""
        self._check_sealed("sock_connect")
        try:
            sock.connect(address)
        except OSError as error:
            raise type(error)(error.errno, f"Connect call failed {address}") from None

    async def create_server(self, *args: Any, **kwargs: Any) -> Any:
        """Serve on the machine itself, as asyncio does."""
        self._check_sealed("create_server")
        return await super().create_server(*args, **kwargs)

    async def create_unix_connection(self, _: Any, path: Any = None, **__: Any) -> Any:
        """Connect to a socket in the file system. Raises OSError."""
        self._check_sealed("create_unix_connection")
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(path)

    async def _make_subprocess_transport(
        self, _protocol: Any, args: Any, *given: Any, **__: Any
    ) -> Any:
        is_shell = given[0]
        self._check_sealed("subprocess_shell" if is_shell else "subprocess_exec", PROCESS)
        raise absent(self, ("/bin/sh", "-c", args) if is_shell else args)
