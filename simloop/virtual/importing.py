"""The random numbers of code that runs because a module is being imported.

A module is imported once in a process. If its draws came from the numbers of the run that imports
it, that run would differ from the same run later. Not here: who draws (answers.py). The rule to
keep: this costs next to nothing while no module is being imported.
"""

import asyncio
import importlib
import random
import sys
from typing import Any

from simloop.virtual.seeds import Seeds

_importlib: Any = importlib._bootstrap  # noqa: SLF001 - nothing public tells
_LOCKS: dict[str, Any] = _importlib._module_locks  # noqa: SLF001 - has an entry during each import
_LOAD = _importlib._load_unlocked.__code__  # noqa: SLF001 - as above
_STEP = asyncio.Handle._run.__code__  # noqa: SLF001 - where a loop calls the program


def stream_here(seeds: Seeds, name: str) -> random.Random:
    """Return the stream of that name, or the one for modules that are being imported."""
    return seeds.stream(f"{name} of imports" if is_importing() else name)


def is_importing() -> bool:
    """Return whether an import is on the stack, in the current callback or thread of a run."""
    frame = sys._getframe(1) if _LOCKS else None  # noqa: SLF001 - the stack is the question
    while frame is not None and frame.f_code is not _STEP:
        if frame.f_code is _LOAD:
            return True
        frame = frame.f_back
    return False
