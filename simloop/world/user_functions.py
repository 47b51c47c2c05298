"""Functions of the user (hooks, callbacks, tools), and their exceptions with the tracebacks.

A trace holds no traceback: the path of a file differs from machine to machine.
"""

import asyncio
import inspect
import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any, TypeVar

from msgspec import Struct

from simloop.errors import ScenarioError
from simloop.escape import writable
from simloop.messages import Fault
from simloop.virtual.clock.loop import VirtualLoop
from simloop.world.fake_model import ScriptedFailure

_Hook = TypeVar("_Hook", bound=Callable[..., Any])
_MARK = "simloop_independent"
TRACED = "simloop_traced"
"""The attribute of a function that records its own calls: the function that it wraps."""
MOST_KEPT = 20
# `pytest.fail` and `pytest.skip`, the draws of Hypothesis and simloop end code by a BaseException.
_CONTROL = {"_pytest", "hypothesis", "simloop"}
_OURS = (str(Path(__file__).resolve().parent.parent), str(Path(asyncio.__file__).parent))
_PYTHONS = (os.path.dirname(os.__file__), "<frozen")  # noqa: PTH120 - compared with strings
_CARRIERS = frozenset({"Python", "anyio"})  # they call a function for others, in a thread
_RERAISING = frozenset({"pydantic_ai"})  # 2.31 (2026-11) tells its model of no exception


def independent(hook: _Hook) -> _Hook:
    """Mark a hook as independent: it may read and block, and it changes nothing.

    With `hook_execution: {order: parallel}`, independent hooks that follow one another in the list
    of a point run at once, each with its own input. A change that one makes is a failure of that
    hook. Without the policy, the mark has no effect.
    """
    setattr(hook, _MARK, True)
    return hook


class UserFunction:
    """A function of the user's, and its name in traces; one that `is_async` is awaited."""

    __slots__ = ("function", "is_async", "is_independent", "name")

    def __init__(
        self, function: Callable[..., Any], name: str = "", *, is_independent: bool = False
    ) -> None:
        if not callable(function):
            kind = type(function).__name__
            hint = "give a plain or an async function"
            raise ScenarioError(f"this must be a function, not {kind}", key=name, hint=hint)
        # simloop records the calls that it makes, so a function that does so too is unwrapped.
        function = getattr(function, "__dict__", {}).get(TRACED, function)
        self.function = function
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.is_independent = is_independent or getattr(function, _MARK, False) is True
        self.is_async = inspect.iscoroutinefunction(function) or (
            type(function) is not FunctionType  # an object may be async
            and inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
        )


def parameters_of(function: Any) -> Mapping[str, inspect.Parameter] | None:
    """Return the parameters of a function; None if it is written in C, or cannot be called."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None


class UserError(Struct):
    """An exception that a function of the user raised. `where` names the function.

    `told` are the lines of an exception that has no frames, such as one from another process.
    """

    where: str
    error: BaseException
    told: tuple[str, ...] = ()

    def let_go(self) -> None:
        """Let go of all objects that the frames of the exception hold, but not of the lines."""
        self.told = tuple(self.lines())
        waiting: list[BaseException | None] = [self.error]
        while waiting:
            if (error := waiting.pop()) is not None and error.__traceback__ is not None:
                error.__traceback__ = None
                waiting += (error.__cause__, error.__context__)
                waiting += error.exceptions if isinstance(error, BaseExceptionGroup) else ()

    def lines(self) -> Iterator[str]:
        """Yield the traceback, without frames of simloop, and those of libraries folded."""
        if self.told:
            yield from self.told
            return
        report = traceback.TracebackException.from_exception(self.error)
        _fold(report)
        for piece in report.format():
            yield from piece.rstrip("\n").split("\n")


class _Folded(traceback.StackSummary):
    def format(self, **options: Any) -> list[str]:
        """Return the lines. `options` are those of the Python version."""
        lines: list[str] = []
        for library, group in groupby(self, lambda frame: library_of(frame.filename)):
            frames = list(group)
            if library:
                count = f"{len(frames)} frame{'s' * (len(frames) != 1)} of {library}"
                lines.append(f"  ... {count}, the last {_place(frames[-1])}\n")
            else:
                lines += traceback.StackSummary.from_list(frames).format(**options)
        return lines


def _fold(report: traceback.TracebackException) -> None:
    for name in ("__cause__", "__context__"):
        if (cause := getattr(report, name)) is not None:
            setattr(report, name, None if cause.stack and not _theirs(cause) else cause)
            _fold(cause)
    for each in report.exceptions or ():
        _fold(each)
    report.stack = _Folded(_theirs(report))


def _theirs(report: traceback.TracebackException) -> list[traceback.FrameSummary]:
    return [frame for frame in report.stack if not frame.filename.startswith(_OURS)]


def is_simloops_own(error: BaseException) -> bool:
    """Return whether an error was raised in simloop and caught there."""
    report = traceback.TracebackException.from_exception(error, lookup_lines=False)
    return bool(report.stack) and not _theirs(report)


def library_of(file: str) -> str:
    """Return the installed package that a file belongs to, or `Python`; empty for the program.

    A package with its source in the current folder is of the program: tests may run a copy of it.
    """
    for folder in ("/site-packages/", "/dist-packages/"):
        _, is_there, path = file.replace("\\", "/").rpartition(folder)
        if is_there:
            name = path.partition("/")[0]
            is_own = any(Path(source, name, "__init__.py").exists() for source in (".", "src"))
            return "" if is_own else name.removesuffix(".py")
    return "Python" if file.startswith(_PYTHONS) else ""


def place_in_a_library(error: BaseException) -> str:
    """Return the library that raised an error, and where; empty if the program or simloop did."""
    theirs = _theirs(traceback.TracebackException.from_exception(error, lookup_lines=False))
    library = library_of(theirs[-1].filename) if theirs else ""
    return f"{library}, {_place(theirs[-1])}" if library else ""


def framework_around(error: BaseException) -> str:
    """Return the framework that let a failure of a script end a run as it called a tool, or ""."""
    report = traceback.TracebackException.from_exception(error, lookup_lines=False)
    names = (library_of(each.filename) for each in reversed(_theirs(report)))
    called = next((name for name in names if name not in _CARRIERS), "")
    is_scripted = report.stack[-1].filename.startswith(_OURS[0]) if report.stack else False
    return called if is_scripted and called in _RERAISING else ""


def _place(frame: traceback.FrameSummary) -> str:
    return f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"


def frames_of_the_user(error: BaseException) -> TracebackType | None:
    """Return the traceback of `error` without the frames of simloop and of libraries."""
    frames, frame = [], error.__traceback__
    while frame is not None:
        frames.append(frame)
        frame = frame.tb_next
    theirs = None
    for frame in reversed(frames):
        file = frame.tb_frame.f_code.co_filename
        if not file.startswith(_OURS) and not library_of(file):
            theirs = TracebackType(theirs, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return theirs


def keep(kept: list[UserError], where: str, error: BaseException) -> None:
    """Keep `error`, unless it comes from a script or there are many already."""
    if type(error) is not ScriptedFailure and len(kept) < MOST_KEPT:
        kept.append(UserError(where, error))


def is_of_the_program(error: BaseException, loop: VirtualLoop) -> bool:
    """Return whether a program in a run raised the exception, as its own failure."""
    if isinstance(error, Exception | SystemExit):
        return True
    if isinstance(error, asyncio.CancelledError | GeneratorExit) or loop.is_ctrl_c(error):
        return False
    return not any(cls.__module__.partition(".")[0] in _CONTROL for cls in type(error).__mro__)


def describe(error: BaseException) -> str:
    """Return the type and the message of an exception, and of the first in a group; no address."""
    kind = type(error).__name__
    text = message_of(error)
    first = f": {describe(error.exceptions[0])}" if isinstance(error, BaseExceptionGroup) else ""
    return f"{kind}: {text}{first}" if text else kind


def message_of(error: BaseException) -> str:
    """Return the exception's message; empty if its own `str` fails, since it is user code."""
    try:
        return writable(str(error))
    except Exception:  # noqa: BLE001 - see above
        return ""


def fault_of(error: BaseException) -> Fault:
    """Return the fault for an exception of a model function or an SDK, by status or type."""
    message = describe(error)
    status = getattr(error, "status_code", getattr(error, "status", None))
    if isinstance(status, int):
        return Fault(message, status=status)
    # What JavaScript's SDKs and their ports to Python raise when a request is aborted.
    if type(error).__name__ in ("AbortError", "APIUserAbortError"):
        return Fault(message, code="aborted")
    if isinstance(error, TimeoutError):
        return Fault(message, code="timeout")
    return Fault(message, code="connection" if isinstance(error, ConnectionError) else "")
