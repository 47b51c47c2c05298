"""Calls in a fork of this process, which share nothing with it and send their result by a pipe.

An error keeps its class, its message and its place if it is one of simloop's or of Python's own;
any other becomes an exception of the same name, because its class may be known in the fork alone.
"""

import builtins
import contextlib
import copyreg
import ctypes
import gc
import io
import os
import pickle
import signal
import sys
import warnings
import weakref
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection, Pipe
from typing import Any, NoReturn, TypeVar

from simloop.errors import CheckFailed, RunawayRun, ScenarioError, SimloopError
from simloop.runs.garbage import is_frozen
from simloop.world.user_functions import UserError, message_of

T = TypeVar("T")

_GRACE_S = 2.0
_TELL = getattr(signal, "SIGUSR2", signal.SIGTERM)  # Windows has no such signal, and no fork
_CLEANERS: Any = weakref.finalize._registry  # type: ignore[attr-defined]  # noqa: SLF001
_leave: Callable[[int], NoReturn] = partial(os._exit)  # wrapped: a simulation refuses the function
_PR_SET_PDEATHSIG = 1  # of Linux: the signal that a process gets when its parent has died
_PLAIN = (str, bytes, int, float, bool, type(None))


def can_isolate() -> bool:
    """Return whether this system can fork a process."""
    return hasattr(os, "fork")


def isolated(
    function: Callable[[], T], *, limit_s: float | None = None,
    around: Callable[[Callable[[], NoReturn]], object] = lambda answer: answer(),
    so_far: Callable[[], T] | None = None, take: Callable[[T], object] = lambda _: None,
) -> T:  # fmt: skip
    """Call `function` in a fork of this process and return its result. Raises what it raises.

    `around` gets, in the fork, the call that answers and ends the process: it may make it in
    another thread. If the call is broken off, by Ctrl-C or because it has taken `limit_s` real
    seconds, `take` gets what `so_far` returns in the fork. Raises RunawayRun after that time,
    CheckFailed if the process ends without an answer, ScenarioError where none can be forked.
    """
    if not can_isolate():
        message = "this system cannot fork a process, which a run of its own needs"
        hint = "leave out --isolate and --program, or use Linux or macOS"
        raise ScenarioError(message, key="isolate", hint=hint)
    reader, writer = Pipe(duplex=False)
    for stream in (sys.stdout, sys.stderr):  # the fork would write the rest once more
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    if not (child := _fork()):
        reader.close()
        _in_fork(function, around, writer, so_far)
    writer.close()
    try:
        data = _read(reader, limit_s)
    except BaseException as error:
        if so_far is not None and isinstance(error, KeyboardInterrupt | RunawayRun):
            os.kill(child, _TELL)
            with contextlib.suppress(RunawayRun, EOFError):
                take(pickle.loads(_read(reader, _GRACE_S))[1])  # noqa: S301 - as below
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        reader.close()
        _, status = os.waitpid(child, 0)
    if not data:
        raise CheckFailed(f"the process of the run ended without a result: {_described(status)}")
    is_result, told = pickle.loads(data)  # noqa: S301 - our own fork has written it
    if not is_result:
        raise told
    result: T = told
    return result


def _fork() -> int:
    """Fork, with all objects out of sight of the collector, which would write to every page."""
    was_frozen = is_frozen()  # by `settle`, which leaves the objects of this run alone
    if not was_frozen:
        gc.freeze()
    child = -1  # if none can be forked
    try:
        # Of other threads of this process, from Python 3.12 on: the fork uses none of them.
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            child = os.fork()
    finally:
        if child and not was_frozen:
            gc.unfreeze()
    return child


def _in_fork(
    function: Callable[[], Any], around: Callable[[Callable[[], NoReturn]], object],
    writer: Connection, so_far: Callable[[], Any] | None,
) -> NoReturn:  # fmt: skip
    def answer() -> NoReturn:
        told: tuple[bool, Any]
        try:
            told = True, function()
        except BaseException as error:  # noqa: BLE001 - the parent raises it
            told = False, error
        _end(writer, told)

    _CLEANERS.clear()  # the temporary folders of the parent are still in use
    try:
        if sys.platform == "linux":  # ends the fork with its parent: a run may compute for ever
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if so_far is not None:
            signal.signal(_TELL, lambda *_: _end(writer, (True, so_far())))
        around(answer)
    except BaseException as error:  # noqa: BLE001 - as above
        _end(writer, (False, error))
    _leave(1)


def _end(writer: Connection, told: tuple[bool, Any]) -> NoReturn:
    try:
        data = _pickled(told)
    except BaseException as error:  # noqa: BLE001 - the parent raises it
        data = _pickled((False, error))
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    with contextlib.suppress(OSError):
        writer.send_bytes(data)
    for each in [*_CLEANERS]:  # nothing else removes the temporary folders of the fork
        with contextlib.suppress(Exception):
            each()
    _leave(0)


def _read(reader: Connection, limit_s: float | None) -> bytes:
    if not reader.poll(limit_s):
        raise RunawayRun(f"the run had not ended after {limit_s:.0f} s of real time")
    try:
        return reader.recv_bytes()
    except (EOFError, OSError):  # the process has ended before it sent all
        return b""


def _described(status: int) -> str:
    if (code := os.waitstatus_to_exitcode(status)) >= 0:
        return f"exit status {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, SimloopError):
            return copyreg.__newobj__, (type(value), *value.args), vars(value)  # type: ignore[attr-defined]
        if isinstance(value, BaseException):
            kind, message = type(value), message_of(value)
            args: tuple[Any, ...] = (message,)
            if kind.__module__ == "builtins":
                args = value.__reduce__()[1]  # type: ignore[assignment]  # with the file's name
            plain = all(type(each) in _PLAIN for each in args)
            return _foreign, (kind.__name__, args if plain else (message,), message)
        if isinstance(value, UserError):  # a traceback cannot leave its process
            return UserError, (value.where, value.error, tuple(value.lines()))
        return NotImplemented


def _pickled(told: tuple[bool, Any]) -> bytes:
    data = io.BytesIO()
    _Pickler(data, pickle.HIGHEST_PROTOCOL).dump(told)
    return data.getvalue()


def _foreign(name: str, args: tuple[Any, ...], message: str) -> BaseException:
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, BaseException):
        with contextlib.suppress(TypeError):
            made: BaseException = kind(*args)
            return made
    again: BaseException = type(name, (Exception,), {})(message)
    return again
