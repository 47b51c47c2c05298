"""The border of a simulation: what the program gets where it reaches for the real world.

Clocks, dates and randomness answer from virtual time and the seed; threads run inline or are
refused. Not here: virtual time itself (`clock`), and real sockets opened without asyncio.
The rule to keep: only code that runs on the sealed loop is answered; every other thread, and
everything after the seal, gets the originals. So stand-ins ask which loop is running each time.
"""

import asyncio
import contextlib
import ctypes
import datetime as dt
import functools
import gc
import os
import random
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from simloop.sim.seeds import Seeds

if TYPE_CHECKING:
    from simloop.sim.clock import VirtualLoop

# Every simulation starts at 2026-01-01T00:00:00Z, whatever the day it runs on.
EPOCH_NS = 1_767_225_600 * 10**9
_UNIX = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_UUID_EPOCH = 0x01B21DD213814000  # 1582-10-15 to 1970 in units of 100 ns (RFC 9562, 5.1)

# Their clocks must stay real: they wait in the operating system, or measure the simulation.
_SKIPPED = {
    "asyncio",
    "concurrent",
    "multiprocessing",
    "queue",
    "selectors",
    "simloop",
    "socketserver",
    "subprocess",
    "threading",
    "_pytest",
    "hypothesis",
    "pytest",
    "pytest_benchmark",
}


@dataclass(slots=True)
class _World:
    """What the stand-ins answer from, for one sealed loop."""

    loop: "VirtualLoop"
    seeds: Seeds
    epoch_ns: int
    last_uuid: int = 0

    @property
    def wall_ns(self) -> int:
        return self.epoch_ns + self.loop.now_ns

    def sleep(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        self.loop.advance_ns(round(seconds * 1e9))

    def date_time(self, cls: type[dt.datetime], tz: Any = None) -> dt.datetime:
        """Local time is UTC in a simulation: the machine's time zone must not change a run."""
        moment = _UNIX + dt.timedelta(microseconds=self.wall_ns // 1000)
        moment = moment.replace(tzinfo=None) if tz is None else moment.astimezone(tz)
        return cls.combine(moment.date(), moment.timetz())

    def date(self, cls: type[dt.date]) -> dt.date:
        if issubclass(cls, dt.datetime):
            return self.date_time(cls)
        moment = self.date_time(dt.datetime)
        return cls(moment.year, moment.month, moment.day)

    def uuid1(self, node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
        bits = self.seeds.stream("uuid1").getrandbits
        stamp = max(self.wall_ns // 100 + _UUID_EPOCH, self.last_uuid + 1)
        self.last_uuid = stamp
        clock_seq = bits(14) if clock_seq is None else clock_seq
        return uuid.UUID(
            fields=(
                stamp & 0xFFFFFFFF,
                stamp >> 32 & 0xFFFF,
                stamp >> 48 & 0x0FFF,
                clock_seq >> 8 & 0x3F,
                clock_seq & 0xFF,
                bits(48) if node is None else node,
            ),
            version=1,
        )

    def seed(self, generator: random.Random, a: Any = None, version: int = 2) -> None:
        """Seed from the simulation where Python would ask the operating system."""
        value = self.seeds.stream("unseeded").getrandbits(64) if a is None else a
        _seed(generator, value, version)

    def start_thread(self, _thread: threading.Thread) -> None:
        raise self.loop.refuse(
            "a real thread",
            "use asyncio.to_thread, which runs inline; import anyio before the simulation starts",
        )


_worlds: dict[Any, _World] = {}
_seed = random.Random.seed
_GLOBAL_RANDOM: Any = random.seed.__self__  # type: ignore[attr-defined]


def _stand_in(original: Any, answer: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        world = _worlds.get(asyncio._get_running_loop())  # noqa: SLF001 - get_running_loop raises
        return original(*args, **kwargs) if world is None else answer(world, *args, **kwargs)

    return stand_in


def _class_stand_in(cls: type, name: str, answer: Callable[..., Any]) -> Any:
    """As `_stand_in`, for a class method written in C."""
    original = cls.__dict__[name]
    function = _stand_in(lambda cls, *args, **kw: original.__get__(None, cls)(*args, **kw), answer)
    return classmethod(function)


# Module globals, wherever they were imported to, are exchanged for these while a loop is sealed.
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    original: _stand_in(original, answer)
    for original, answer in (
        (time.time, lambda world: world.wall_ns / 1e9),
        (time.time_ns, lambda world: world.wall_ns),
        (time.monotonic, lambda world: world.loop.time()),
        (time.monotonic_ns, lambda world: world.loop.now_ns),
        (time.perf_counter, lambda world: world.loop.time()),
        (time.perf_counter_ns, lambda world: world.loop.now_ns),
        (time.sleep, _World.sleep),
        (os.urandom, lambda world, size: world.seeds.stream("os.urandom").randbytes(size)),
        (uuid.uuid1, _World.uuid1),
        (random.seed, lambda world, *args, **kw: world.seed(_GLOBAL_RANDOM, *args, **kw)),
    )
}
_BY_ID = {id(original): original for original in _FUNCTIONS} | {
    id(stand_in): original for original, stand_in in _FUNCTIONS.items()
}
_METHODS: tuple[tuple[type, str, Any], ...] = (
    (threading.Thread, "start", _stand_in(threading.Thread.start, _World.start_thread)),
    (random.Random, "seed", _stand_in(_seed, _World.seed)),
    (dt.datetime, "now", _class_stand_in(dt.datetime, "now", _World.date_time)),
    (dt.datetime, "utcnow", _class_stand_in(dt.datetime, "utcnow", _World.date_time)),
    (dt.date, "today", _class_stand_in(dt.date, "today", _World.date)),
)
_METHOD_ORIGINALS = tuple(cls.__dict__[name] for cls, name, _ in _METHODS)


def _set_method(cls: type, name: str, value: Any) -> None:
    """Set it even on a class written in C.

    A subclass put in the place of `datetime` (as freezegun does) is another object: pydantic then
    refuses a model with the field `at: datetime` that is built inside the simulation.
    """
    try:
        setattr(cls, name, value)
    except TypeError:
        (namespace,) = gc.get_referents(cls.__dict__)
        namespace[name] = value
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))


class _Border:
    """The exchange of originals for stand-ins: by the first seal in the process, until the last."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seals = 0
        self.random_state: Any = None
        self.scanned = 0
        self.known: weakref.WeakSet[ModuleType] = weakref.WeakSet()
        self.spots: list[tuple[dict[str, Any], str, Any]] = []

    def enter(self) -> None:
        with self.lock:
            self.seals += 1
            if self.seals == 1:
                self.random_state = random.getstate()
                self._scan()
                for namespace, name, original in self.spots:
                    if namespace.get(name) is original:
                        namespace[name] = _FUNCTIONS[original]
                for cls, name, stand_in in _METHODS:
                    _set_method(cls, name, stand_in)

    def leave(self) -> None:
        with self.lock:
            self.seals -= 1
            if self.seals == 0:
                self._scan()  # a module imported meanwhile has bound the stand-ins
                for namespace, name, original in self.spots:
                    if namespace.get(name) is _FUNCTIONS[original]:
                        namespace[name] = original
                for (cls, name, _), original in zip(_METHODS, _METHOD_ORIGINALS, strict=True):
                    _set_method(cls, name, original)
                random.setstate(self.random_state)

    def _scan(self) -> None:
        """Find where the originals are bound; 500 modules take 2 ms, so each is read once."""
        if self.scanned == len(sys.modules):
            return
        self.scanned = len(sys.modules)
        modules: dict[str, Any] = dict(sys.modules)  # people put None and other objects in there
        for name, module in modules.items():
            if not isinstance(module, ModuleType) or module in self.known:
                continue
            if getattr(getattr(module, "__spec__", None), "_initializing", False):
                self.scanned = 0  # its globals are not there yet
            else:
                self.known.add(module)
            if name.partition(".")[0] not in _SKIPPED:
                self._scan_module(module.__dict__)

    def _scan_module(self, namespace: dict[str, Any]) -> None:
        for name, value in list(namespace.items()):
            if id(value) in _BY_ID:
                self.spots.append((namespace, name, _BY_ID[id(value)]))


_border = _Border()


@contextlib.contextmanager
def sealed(loop: "VirtualLoop", seeds: Seeds, epoch_ns: int = EPOCH_NS) -> Iterator[None]:
    """While inside, code running on `loop` gets clocks, dates and randomness of the simulation.

    Answered: `time.time`, `monotonic`, `perf_counter`, each with `_ns`, and `time.sleep`, which
    moves virtual time; `now`, `utcnow` and `today` of datetime and date, in UTC; `os.urandom`, so
    `uuid4` and `secrets`; `uuid1`; `random`, with generators created unseeded. Starting a thread is
    refused. Not covered: a default argument or class attribute that holds a clock itself.
    The generator of the module `random` is one per process: run parallel seals in processes.
    """
    _border.enter()
    outer = _worlds.get(loop)
    try:
        _worlds[loop] = _World(loop, seeds, epoch_ns)
        _seed(_GLOBAL_RANDOM, seeds.stream("global-random").getrandbits(64))
        yield
    finally:
        if outer is None:
            _worlds.pop(loop, None)
        else:
            _worlds[loop] = outer
        _border.leave()
