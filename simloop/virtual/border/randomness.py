"""Reading the memory of objects, for two things that each simulation does and Python does slowly.

The first is the state of a random generator: `getstate` makes a Python integer of each of its 625
numbers, and `setstate` reads them again. The second is the question whether hundreds of objects
are still the same ones. The rule to keep: no other module looks at the memory of an object, and
this one looks only where the type of the object says how large its parts are.
"""

import _random
import asyncio
import ctypes
import importlib
import random
import sys
from typing import Any, NamedTuple

from simloop.virtual.seeds import Seeds

# An instance of `random.Random` begins with that of its base class, which is written in C: what
# every object has, and then the numbers of the generator, which own no memory. Its attribute
# `gauss_next` is apart.
_HEAD = object.__basicsize__
_SIZE = _random.Random.__basicsize__ - _HEAD
# An index and 624 numbers of 32 bits, perhaps filled up. With anything else in there, a copy could
# break the interpreter.
if not 2500 <= _SIZE < 2508:  # noqa: PLR2004
    raise ImportError("this version of Python keeps the state of a random generator in another way")


def addresses(objects: tuple[Any, ...]) -> bytes:
    """Return the addresses of the objects, as long as somebody holds them.

    A tuple has them one after the other. To compare two such texts asks none of the objects
    anything, as `is` would, and takes less than half the time of `is` for each.
    """
    size = len(objects) * tuple.__itemsize__
    return ctypes.string_at(id(objects) + tuple.__basicsize__, size)


class GeneratorState(NamedTuple):
    """The state of a generator: its numbers, and the half of a pair that `gauss` has kept."""

    numbers: bytes
    gauss_next: Any


class Memory:
    """The memory in which one generator keeps its state."""

    def __init__(self, generator: random.Random) -> None:
        self._generator: Any = generator
        self._numbers = (ctypes.c_char * _SIZE).from_address(id(generator) + _HEAD)

    def read(self) -> GeneratorState:
        """Return the state."""
        return GeneratorState(self._numbers.raw, self._generator.gauss_next)

    def write(self, state: GeneratorState) -> None:
        """Replace the state."""
        self._numbers.raw, self._generator.gauss_next = state


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
