"""Exceptions of the user's functions, kept with their tracebacks.

Not here: isolating them (user_code.py, tool_calls.py, model_calls.py), and the trace, which records
that a function failed and no traceback: the path of a file differs from machine to machine. The
rule to keep: a run that fails a million times keeps a few of the exceptions.
"""

import asyncio
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from simloop.escape import writable
from simloop.world.fake_model import ScriptedFailure

MOST_KEPT = 20
_OURS = (str(Path(__file__).resolve().parent.parent), str(Path(asyncio.__file__).parent))


@dataclass(frozen=True, slots=True)
class UserError:
    """An exception that a function of the user raised. `where` names the function."""

    where: str
    error: BaseException

    def lines(self) -> Iterator[str]:
        """Yield the traceback as Python prints it, without the frames of simloop and asyncio."""
        report = traceback.TracebackException.from_exception(self.error)
        theirs = [frame for frame in report.stack if not frame.filename.startswith(_OURS)]
        report.stack = traceback.StackSummary.from_list(theirs)
        for piece in report.format():
            yield from piece.rstrip("\n").split("\n")


def frames_of_the_user(error: BaseException) -> TracebackType | None:
    """Return the traceback of `error` without the frames of simloop and asyncio."""
    frames = []
    frame = error.__traceback__
    while frame is not None:
        frames.append(frame)
        frame = frame.tb_next
    theirs = None
    for frame in reversed(frames):
        if not frame.tb_frame.f_code.co_filename.startswith(_OURS):
            theirs = TracebackType(theirs, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return theirs


def keep(kept: list[UserError], where: str, error: BaseException) -> None:
    """Keep `error`, unless it comes from a script or there are many already."""
    if type(error) is not ScriptedFailure and len(kept) < MOST_KEPT:
        kept.append(UserError(where, error))


def describe(error: BaseException) -> str:
    """Return the type's name and the message of an exception, never an address."""
    kind = type(error).__name__
    text = message_of(error)
    return f"{kind}: {text}" if text else kind


def message_of(error: BaseException) -> str:
    """Return the exception's message; empty if its own `str` fails, since it is user code."""
    try:
        return writable(str(error))
    except Exception:  # noqa: BLE001 - see above
        return ""
