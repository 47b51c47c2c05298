"""The world refuses hosts and programs that are not there, and calls that leave a run.

A call for a host or a program fails as on a machine without them. Blocking sockets, forks and
signals are refused. Other threads and debuggers are let through.
"""

import errno
import functools
import ipaddress
import os
import socket
import stat
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from simloop.virtual.border.answers import Answers, answers_here
from simloop.virtual.clock.transports import absent
from simloop.virtual.real_world import ADVICE, LISTS, is_exempt, pairs

_LOCAL = ("127.0.0.1", "::1")
_NUMERIC = (socket.AF_INET, socket.AF_INET6)
# Addresses for documentation (RFC 5737 and RFC 3849), which no machine has.
_MADE_UP = ("192.0.2.", "2001:db8::")
_HARMLESS = ("close", "shutdown", "getsockname", "getpeername", "setsockopt", "getsockopt")
_no_name = partial(socket.gaierror, socket.EAI_NONAME, "Name or service not known")


def _text(host: Any) -> str:
    return host.decode(errors="replace") if isinstance(host, bytes) else str(host)


def _is_numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_local(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost") or host in _LOCAL


def _address_of(answers: Answers, host: str, *, is_v6: bool = False) -> str:
    if _is_numeric(host):
        return host
    if _is_local(host):
        return _LOCAL[is_v6]
    # In order of first use, which is the same in each run.
    number = answers.hosts.setdefault(host, len(answers.hosts))
    address = f"{_MADE_UP[is_v6]}{number % 254 + 1:{'x' if is_v6 else 'd'}}"
    answers.names[address] = host
    return address


def _look_up(  # noqa: PLR0917 - Python's signature
    answers: Answers, original: Any, host: Any, port: Any, family: int = 0, type: int = 0,  # noqa: A002
    proto: int = 0, flags: int = 0,
) -> Any:  # fmt: skip
    if host is not None and not flags & socket.AI_NUMERICHOST:
        host = _address_of(answers, _text(host), is_v6=family == socket.AF_INET6)
    return original(host, port, family, type, proto, flags)


def _unnamed(answers: Answers, host: Any) -> OSError | None:
    host = _text(host)
    if _is_local(host) or _is_numeric(host):
        return None
    answers.loop.note_refused("host", host, host)
    return _no_name()


def _refused(answers: Answers, connecting: Any, address: Any) -> OSError:
    if connecting.family == socket.AF_UNIX:
        path = os.fsdecode(address)
        answers.loop.note_refused("host", path, path)
        return FileNotFoundError(errno.ENOENT, "No such file or directory")
    host = _text(address[0])
    host = answers.names.get(host, host)
    answers.loop.note_refused("host", host, f"{host}:{address[1]}")
    if connecting.type == socket.SOCK_DGRAM:
        return OSError(errno.ENETUNREACH, "Network is unreachable")
    return ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")


def _is_address(connecting: Any, address: Any) -> bool:
    if connecting.family == socket.AF_UNIX:
        return isinstance(address, str | bytes)
    return isinstance(address, tuple) and len(address) > 1


def _is_stream_here(connecting: Any, address: Any) -> bool:
    if connecting.family not in _NUMERIC or connecting.type != socket.SOCK_STREAM:
        return False
    return address[0] in {"", "0.0.0.0", "::"} or _is_local(_text(address[0]))  # noqa: S104 - nothing is bound


def _bind(answers: Answers, original: Any, binding: Any, address: Any) -> Any:
    __tracebackhide__ = True
    if not _is_address(binding, address):
        return original(binding, address)  # which says what is wrong with it
    if _is_stream_here(binding, address):
        from simloop.virtual.border.loopback import network_of  # noqa: PLC0415 - few runs need it

        return network_of(answers.loop).bind(binding, address)
    # The path of a Unix socket may hold a number of the process, which each run has anew.
    asked = "a Unix socket" if binding.family == socket.AF_UNIX else repr(address)
    answers.loop.note_refused("call", "socket.bind", f"socket.bind to {asked}")
    raise PermissionError(errno.EPERM, "Operation not permitted")


def _connect(answers: Answers, original: Any, connecting: Any, address: Any) -> Any:
    __tracebackhide__ = True
    if not _is_address(connecting, address):
        return original(connecting, address)
    network = answers.loop.network if _is_stream_here(connecting, address) else None
    if network is None or not network.connect(connecting, address):
        raise _refused(answers, connecting, address)
    return None


def _connect_ex(answers: Answers, original: Any, connecting: Any, address: Any) -> Any:
    try:
        return _connect(answers, original, connecting, address) or 0
    except OSError as error:
        return error.errno


def _send_to(answers: Answers, original: Any, sending: Any, *given: Any) -> Any:
    __tracebackhide__ = True
    if len(given) < 2 or not _is_address(sending, given[-1]):  # noqa: PLR2004 - data and address
        return original(sending, *given)
    raise _refused(answers, sending, given[-1])


def _start(answers: Answers, _: Any, args: Sequence[Any], *__: Any, **___: Any) -> int:
    __tracebackhide__ = True
    raise absent(answers.loop, args)


def _system(answers: Answers, _: Any, command: Any) -> int:
    absent(answers.loop, ("sh", "-c", command))
    return 127 << 8  # the status of a shell that finds no such command


def _refuse(name: str, advice: str, answers: Answers, *_: Any, **__: Any) -> Any:
    __tracebackhide__ = True
    raise answers.loop.refuse(name, ADVICE[advice])


def _send_file(answers: Answers, original: Any, target: int, *given: Any, **named: Any) -> Any:
    __tracebackhide__ = True
    if stat.S_ISREG(os.fstat(target).st_mode):  # `shutil` copies files so
        return original(target, *given, **named)
    raise answers.loop.refuse("os.sendfile", ADVICE["transport"])


def _exit(answers: Answers, _: Any, status: int) -> None:
    """End a whole program, as `os._exit` ends a process; refused in any other run."""
    if (threads := answers.loop.threads) is None or not threads.has_main:
        raise answers.loop.refuse("os._exit", ADVICE["end"])
    threads.exit_program(status)


def _without_waiting(name: str, answers: Answers, real: Any, one: Any, *args: Any, **_: Any) -> Any:
    """Answer the method of a socket of the run's network; refuse another that may wait."""
    __tracebackhide__ = True
    if (network := answers.loop.network) is not None and network.has(one):
        return network.answer(name, real, one, *args)
    if name in _HARMLESS:
        return real(one, *args)
    raise answers.loop.refuse(f"socket.{name.lstrip('_')}", ADVICE["transport"])


def _guarded(original: Any, answer: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        answers = answers_here()
        if answers is None or is_exempt(sys._getframe(1)):  # noqa: SLF001 - the caller's
            return original(*args, **kwargs)
        return answer(answers, original, *args, **kwargs)

    return stand_in


def _named(name: str) -> Any:
    """Return an attribute of a module; None if this platform lacks one of them."""
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(__import__(module), attribute, None)
    except ImportError:
        return None


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_socket.getaddrinfo": _look_up,
    "_socket.gethostname": lambda *_: "localhost",
    "os.system": _system,
    "os.sendfile": _send_file,
    # An agent that looks for a program first does without one that is not there.
    "shutil.which": lambda *_, **__: None,
    "_posixsubprocess.fork_exec": _start,
    "os._exit": _exit,
    **{name: partial(_refuse, name, why) for why, name in pairs(LISTS.silent_functions.items())},
}
FUNCTIONS: dict[Any, Callable[..., Any]] = {
    original: _guarded(original, answer)
    for name, answer in _FUNCTIONS.items()
    if (original := _named(name)) is not None
}

_METHODS: dict[tuple[str, str], Callable[..., Any]] = {
    ("_socket.socket", "bind"): _bind, ("_socket.socket", "connect"): _connect,
    ("_socket.socket", "connect_ex"): _connect_ex, ("_socket.socket", "sendto"): _send_to,
    **{(place, name): partial(_without_waiting, name)
       for place, name in pairs((*LISTS.silent_methods.items(), ("_socket.socket", _HARMLESS)))},
}  # fmt: skip
METHODS: tuple[tuple[type, str, Any], ...] = tuple(
    (kind, name, _guarded(vars(kind)[name], answer)) for (place, name), answer in _METHODS.items()
    if (kind := _named(place)) is not None and name in vars(kind)
)  # fmt: skip


def _refused_event(event: str, advice: str, answers: Answers, *args: Any) -> Exception | None:
    if advice == "thread" and getattr(args[0], "__module__", "") == _THREADS:
        return None
    return answers.loop.refuse(event, ADVICE[advice])


_THREADS = "simloop.virtual.threads.scheduler"
_EVENTS: dict[str, Callable[..., Exception | None]] = {
    "socket.gethostbyname": _unnamed,
    "socket.gethostbyaddr": lambda *_: socket.herror(1, "Unknown host"),
    "socket.getnameinfo": lambda *_: _no_name(),
    "os.posix_spawn": lambda answers, _path, args, _env: absent(answers.loop, args),
    **{name: partial(_refused_event, name, why) for why, name in pairs(LISTS.audit_events.items())},
}
"""The error of a call, by its audit event: fewer names to exchange for each simulation."""


@functools.cache
def watch_reaches() -> None:
    """Add the audit hook of the process, once; Python never removes it."""
    sys.addaudithook(_on_event)


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    # Every audit event of the process comes through here, for ever: it costs one look-up.
    error_of = _EVENTS.get(event)
    __tracebackhide__ = True
    if error_of is None or (answers := answers_here()) is None or is_exempt(sys._getframe(1)):  # noqa: SLF001
        return
    if (error := error_of(answers, *args)) is not None:
        raise error
