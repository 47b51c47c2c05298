"""Coroutines that a program makes and drops: an `await` is missing.

Python tells of them when they are freed, as a warning on the error stream. Only a call that is a
statement of the program is recorded: other ones may be freed later, by the garbage collector.
"""
# ruff: noqa: SLF001 - Python calls a private function, and the stack

import dis
import functools
import sys
import warnings
from typing import Any

from simloop.virtual.border.answers import Answers, stand_in
from simloop.virtual.clock.listener import listener_of
from simloop.virtual.places import is_of_the_program, place_of

_FREES = dis.opmap["POP_TOP"]
_module: Any = warnings
_warn = functools.partial(_module._warn_unawaited_coroutine)  # wrapped: it is exchanged here too


def _tell(answers: Answers, coroutine: Any) -> None:
    frame, listener = sys._getframe(2), listener_of(answers.loop)
    is_statement = frame.f_code.co_code[frame.f_lasti] == _FREES
    if listener is not None and is_statement and is_of_the_program(frame.f_globals):
        listener.forgets(coroutine.__qualname__, place_of(frame))
    _warn(coroutine)


FUNCTIONS = {_warn.func: stand_in(_warn.func, _tell)}
