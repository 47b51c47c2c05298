"""The generator behind the module `random`, and the random numbers of modules being imported.

A module is imported once in a process. If its draws came from the numbers of the run that imports
it, that run would differ from the same run later.
"""
# ruff: noqa: SLF001 - nothing public tells of imports

import _random
import asyncio
import ctypes
import importlib
import random
import sys
import threading
from typing import Any, NamedTuple

from simloop.virtual.seeds import Seeds

_importlib: Any = importlib._bootstrap
_LOCKS: dict[str, Any] = _importlib._module_locks  # has an entry during each import
_LOAD = _importlib._load_unlocked.__code__
_STEP = asyncio.Handle._run.__code__  # where a loop calls the program

GLOBAL_RANDOM: Any = random.seed.__self__  # type: ignore[attr-defined]
_seed = random.Random.seed  # the original: a simulation has another
# An instance of `random.Random` begins with that of its base class, which is written in C: what
# every object has, and then the numbers of the generator, which own no memory. Its attribute
# `gauss_next` is apart.
_HEAD = object.__basicsize__
_SIZE = _random.Random.__basicsize__ - _HEAD
# An index and 624 numbers of 32 bits, perhaps filled up. With anything else in there, a copy could
# break the interpreter.
if not 2500 <= _SIZE < 2508:  # noqa: PLR2004
    raise ImportError("this version of Python keeps the state of a random generator in another way")


def stream_here(seeds: Seeds, name: str) -> random.Random:
    """Return the stream of that name, or the one for modules that are being imported."""
    return seeds.stream(f"{name} of imports" if is_importing() else name)


def is_importing() -> bool:
    """Return whether an import is on the stack, in the current callback or thread of a run.

    It costs next to nothing while no module is being imported.
    """
    frame = sys._getframe(1) if _LOCKS else None
    while frame is not None and frame.f_code is not _STEP:
        if frame.f_code is _LOAD:
            return True
        frame = frame.f_back
    return False


class GeneratorState(NamedTuple):
    """The state of a generator: its numbers, and the half of a pair that `gauss` has kept."""

    numbers: bytes
    gauss_next: Any


class Memory:
    """The memory in which one generator keeps its state.

    Each simulation reads and writes it. `getstate` makes a Python integer of each of the 625
    numbers, and `setstate` reads them again, which together take longer than a short simulation.
    """

    def __init__(self, generator: random.Random) -> None:
        self._generator: Any = generator
        self._numbers = (ctypes.c_char * _SIZE).from_address(id(generator) + _HEAD)

    def read(self) -> GeneratorState:
        """Return the state."""
        return GeneratorState(self._numbers.raw, self._generator.gauss_next)

    def write(self, state: GeneratorState) -> None:
        """Replace the state."""
        self._numbers.raw, self._generator.gauss_next = state


class SharedDraws:
    """The one generator of the module `random`, while simulations run.

    A default argument or an attribute that holds `random.random` itself draws from it, whatever the
    stand-ins do. So it is seeded for the simulation, and other threads get a copy of what it was.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory = Memory(GLOBAL_RANDOM)
        self._saved: GeneratorState | None = None
        self._outside: random.Random | None = None
        # Most simulations have the seed of the one before them, and seeding takes longer than this.
        self._seed: int | None = None
        self._seeded: GeneratorState | None = None

    def begin(self, seeds: Seeds) -> None:
        """Seed the generator for a simulation while no other runs."""
        if self._saved is None:  # otherwise the border was kept
            self._saved = self._memory.read()
        if self._seeded is None or self._seed != seeds.seed:
            _seed(GLOBAL_RANDOM, seeds.number("global-random"))
            self._seed, self._seeded = seeds.seed, self._memory.read()
        else:
            self._memory.write(self._seeded)

    def end(self) -> None:
        """Restore the original state with the draws of other threads; safe to repeat."""
        if self._saved is not None:
            outside = self._outside
            self._memory.write(self._saved if outside is None else Memory(outside).read())
        self._saved = self._outside = None

    def outside(self, name: str, original: Any) -> Any:
        """Return the function of that name for code that is in no simulation."""
        saved = self._saved
        if saved is None:
            return original
        with self._lock:
            if self._outside is None:
                outside = random.Random()  # noqa: S311 - the state of the module's own
                Memory(outside).write(saved)
                self._outside = outside
            return getattr(self._outside, name)


shared_draws = SharedDraws()
