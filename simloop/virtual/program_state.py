"""The state of a program: everything that its waiting tasks, threads and callbacks can reach.

That is places in the code, local variables, attributes, elements, the globals that the code names,
classes and modules of the program itself, context variables, and the generators of random numbers;
of simloop's own objects only the records, which hold what the program said to its world.
The state has two parts: the numbers, and the shape, which is everything else.

Not here: when states are taken and compared (standstill.py); state that only a module or class of
an installed package holds. The rules to keep: taking a state runs no code of the program and keeps
none of its objects alive; an object that hides its state makes the whole state unknown.
"""

import asyncio
import contextvars
import datetime as dt
import enum
import gc
import io
import itertools
import operator
import random
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from simloop.virtual.answers import ANSWERS
from simloop.virtual.waiting import is_of_the_program

if TYPE_CHECKING:
    from simloop.virtual.clock import VirtualLoop

_LARGEST = 20_000
_LARGEST_BUFFER = 1_000_000

_FRAMES = {
    types.CoroutineType: "cr_frame",
    types.GeneratorType: "gi_frame",
    types.AsyncGeneratorType: "ag_frame",
}
_AWAITED = {
    types.CoroutineType: "cr_await",
    types.GeneratorType: "gi_yieldfrom",
    types.AsyncGeneratorType: "ag_await",
}
# Objects that belong to Python, that have no state, or that hold others in no certain order.
_SKIPPED = (
    types.CodeType,
    types.FrameType,
    types.TracebackType,
    types.ModuleType,
    types.WrapperDescriptorType,
    weakref.ReferenceType,
    weakref.WeakKeyDictionary,
    weakref.WeakValueDictionary,
    weakref.WeakSet,
    contextvars.ContextVar,
    contextvars.Token,
    asyncio.AbstractEventLoop,
)
# Modules whose types, written in C, hold all of their state in other objects, or have none.
_TRANSPARENT = {
    "_abc", "_asyncio", "_collections", "_contextvars", "_io", "_random", "_ssl", "_struct",
    "_thread", "builtins", "collections", "datetime", "decimal", "enum", "functools", "operator",
    "re", "types", "typing", "weakref", "zoneinfo",
}  # fmt: skip
_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
# Not `hash`: a subclass may define it.
_SIMPLE: dict[type, Callable[[Any], Any]] = {
    type(None): object.__hash__,
    str: str.__hash__,
    bytes: bytes.__hash__,
    int: int.__hash__,
    float: float.__hash__,
    complex: complex.__hash__,
    Decimal: Decimal.__str__,
}
_SAME_IN_SETS = (asyncio.Future, enum.Enum, type, types.FunctionType)
# Of the arguments of `timedelta`, from seconds to weeks.
_UNITS_S = (1, 60, 3_600, 86_400, 604_800)
_FILES = {io.BytesIO, io.StringIO, io.BufferedReader, io.FileIO}
_BUFFERS = (bytearray, memoryview)
_SET_ITERATORS = (set.__iter__, frozenset.__iter__)
_namespace_of = vars(types.ModuleType)["__dict__"].__get__  # a lazy module loads itself otherwise


class ProgramState(NamedTuple):
    """The state of a program at one instant; `constants` are the numbers in its code."""

    shape: list[Any]
    numbers: list[float]
    constants: set[float]


def places_of(loop: "VirtualLoop") -> list[Any]:
    """Return the distance of each timer and the place of each task: cheap, and mostly distinct."""
    places: list[Any] = sorted(when_ns - loop.now_ns for when_ns, *_ in loop.timers())
    for task in loop.unfinished():
        awaited: Any = task.get_coro()
        while frame := getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None):
            places += (frame.f_code, frame.f_lasti)
            awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    for frame in loop.thread_frames():
        places += (frame.f_code, frame.f_lasti)
    return places


def state_of(loop: "VirtualLoop") -> ProgramState | None:
    """Return the state of the program; None if it is too large to compare, or not all known."""
    answers = ANSWERS.get(loop)
    tasks = [task.get_coro() for task in loop.unfinished()]
    timers = [timer[-1] for timer in sorted(loop.timers(), key=operator.itemgetter(0, 1, 2))]
    walk = _Walk()
    walk.state.shape.extend(map(len, loop.records))
    generators = answers.generators() if answers else ()
    frames = chain.from_iterable(map(walk.through_frame, loop.thread_frames()))
    known = walk.through([*tasks, *loop.due(), *timers, *generators, *frames])
    return walk.state if known else None


class _Walk:
    """One walk through the objects of a program."""

    def __init__(self) -> None:
        self.state = ProgramState([], [], set())
        self._seen: dict[int, tuple[int, Any]] = {}  # by identity, and alive until the walk ends
        self._opaque: dict[type, bool] = {}
        self._is_known = True

    def through(self, roots: Iterable[Any]) -> bool:
        """Visit everything that `roots` reach. Returns False where that is not possible."""
        waiting = deque(roots)
        shape, seen = self.state.shape, self._seen
        while waiting and self._is_known:
            if len(shape) + len(waiting) > _LARGEST:
                return False
            value = waiting.popleft()
            if id(value) in seen:
                shape.append(seen[id(value)][0])  # so a second reference is not lost
            elif not self._is_simple(value, type(value)):
                seen[id(value)] = len(seen), value
                waiting.extend(self._visit(value, type(value)))
        return self._is_known

    def through_frame(self, frame: types.FrameType) -> Iterable[Any]:
        """Record the frame of a parked thread, and return what it holds."""
        return self._code(frame, list(frame.f_locals.values()))

    def _is_simple(self, value: Any, kind: Any) -> bool:
        """Record a value that holds no others, and return whether it is one."""
        if kind is int or kind is float:
            self._number(kind, value)
            return True
        for simple, content in _SIMPLE.items():
            if issubclass(kind, simple):
                self.state.shape.append(content(value))
                return True
        if issubclass(kind, dt.timedelta):
            self._number(kind, dt.timedelta.total_seconds(value))
        elif issubclass(kind, dt.date):
            self._number(kind, _unix_seconds(value, kind))
        else:
            return False
        return True

    def _number(self, kind: Any, value: float) -> None:
        self.state.shape.append(kind)
        self.state.numbers.append(value)

    def _visit(self, value: Any, kind: Any) -> Iterable[Any]:
        """Record the kind of the object, and return the objects that it holds."""
        if issubclass(kind, _SKIPPED):
            return ()
        if issubclass(kind, type):
            return _attributes_of(value)
        self.state.shape.append(kind)
        if _is_ours(value, kind):
            return _awaited(value, kind)
        if kind in _FRAMES:
            return self._code(getattr(value, _FRAMES[kind]), gc.get_referents(value))
        if kind is types.FunctionType:
            held = (value.__defaults__, value.__kwdefaults__, vars(value))
            return self._code(value, chain(held, value.__closure__ or ()))
        if issubclass(kind, asyncio.Task):  # without its name, which has a number
            contexts = [x for x in gc.get_referents(value) if type(x) is contextvars.Context]
            return (asyncio.Task.get_coro(value), *contexts)
        if kind is contextvars.Context:
            return chain.from_iterable(value.items())
        if issubclass(kind, set | frozenset):
            return self._members(value)
        self._hidden(value, kind)
        return gc.get_referents(value)

    def _code(self, owner: Any, held: Iterable[Any]) -> Iterable[Any]:
        """Record the code of a frame or function; return what it holds and the globals it names."""
        if owner is None:  # the frame of a coroutine that has ended
            return ()
        is_frame = type(owner) is types.FrameType
        code = owner.f_code if is_frame else owner.__code__
        self.state.shape.extend((code, owner.f_lasti) if is_frame else (code,))
        constants = [number for number in code.co_consts if type(number) in {int, float}]
        units_s = _UNITS_S if "timedelta" in code.co_names else (1,)
        self.state.constants.update(number * unit for number in constants for unit in units_s)
        namespace = owner.f_globals if is_frame else owner.__globals__
        held = list(held)
        return chain(held, _globals_of(code, namespace, held))

    def _members(self, value: Any) -> Iterable[Any]:
        """Record a set; its members have no certain order, so two objects cannot be told apart."""
        members = list(_SET_ITERATORS[isinstance(value, frozenset)](value))
        if len(members) > _LARGEST:
            self._is_known = False
            return ()
        simple = frozenset(member for member in members if type(member) in _SIMPLE)
        others = [
            member
            for member in members
            if type(member) not in _SIMPLE and not issubclass(type(member), _SAME_IN_SETS)
        ]
        self.state.shape.extend((len(members), simple))
        self._is_known &= len(others) <= 1
        return others

    def _hidden(self, value: Any, kind: Any) -> None:
        """Record the state of an object that is not in the objects it holds."""
        if issubclass(kind, random.Random):
            self._number(int, hash(random.Random.getstate(value)))
        elif kind is itertools.count:
            self._count(repr(value)[6:-1])
        elif kind in _FILES:
            self.state.shape.append(_position(value))
        elif type(vars(kind).get("__length_hint__")) is types.MethodDescriptorType:
            self._number(int, _rest_of(value))
        elif issubclass(kind, _BUFFERS) or self._is_opaque(kind):
            self._buffer(value)

    def _count(self, text: str) -> None:
        self._is_known &= text.lstrip("-").isdecimal()
        if self._is_known:
            self._number(int, int(text))

    def _is_opaque(self, kind: type) -> bool:
        if kind not in self._opaque:
            made_in_c = filter(_is_made_in_c, type.mro(kind))
            self._opaque[kind] = any(c.__module__ not in _TRANSPARENT for c in made_in_c)
        return self._opaque[kind]

    def _buffer(self, value: Any) -> None:
        """Record the bytes of an object; without any, its state is unknown."""
        try:
            with memoryview(value) as view:
                self._is_known &= view.nbytes <= _LARGEST_BUFFER
                self.state.shape.append(hash(view.tobytes()) if self._is_known else None)
        except (TypeError, ValueError, BufferError):
            self._is_known = False


def _is_ours(value: Any, kind: type) -> bool:
    """Return whether simloop made the object, or runs the frame: the records show its progress."""
    frame = getattr(value, _FRAMES[kind]) if kind in _FRAMES else None
    module = kind.__module__ if frame is None else frame.f_globals.get("__name__", "")
    return str(module).startswith("simloop.")


def _awaited(value: Any, kind: type) -> Iterable[Any]:
    """Return the object that a coroutine or a generator waits for, which may be the program's."""
    awaited = getattr(value, _AWAITED[kind]) if kind in _AWAITED else None
    return () if awaited is None else (awaited,)


def _is_made_in_c(kind: type) -> bool:
    """Return whether no `class` statement made the type: it has methods written in C."""
    return any(
        type(value) in _METHODS and value.__objclass__ is kind for value in vars(kind).values()
    )


def _unix_seconds(value: Any, kind: type) -> float:
    """Return the seconds from 1970 to a date, in its own time zone."""
    seconds = (dt.date.toordinal(value) - 719_163) * 86_400
    if not issubclass(kind, dt.datetime):
        return seconds
    time = dt.datetime.time(value)
    return seconds + time.hour * 3600 + time.minute * 60 + time.second + time.microsecond / 1e6


def _globals_of(code: types.CodeType, namespace: dict[str, Any], held: list[Any]) -> Iterator[Any]:
    """Yield the globals that the code names, and the names it uses of program modules.

    `held` are its local variables, which may be modules.
    """
    known: set[int] = set()
    waiting = [namespace, *_namespaces(held)]
    while waiting:
        found = waiting.pop()
        if id(found) not in known:
            known.add(id(found))
            named = [found[name] for name in code.co_names if name in found]
            waiting += _namespaces(named)
            yield from named


def _namespaces(values: list[Any]) -> list[dict[str, Any]]:
    cells = (value for value in values if type(value) is types.CellType)
    modules = (
        value
        for value in chain(values, gc.get_referents(*cells))
        if issubclass(type(value), types.ModuleType)
    )
    return [found for found in map(_namespace_of, modules) if is_of_the_program(found)]


def _attributes_of(cls: type) -> Iterator[Any]:
    """Yield the attributes and methods of a class of the program and of its bases."""
    for each in type.mro(cls):
        module = sys.modules.get(each.__module__)
        if module is None or is_of_the_program(vars(module)):
            for name, value in list(vars(each).items()):
                if type(value) is types.FunctionType or not name.startswith("__"):
                    yield value


def _position(file: Any) -> int | None:
    try:
        return file.tell()  # type: ignore[no-any-return]
    except (OSError, ValueError):  # a pipe, or closed
        return None


def _rest_of(iterator: Any) -> int:
    try:
        return operator.length_hint(iterator, -1)
    except TypeError:  # endless
        return -1
