"""The real world around a simulation: what is refused, what is let through, and a user's Ctrl-C.

The lists were observed in November 2026, with CPython 3.11 to 3.14 and the packages of that month.
"""

import shlex
import threading
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # every run sets the handler twice; `signal` makes an enum each time

# The advice that a refusal gives.
TRANSPORT = "put a fake transport (such as httpx.MockTransport) or a fake tool in its place"
PROCESS = "put a fake tool in its place"
THREAD = (
    "start the thread inside the simulation, with threading.Thread, a pool of threads or "
    "asyncio.to_thread"
)
SIGNAL = "use loop.call_later, or asyncio.timeout"
END = "raise an exception to end the program"

LOOP_METHODS = {
    TRANSPORT: (
        "create_unix_server create_datagram_endpoint start_tls sendfile"
        " sock_recvfrom sock_recvfrom_into sock_sendto sock_sendfile"
    ),
    "call the handler itself, for instance with loop.call_later": (
        "add_signal_handler remove_signal_handler"
    ),
    "return from the main coroutine": "stop",
    "give the coroutine to simloop.virtual.simulate.run_virtual": "run_forever run_until_complete",
}
"""The methods of an event loop that are refused, by the advice."""

AUDIT_EVENTS = {
    TRANSPORT: ("socket.connect socket.bind socket.sendto socket.sethostname"),
    PROCESS: (
        "os.fork os.forkpty os.exec os.spawn"
        " os.startfile os.startfile/2 os.kill os.killpg signal.pthread_kill"
        " _winapi.CreateProcess cpython.PyInterpreterState_New"
    ),
    THREAD: "_thread.start_new_thread _thread.start_joinable_thread",
}
"""The audit events of calls that leave or end a simulation."""

COMMANDS = {"os.exec": 1, "os.spawn": 2}
"""By audit event: the argument that is the command of a process."""

SILENT_FUNCTIONS = {
    TRANSPORT: "os.sendfile",
    THREAD: "_thread.start_joinable_thread",
    PROCESS: "_interpreters.create",
    SIGNAL: "signal.alarm signal.setitimer",
    END: "os.abort signal.raise_signal _thread.interrupt_main",
}
"""The functions for which no version of CPython has an audit event."""

# An open socket needs no `connect`: these reach the world, or wait for it.
SILENT_METHODS = {
    ("_socket", "socket"): (
        "_accept listen recv recv_into recvfrom recvfrom_into recvmsg recvmsg_into"
        " send sendall sendmsg"
    ),
    ("ssl", "SSLSocket"): "do_handshake read send write",
}
"""By module and class: the methods of sockets without an event."""

REAL_CLOCKS = frozenset({
    # They wait in the operating system.
    "asyncio", "multiprocessing", "socketserver",
    # They measure the simulation.
    "simloop", "_pytest", "hypothesis", "pytest", "pytest_benchmark",
})  # fmt: skip
"""Packages whose clocks stay real."""

SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
"""The programs that start another one with `-c`."""

PRIVATE_TWINS = frozenset({"posix", "nt", "_signal", "_ssl", "_queue"})
"""Modules written in C that only the public module of that subject imports."""

# A person who steps through a simulation is outside of it.
_DEBUGGERS = {
    "IPython", "_pydev_bundle", "_pydevd_bundle", "_pydevd_frame_eval", "bdb", "debugpy", "ipdb",
    "pdb", "pudb", "pydevd",
}  # fmt: skip
# They run small programs to find out about the machine, which stays real: the SDK of OpenAI asks
# `distro` and `platform` at its first request.
_ASKS_THE_MACHINE = {"ctypes", "distro", "platform", "uuid"}
# By package, a function that asks as well: urllib3 binds a socket when it is imported.
_ASKING_FUNCTIONS = {"urllib3": "_has_ipv6"}

CLIENTS = frozenset({
    "aiohttp", "anthropic", "boto3", "botocore", "cohere", "google", "groq", "h11", "h2",
    "httpcore", "httpcore2", "httpx", "httpx2", "httpx_sse", "litellm", "mcp", "mistralai",
    "ollama", "openai", "requests", "sseclient", "tenacity", "urllib3", "websockets",
})  # fmt: skip
"""SDKs of providers, HTTP clients and what repeats their calls, by the names of their modules."""

_LONGEST = 100
STARTS = frozenset({"VirtualLoop.run", "SimulatedThread.bootstrap"})
"""The qualified names of the functions below all code of a simulation on a stack."""


def is_exempt(frame: FrameType | None) -> bool:
    """Return whether a debugger, a query about the machine or a repeated Ctrl-C calls."""
    while frame is not None and frame.f_code.co_qualname not in STARTS:
        name = str(frame.f_globals.get("__name__"))
        root = name.partition(".")[0]
        if root in _DEBUGGERS or root in _ASKS_THE_MACHINE or name == "simloop.cli.process":
            return True
        if _ASKING_FUNCTIONS.get(root) == frame.f_code.co_name:
            return True
        frame = frame.f_back
    return False


def with_command(what: str, command: Any) -> str:
    """Return the name of a call that starts a process, with its command, as the call got it."""
    several = isinstance(command, Sequence) and not isinstance(command, str | bytes)
    words = [
        word.decode(errors="replace") if isinstance(word, bytes) else str(word)
        for word in (command if several else [command])
    ]
    return f"{what} of {words[0] if len(words) == 1 else shlex.join(words)!r}"[:_LONGEST]


class noted_interrupts:  # noqa: N801 - a context manager, named as one reads it
    """Note whether the user presses Ctrl-C inside the block; `pressed` is then true.

    Python raises an equal exception where a program raises KeyboardInterrupt itself. The handler
    that was there is called too. Only the main thread can receive a Ctrl-C.
    """

    __slots__ = ("_handler", "pressed")

    def __init__(self) -> None:
        self.pressed = False
        self._handler: Any = None

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
