"""The refusal of calls that leave or end a simulation: blocking sockets, processes and signals.

Not here: the methods of the event loop (outside.py) and the calls that are answered (answers.py).
The rule to keep: a call is refused only in a simulation, in a thread of it, and never inside
a debugger, so that other threads, pytest-xdist and a breakpoint work as always.

Python's audit events name most of these calls. No version of CPython has one for alarms, `select`,
`os._exit`, waits for processes and what a socket sends and receives: stand-ins refuse those.
"""

import functools
import select
import selectors
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from simloop.errors import ScenarioError
from simloop.virtual.border.answers import ANSWERS, answers_here
from simloop.virtual.real_world import PROCESS, THREAD, TRANSPORT, with_command

_SIGNAL = "use loop.call_later, or asyncio.timeout"
_END = "raise an exception to end the program"
_WAIT = "use asyncio.sleep or time.sleep, which move virtual time"

_EVENTS = {
    TRANSPORT: (
        "socket.connect socket.bind socket.sendto socket.sendmsg socket.getaddrinfo"
        " socket.gethostbyname socket.gethostbyaddr socket.getnameinfo socket.sethostname"
    ),
    PROCESS: (
        "subprocess.Popen os.system os.fork os.forkpty os.exec os.posix_spawn os.spawn"
        " os.startfile os.startfile/2 os.kill os.killpg signal.pthread_kill"
        " _winapi.CreateProcess cpython.PyInterpreterState_New"
    ),
    THREAD: "_thread.start_new_thread _thread.start_joinable_thread",
}
_ADVICE = {event: advice for advice, events in _EVENTS.items() for event in events.split()}
_SILENT = {
    TRANSPORT: "os.sendfile",
    THREAD: "_thread.start_joinable_thread",
    PROCESS: "_posixsubprocess.fork_exec _interpreters.create"
    " os.wait os.wait3 os.wait4 os.waitid os.waitpid",
    _SIGNAL: "signal.alarm signal.setitimer",
    _END: "os._exit os.abort signal.raise_signal _thread.interrupt_main",
    _WAIT: "signal.pause signal.sigwait signal.sigwaitinfo signal.sigtimedwait"
    " select.select select.poll",
}
# An open socket needs no `connect`: these reach the world, or wait for it.
_OF_SOCKETS = (
    "_accept listen recv recv_into recvfrom recvfrom_into recvmsg recvmsg_into send sendall"
)
_SILENT_METHODS = (
    (socket.socket.__base__, "socket", TRANSPORT, _OF_SOCKETS),
    (ssl.SSLSocket, "socket", TRANSPORT, "do_handshake read send write"),
    (selectors.SelectSelector, "selectors", _WAIT, "select"),
    *((kind, "select", _WAIT, "control poll") for kind in (
        getattr(select, "epoll", None),
        getattr(select, "kqueue", None),
        type(select.poll()) if hasattr(select, "poll") else None,
    )),
)  # fmt: skip
# Between the loop and the call: a person stepping through a simulation is outside of it.
_DEBUGGERS = {
    "IPython", "_pydev_bundle", "_pydevd_bundle", "_pydevd_frame_eval", "bdb", "debugpy", "ipdb",
    "pdb", "pudb", "pydevd",
}  # fmt: skip
# They run small programs to find out about the machine, and the SDK of OpenAI asks them at its
# first request. The machine stays real.
_ASKS_THE_MACHINE = {"ctypes", "distro", "platform", "uuid"}
_LONGEST = 100
_FORK_EXEC = "_posixsubprocess.fork_exec"
# By audit event: the argument that is the command of a process.
_COMMANDS = {
    "subprocess.Popen": 1,
    "os.system": 0,
    "os.exec": 1,
    "os.posix_spawn": 1,
    "os.spawn": 2,
}


def _named(name: str) -> Any:
    """Return the function of that name, or None on a platform or version that lacks it."""
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(__import__(module), attribute, None)
    except ImportError:
        return None


def _refusing(original: Any, name: str, advice: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def refusing(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        _refuse(with_command(name, args[0]) if name == _FORK_EXEC else name, advice)
        return original(*args, **kwargs)

    return refusing


def _refuse(what: str, advice: str) -> None:
    """Raise ScenarioError on a sealed loop, unless a debugger asks."""
    __tracebackhide__ = True
    answers = answers_here()
    if answers is not None and not is_exempt(sys._getframe(2)):  # noqa: SLF001 - its caller
        raise answers.loop.refuse(what, advice)


def is_exempt(frame: FrameType | None) -> bool:
    """Return whether a debugger, a query about the machine or a repeated Ctrl-C calls."""
    while frame is not None and frame.f_code.co_qualname != "VirtualLoop.run":
        name = str(frame.f_globals.get("__name__"))
        root = name.partition(".")[0]
        if root in _DEBUGGERS or root in _ASKS_THE_MACHINE or name == "simloop.cli.process":
            return True
        if root == "urllib3" and frame.f_code.co_name == "_has_ipv6":
            return True  # it binds a socket when it is imported, to find out about the machine
        frame = frame.f_back
    return False


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    # Every audit event of the process comes through here, for ever: it costs one look-up.
    advice = _ADVICE.get(event)
    __tracebackhide__ = True
    if advice is not None and ANSWERS and not (advice is THREAD and _is_simulated(args[0])):
        _refuse(_described(event, args), advice)
    elif event == _PROBE:
        _watch.installed = True


def _is_simulated(function: Any) -> bool:
    """Return whether the start of this function in a thread is that of a simulated one."""
    return str(getattr(function, "__module__", "")) == "simloop.virtual.threads.watch"


def _described(event: str, args: tuple[Any, ...]) -> str:
    """Return the event, with its address or its command where it has a readable one."""
    if event == "socket.getaddrinfo":
        return f"{event} of {args[0]!r}, port {args[1]!r}"[:_LONGEST]
    if event == "socket.connect" and isinstance(args[1], tuple | str):
        return f"{event} to {args[1]!r}"[:_LONGEST]
    place = _COMMANDS.get(event)
    return event if place is None else with_command(event, args[place])


_PROBE = "simloop.border"


class _Watch:
    """The audit hook of the process; Python can add a hook but never remove it."""

    def __init__(self) -> None:
        self.installed = False

    def install(self) -> None:
        """Add the hook, once. Raises ScenarioError where another hook does not allow it."""
        if not self.installed:
            sys.addaudithook(_on_event)
            sys.audit(_PROBE)
        if not self.installed:
            raise ScenarioError(
                "another audit hook does not allow the one that guards a simulation",
                hint="remove that hook, or run the simulation in a process without it",
            )


_watch = _Watch()
watch_reaches = _watch.install


def _setting(original: Any) -> Callable[..., Any]:
    """Return a stand-in that says more where Python sets no handler: in a thread."""

    @functools.wraps(original)
    def setting(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        try:
            return original(*args, **kwargs)
        except ValueError as error:
            if answers_here() is None or "main thread" not in str(error):
                raise
            raise ValueError(f"{error}: {_IN_A_THREAD}") from None

    return setting


_IN_A_THREAD = "a plain function runs in a simulated thread; set it before the run, or in async def"

FUNCTIONS: dict[Any, Callable[..., Any]] = {
    signal.signal: _setting(signal.signal),
    signal.set_wakeup_fd: _setting(signal.set_wakeup_fd),
} | {
    original: _refusing(original, name, advice)
    for advice, names in _SILENT.items()
    for name in names.split()
    for original in [_named(name)]
    if original is not None
}
"""Original function -> the stand-in that refuses it, or says more, on a sealed loop."""


def _refused_methods() -> Iterator[tuple[type, str, Any]]:
    for kind, module, advice, names in _SILENT_METHODS:
        for name in names.split():
            if kind is not None and name in vars(kind):
                called = f"{module}.{name.lstrip('_')}"
                yield kind, name, _refusing(vars(kind)[name], called, advice)


METHODS: tuple[tuple[type, str, Any], ...] = tuple(_refused_methods())
"""Class, attribute and stand-in of the methods that are refused."""
