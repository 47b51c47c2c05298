"""A simulation's clocks and randomness: functions of virtual time and the seed alone."""
# ruff: noqa: SLF001 - nothing public tells of imports, or of a loop that does not run

import _random
import asyncio
import calendar
import ctypes
import datetime as dt
import functools
import importlib
import logging
import os
import random
import ssl
import sys
import time
import uuid
from collections.abc import Callable
from threading import get_ident
from typing import Any, cast

from msgspec import Struct

from simloop.virtual.clock.instants import EPOCH_NS
from simloop.virtual.clock.listener import report_sleep
from simloop.virtual.clock.loop import THREADS, VirtualLoop, loop_here
from simloop.virtual.real_world import stack
from simloop.virtual.seeds import Seeds
from simloop.virtual.threads.scheduler import SimulatedThread, thread_here

_UNIX = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# The originals: the module attributes are exchanged while a simulation runs.
_asctime, _gmtime, _strftime = time.asctime, time.gmtime, time.strftime
_seed, _uuid1 = random.Random.seed, uuid.uuid1
# Wrapped, because they are exchanged here too.
_wait_for, _all_tasks = functools.partial(asyncio.wait_for), functools.partial(asyncio.all_tasks)
_as_completed: Any = functools.partial(asyncio.as_completed)
_get_running_loop = asyncio._get_running_loop  # the public one raises
_importlib: Any = importlib._bootstrap
_LOCKS: dict[str, Any] = _importlib._module_locks  # has an entry during each import
_LOAD = _importlib._load_unlocked.__code__
_GLOBAL_RANDOM: Any = random.seed.__self__  # type: ignore[attr-defined]
# An instance of `random.Random` begins with that of its base class, which is written in C: what
# every object has, and then the numbers of the generator, which own no memory. Its attribute
# `gauss_next` is apart.
_HEAD = object.__basicsize__
_SIZE = _random.Random.__basicsize__ - _HEAD
# An index and 624 numbers of 32 bits, perhaps filled up. With anything else in there, a copy could
# break the interpreter.
if not 2500 <= _SIZE < 2508:  # noqa: PLR2004
    raise ImportError("this version of Python keeps the state of a random generator in another way")
_WALL_CLOCKS = {getattr(time, name, None) for name in ("CLOCK_REALTIME", "CLOCK_TAI")}
GeneratorState = tuple[bytes, Any]
"""The state of a generator: its numbers, and the half of a pair that `gauss` has kept."""


def stream_here(seeds: Seeds, name: str) -> random.Random:
    """Return the stream of that name; imports, one in a process, have their own."""
    return seeds.stream(f"{name} of imports" if is_importing() else name)


def is_importing() -> bool:
    """Return whether an import is on the stack."""
    return bool(_LOCKS) and any(each.f_code is _LOAD for each in stack(sys._getframe(1)))


class SharedDraws:
    """The generator of the module `random`, while simulations run, and the memory of its state.

    A default argument or an attribute that holds `random.random` itself draws from it, whatever the
    stand-ins do (the retries of botocore have such a one). So it is seeded for the simulation.
    `getstate` makes a Python integer of each of the 625 numbers, and `setstate` reads them again,
    which together take longer than a short simulation.
    """

    def __init__(self, generator: random.Random) -> None:
        self._generator: Any = generator
        self._numbers = (ctypes.c_char * _SIZE).from_address(id(generator) + _HEAD)
        self._saved: GeneratorState | None = None
        # Most simulations have the seed of the one before them, and seeding takes longer than this.
        self._seed: int | None = None
        self._seeded: GeneratorState | None = None

    def read(self) -> GeneratorState:
        return self._numbers.raw, self._generator.gauss_next

    def write(self, state: GeneratorState) -> None:
        self._numbers.raw, self._generator.gauss_next = state

    def begin(self, seeds: Seeds) -> None:
        self._saved = self.read()
        if self._seeded is None or self._seed != seeds.seed:
            _seed(self._generator, seeds.number("global-random"))
            self._seed, self._seeded = seeds.seed, self.read()
        else:
            self.write(self._seeded)

    def end(self) -> None:
        """Restore the original state; safe to repeat."""
        if self._saved is not None:
            self.write(self._saved)
            self._saved = None


shared_draws = SharedDraws(_GLOBAL_RANDOM)


class Answers(Struct):
    """The clock, the dates and the randomness of one sealed loop."""

    loop: VirtualLoop
    seeds: Seeds
    hosts: dict[str, int] = {}
    """The numbers of the hosts that the program has looked up; each has a made-up address."""
    names: dict[str, str] = {}
    """The host of each of these addresses."""
    _generator: random.Random | None = None

    @property
    def wall_ns(self) -> int:
        return EPOCH_NS + self.now_ns

    @property
    def now_ns(self) -> int:
        """Return the virtual nanoseconds since the start. Raises RunawayRun, see progress.py."""
        self.loop.progress.read()
        return self.loop.now_ns

    @property
    def generator(self) -> random.Random:
        """Return the generator of this simulation: its threads share no other's draws."""
        if is_importing():
            return stream_here(self.seeds, "global-random")
        if self._generator is None:
            seed = self.seeds.number("global-random")
            self._generator = random.Random(seed)  # noqa: S311 - simulated
        return self._generator

    def sleep(self, seconds: float) -> None:
        """Wait in virtual time, for at least 1 ns if `seconds` is positive."""
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        sleep_ns = max(1, round(seconds * 1e9)) if seconds else 0
        if asyncio._get_running_loop() is self.loop:  # get_running_loop raises
            self.loop.block_ns(sleep_ns)
            return
        thread = cast("SimulatedThread", thread_here())
        report_sleep(self.loop, sleep_ns)
        thread.threads.sleep(thread, sleep_ns)

    def clock_ns(self, clock: int) -> int:
        return self.wall_ns if clock in _WALL_CLOCKS else self.now_ns

    def broken_down(self, seconds: float | None = None) -> time.struct_time:
        """Return the time in UTC; the machine's time zone must not change a run."""
        return _gmtime(self.wall_ns // 10**9 if seconds is None else seconds)

    def date_time(self, cls: type[dt.datetime], tz: Any = None) -> dt.datetime:
        moment = _UNIX + dt.timedelta(microseconds=self.wall_ns // 1000)
        moment = moment.replace(tzinfo=None) if tz is None else moment.astimezone(tz)
        return cls.combine(moment.date(), moment.timetz())

    def date(self, cls: type[dt.date]) -> dt.date:
        """Return the current date; `datetime` inherits this method from `date`."""
        return _as_date(cls, self.date_time)

    def uuid1(self, node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
        """Return an identifier made of virtual time; the node is drawn from the seed."""
        bits = stream_here(self.seeds, "uuid1").getrandbits
        clock_seq = bits(14) if clock_seq is None else clock_seq
        return _uuid1(bits(48) if node is None else node, clock_seq)

    def random_bytes(self, source: str, size: int) -> bytes:
        """Return bytes of the stream named `source`. Raises ValueError for a negative size."""
        if size < 0:
            raise ValueError("negative argument not allowed")
        return stream_here(self.seeds, source).randbytes(size)

    def seed(self, generator: random.Random, a: Any = None, version: int = 2) -> None:
        """Seed from the simulation where Python would ask the operating system."""
        value = stream_here(self.seeds, "unseeded").getrandbits(64) if a is None else a
        _seed(generator, value, version)


def answers_here() -> Answers | None:
    """Return the answers for the calling code; None for code that is in no simulation."""
    loop = loop_here()
    return None if loop is None else loop.answers


def stand_in(real: Any, answer: Callable[..., Any], what: str = "answers") -> Callable[..., Any]:
    """Return a function that calls `answer` with `what` of the run, and `real` elsewhere."""

    @functools.wraps(real)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        # As `loop_here`, in line: a program makes many such calls.
        run: Any = _get_running_loop()
        if type(run) is not VirtualLoop:
            thread = THREADS.get(get_ident())
            run = None if thread is None else thread.loop
        if (found := None if run is None else getattr(run, what)) is None:
            return real(*args, **kwargs)
        return answer(found, *args, **kwargs) if kwargs else answer(found, *args)

    return stand_in


def _class_stand_in(cls: type, name: str, answer: Callable[..., Any]) -> Any:
    original = cls.__dict__[name]  # written in C
    function = stand_in(lambda cls, *args, **kw: original.__get__(None, cls)(*args, **kw), answer)
    return classmethod(function)


# Where this platform has them. A computation takes no virtual time, so the clocks of the processor
# show the time that passed.
_CLOCKS = ("monotonic", "perf_counter", "process_time", "thread_time")
_BY_NAME: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (time, "time", lambda answers: answers.wall_ns / 1e9),
    (time, "time_ns", lambda answers: answers.wall_ns),
    *((time, name, lambda answers: answers.now_ns / 1e9) for name in _CLOCKS),
    *((time, f"{name}_ns", lambda answers: answers.now_ns) for name in _CLOCKS),
    (time, "clock_gettime", lambda answers, clock: answers.clock_ns(clock) / 1e9),
    (time, "clock_gettime_ns", Answers.clock_ns), (time, "sleep", Answers.sleep),
    (time, "localtime", Answers.broken_down), (time, "gmtime", Answers.broken_down),
    (time, "ctime", lambda answers, *args: _asctime(answers.broken_down(*args))),
    (time, "asctime", lambda answers, *args: _asctime(*args or (answers.broken_down(),))),
    (time, "strftime", lambda answers, form, *at: _strftime(form, *at or (answers.broken_down(),))),
    (time, "mktime", lambda _, fields: float(calendar.timegm(fields))),
    (os, "urandom", lambda answers, size: answers.random_bytes("os.urandom", size)),
    (os, "getrandom", lambda answers, size, _=0: answers.random_bytes("os.urandom", size)),
    (ssl, "RAND_bytes", lambda answers, num: answers.random_bytes("ssl.RAND_bytes", num)),
    (uuid, "uuid1", Answers.uuid1),
)  # fmt: skip


def _draw(name: str, original: Any) -> Callable[..., Any]:
    def inside(answers: Answers, *args: Any, **kwargs: Any) -> Any:
        if name == "seed":
            return answers.seed(answers.generator, *args, **kwargs)
        return getattr(answers.generator, name)(*args, **kwargs)

    return stand_in(original, inside)


async def wait_for(_: Answers, fut: Any, timeout: float | None) -> Any:  # noqa: ASYNC109 - as in Python
    """Wait as Python 3.12 does, in the task of the caller; Python 3.11 makes a task for it."""
    if timeout is not None and timeout <= 0:
        return await _wait_for(fut, timeout)
    async with asyncio.timeout(timeout):
        return await fut


def all_tasks(_: Answers, loop: asyncio.AbstractEventLoop | None = None) -> set[Any]:
    """Return a set in the order of the tasks' numbers, in which `asyncio.run` cancels them."""
    return {*sorted(_all_tasks(loop), key=hash)}


def as_completed(_: Answers, fs: Any, **timeout: float | None) -> Any:
    """Make a task of each coroutine in their order, not in that of a set of coroutines."""
    if not (asyncio.isfuture(fs) or asyncio.iscoroutine(fs)):  # which is refused
        fs = [*map(asyncio.ensure_future, dict.fromkeys(fs))]
    return _as_completed(fs, **timeout)


OF_ASYNCIO: dict[Any, Callable[..., Any]] = {
    _all_tasks.func: stand_in(_all_tasks.func, all_tasks),
    _as_completed.func: stand_in(_as_completed.func, as_completed),
    # So that a trace is that of newer versions.
    **({_wait_for.func: stand_in(_wait_for.func, wait_for)} if sys.version_info < (3, 12) else {}),
}
"""The stand-ins that `asyncio` itself holds too."""

FUNCTIONS: dict[Any, Callable[..., Any]] = (
    OF_ASYNCIO
    | {
        getattr(module, name): stand_in(getattr(module, name), answer)
        for module, name, answer in _BY_NAME
        if hasattr(module, name)
    }
    | {
        original: _draw(name, original)
        for name, original in vars(random).items()
        if getattr(original, "__self__", None) is _GLOBAL_RANDOM
    }
)
"""Original function -> its stand-in, wherever a module global holds the original."""


def _from_timestamp(_: Answers, cls: type[dt.datetime], stamp: float, tz: Any = None) -> Any:
    moment = _FROM_TIMESTAMP.__get__(None, cls)(stamp, tz or dt.UTC)
    return moment.replace(tzinfo=None) if tz is None else moment


def _date_from_timestamp(answers: Answers, cls: type[dt.date], stamp: float) -> Any:
    return _as_date(cls, lambda kind: _from_timestamp(answers, kind, stamp))


def _as_date(cls: type[dt.date], moment_of: Callable[[type[dt.datetime]], dt.datetime]) -> dt.date:
    if issubclass(cls, dt.datetime):
        return moment_of(cls)
    moment = moment_of(dt.datetime)
    return cls(moment.year, moment.month, moment.day)


def _aware(moment: dt.datetime) -> dt.datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


_FROM_TIMESTAMP = dt.datetime.__dict__["fromtimestamp"]
_TIMESTAMP: Any = dt.datetime.timestamp
_ASTIMEZONE: Any = dt.datetime.astimezone

_CLASS_METHODS: tuple[tuple[type, str, Callable[..., Any]], ...] = (
    (dt.datetime, "now", Answers.date_time), (dt.datetime, "utcnow", Answers.date_time),
    (dt.date, "today", Answers.date), (dt.datetime, "fromtimestamp", _from_timestamp),
    (dt.date, "fromtimestamp", _date_from_timestamp),
)  # fmt: skip
METHODS: tuple[tuple[type, str, Any], ...] = (
    *((cls, name, _class_stand_in(cls, name, answer)) for cls, name, answer in _CLASS_METHODS),
    (random.Random, "seed", stand_in(_seed, Answers.seed)),
    (dt.datetime, "timestamp", stand_in(_TIMESTAMP, lambda _, moment: _TIMESTAMP(_aware(moment)))),
    (dt.datetime, "astimezone", stand_in(
        _ASTIMEZONE, lambda _, moment, tz=None: _ASTIMEZONE(_aware(moment), tz or dt.UTC)
    )),
    # A class attribute that everybody's logs go through.
    (logging.Formatter, "converter", staticmethod(FUNCTIONS[time.localtime])),
)  # fmt: skip
"""Class, attribute and stand-in of the methods that are exchanged."""
