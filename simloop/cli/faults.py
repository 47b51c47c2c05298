"""The message of an error, and its exit code.

Not here: the errors (errors.py). The rule to keep: one line for the author's mistakes, and never a
traceback unless SIMLOOP_DEBUG asks for it.
"""

import os
import traceback

from simloop.cli.terminal import note, plain
from simloop.errors import InternalError, SimloopError

INTERNAL = 3


def explain(error: Exception) -> int:
    """Print the error to stderr and return the exit code."""
    if os.environ.get("SIMLOOP_DEBUG"):
        note("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, SimloopError) and not isinstance(error, InternalError):
        note(describe(error))
        return error.exit_code
    note(
        f"internal error: {type(error).__name__}: {plain(str(error))}; please report it, with what "
        "the same command prints under SIMLOOP_DEBUG=1"
    )
    return INTERNAL


def describe(error: SimloopError) -> str:
    """Return the message, safe to print: one line for each mistake of the author."""
    return "\n".join(plain(line) for line in str(error).split("\n"))
