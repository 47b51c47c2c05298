"""The detection of a program that makes no progress: its state comes back again and again.

The state is everything that can be reached from the waiting tasks and the callbacks that are due:
places in the code, local variables, attributes, elements, the globals and classes of the program's
own modules, context variables, and the generators of random numbers.
Moving time alone is progress only while the state holds a number that may be a deadline ahead.

Not here: the bound on callbacks, which ends every program at last (clock.py). The rules to keep: it
counts callbacks and never reads a clock; it runs no code of the program and keeps none of its
objects alive; a doubt counts as progress.
"""

import asyncio
import collections
import contextvars
import datetime as dt
import gc
import io
import itertools
import operator
import random
import sys
import types
import weakref
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from simloop.virtual.answers import ANSWERS
from simloop.virtual.waiting import is_of_the_program

if TYPE_CHECKING:
    from simloop.virtual.clock import VirtualLoop

_SAMPLES = 4
_PLACES = 20_000
_COMPARED = 8
_LARGEST = 20_000
_EXACT_S = 1e-6

_SCALARS = {bool, bytes, complex, type(None), Decimal, UUID}
_CONTAINERS = {dict, list, tuple, set, frozenset, collections.deque}
_COROUTINES = {
    types.CoroutineType: "cr_frame",
    types.GeneratorType: "gi_frame",
    types.AsyncGeneratorType: "ag_frame",
}
# What belongs to Python, or changes with every callback and decides nothing.
_SKIPPED = (
    types.CodeType,
    types.FrameType,
    types.BuiltinFunctionType,
    types.WrapperDescriptorType,
    weakref.ReferenceType,
    weakref.WeakKeyDictionary,
    weakref.WeakValueDictionary,
    weakref.WeakSet,
    types.ModuleType,
    contextvars.ContextVar,
    contextvars.Token,
    asyncio.AbstractEventLoop,
    BaseException,
)


class _Moment:  # noqa: PLW1641 - compared only
    """A number that may be a time; it also counts as unchanged if it moved with the clock."""

    __slots__ = ("ahead", "value")

    def __init__(self, value: float, now: float) -> None:
        self.value = value
        self.ahead = value - now

    def __eq__(self, other: object) -> bool:
        return type(other) is _Moment and (
            self.value == other.value or abs(self.ahead - other.ahead) < _EXACT_S
        )


class _State(NamedTuple):
    """The state of a program at one instant."""

    tokens: list[Any]
    numbers: list[float]
    now_ns: int


class Standstill:
    """Looks at a loop every `stride` callbacks; `look` says when it wants to look again."""

    # 4 times 75,000 callbacks take half a second, and a second if each waits for a timer.
    stride = 75_000

    def __init__(self) -> None:
        self._reference: _State | None = None
        self._places: list[Any] = []
        self._found = 0
        self._seen = 0
        self._compared = 0
        self.stuck = False

    def look(self, loop: "VirtualLoop", callbacks: int) -> int:
        """Compare the state of `loop` with an earlier one; `stuck` is set if nothing changed.

        Returns the number of callbacks after which to look again. A program that goes round comes
        back to its earlier places within some rounds, so each of the next rounds is looked at.
        """
        if self._reference is not None and self._seen < _PLACES and self._compared < _COMPARED:
            places = list(_places(loop))
            self._seen += len(places)
            if places != self._places:
                return callbacks
            self._compared += 1
            if not self._matches(state := _state_of(loop)):
                return callbacks if state is not None else self._begin(loop, callbacks)
            self._found += 1
            self._seen = self._compared = 0
            self.stuck = self._found >= _SAMPLES - 1 and not _may_await_a_time(
                state, self._reference, loop
            )
            return callbacks + self.stride
        return self._begin(loop, callbacks)

    def _begin(self, loop: "VirtualLoop", callbacks: int) -> int:
        self._reference = _state_of(loop)
        self._places = list(_places(loop))
        self._found = self._seen = self._compared = 0
        return (
            callbacks + self.stride + (len(self._reference.tokens) if self._reference else _LARGEST)
        )

    def _matches(self, state: _State | None) -> bool:
        return state is not None and state.tokens == getattr(self._reference, "tokens", None)


def _may_await_a_time(state: _State | None, earlier: _State, loop: "VirtualLoop") -> bool:
    """Return whether the state holds a possible future time, in any unit, or long duration."""
    assert state is not None
    passed_s = (state.now_ns - earlier.now_ns) / 1e9
    if not passed_s:
        return False
    moments = [
        token.value
        for token, before in zip(state.tokens, earlier.tokens, strict=True)
        if type(token) is _Moment and token.value == before.value
    ]
    answers = ANSWERS.get(loop)
    wall_s = (answers.wall_ns if answers else 0) / 1e9
    longest_s = loop.max_virtual_ns / 1e9
    return any(
        passed_s < number / unit <= longest_s or 0 < number / unit - wall_s <= longest_s
        for number in chain(state.numbers, moments)
        for unit in (1, 1e3, 1e6, 1e9)
    )


def _places(loop: "VirtualLoop") -> Iterator[Any]:
    """Yield each timer's distance and each task's place: cheap to compare, mostly distinct."""
    yield from sorted(when_ns - loop.now_ns for when_ns, *_ in loop.timers())
    for task in loop.unfinished():
        awaited: Any = task.get_coro()
        while frame := getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None):
            yield frame.f_code
            yield frame.f_lasti
            awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)


def _state_of(loop: "VirtualLoop") -> _State | None:
    """Return the state of the program, or None if it is too large to compare."""
    walk = _Walk(loop)
    answers = ANSWERS.get(loop)
    generators = answers.generators() if answers else []
    handles = [handle for *_, handle in sorted(loop.timers(), key=operator.itemgetter(0, 1, 2))]
    roots = chain((task.get_coro() for task in loop.unfinished()), loop.due(), handles, generators)
    return _State(walk.tokens, walk.numbers, loop.now_ns) if walk.through(roots) else None


class _Walk:
    """One walk through the objects of a program, which collects what is compared."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self.tokens: list[Any] = []
        self.numbers: list[float] = []
        self._now_s = loop.time()
        self._now_ns = loop.now_ns
        self._seen: dict[int, Any] = {}  # by identity, and alive until the walk ends

    def through(self, roots: Iterable[Any]) -> bool:
        """Visit everything that `roots` reach. Returns False if they are too many."""
        waiting = collections.deque(roots)
        while waiting:
            if len(self.tokens) + len(waiting) > _LARGEST:
                return False
            value = waiting.popleft()
            if not self._is_scalar(value) and id(value) not in self._seen:
                self._seen[id(value)] = value
                waiting.extend(self._visit(value))
        return True

    def _is_scalar(self, value: Any) -> bool:
        kind = type(value)
        if kind is float:
            self._number(value)
        elif kind in _SCALARS:
            self.tokens.append(value)
        elif issubclass(kind, str):
            self.tokens.append(str.__add__(value, ""))
        elif issubclass(kind, int):
            self.tokens.append(int.__add__(value, 0))
            self.numbers.append(self.tokens[-1])
        elif kind is dt.timedelta:
            self._number(value.total_seconds())
        elif kind is dt.datetime or kind is dt.date:
            days = value.toordinal() - 719_163  # since 1970
            seconds = value.hour * 3600 + value.minute * 60 if kind is dt.datetime else 0
            self._number(days * 86_400.0 + seconds)
            self.tokens.append(value.replace(tzinfo=None) if kind is dt.datetime else value)
        else:
            return False
        return True

    def _number(self, value: float) -> None:
        self.tokens.append(_Moment(value, self._now_s))

    def _visit(self, value: Any) -> Iterable[Any]:
        """Record the kind of the object, and return the objects that it holds."""
        kind = type(value)
        if issubclass(kind, _SKIPPED):
            return ()
        if issubclass(kind, type):
            return _attributes_of(value)
        self.tokens.append(kind)
        content = self._content(value, kind)
        return content if id(kind) in self._seen else chain((kind,), content)

    def _content(self, value: Any, kind: Any) -> Iterable[Any]:
        if kind in _CONTAINERS:
            return self._elements(value)
        if kind is contextvars.Context:
            return chain.from_iterable(value.items())
        if kind in _COROUTINES:
            return self._frame(value, getattr(value, _COROUTINES[kind]))
        if kind is types.FunctionType:
            self.tokens.append(value.__code__)
            return chain(value.__closure__ or (), _globals_of(value.__code__, value.__globals__))
        if issubclass(kind, asyncio.Task):
            contexts = [x for x in gc.get_referents(value) if type(x) is contextvars.Context]
            return (asyncio.Task.get_coro(value), *contexts)
        if issubclass(kind, asyncio.Queue):
            return _without_count(value)
        if issubclass(kind, asyncio.Handle):
            when = getattr(value, "_when", self._now_s)
            self.tokens.append(_Moment(when, self._now_s))
            return (value._callback, value._args)  # noqa: SLF001 - a loop's own handles
        if kind is random.Random:
            self.tokens.append(hash(value.getstate()))
        elif kind is itertools.count:
            self.tokens.append(repr(value))
        elif kind in {io.BytesIO, io.StringIO, io.BufferedReader}:
            self.tokens.append(_position(value))
        elif kind.__module__ in {"builtins", "itertools"} and hasattr(kind, "__length_hint__"):
            self.tokens.append(_left_in(value))
        else:
            self._bytes(value)
        return gc.get_referents(value)

    def _elements(self, value: Any) -> Iterable[Any]:
        self.tokens.append(len(value))
        if isinstance(value, dict):
            return chain.from_iterable(list(value.items()))
        if isinstance(value, set | frozenset):  # in no certain order
            simple = [item for item in value if type(item) in {int, str, bytes, bool}]
            self.tokens.append(frozenset(simple))
            return ()
        return list(value)

    def _frame(self, value: Any, frame: Any) -> Iterable[Any]:
        if frame is None:
            return ()
        code = frame.f_code
        self.tokens += (code, frame.f_lasti)
        self.numbers += [const for const in code.co_consts if type(const) in {int, float}]
        held = gc.get_referents(value)
        return chain(held, _globals_of(code, frame.f_globals, held))

    def _bytes(self, value: Any) -> None:
        try:
            with memoryview(value) as view:
                self.tokens.append(hash(view.tobytes()) if view.nbytes < _LARGEST else view.nbytes)
        except (TypeError, ValueError, BufferError):
            pass  # it holds no bytes


def _globals_of(
    code: types.CodeType, namespace: dict[str, Any], held: Iterable[Any] = ()
) -> Iterator[Any]:
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


def _namespaces(values: Iterable[Any]) -> list[dict[str, Any]]:
    modules = (value.__dict__ for value in values if type(value) is types.ModuleType)
    return [namespace for namespace in modules if is_of_the_program(namespace)]


def _attributes_of(cls: type) -> Iterator[Any]:
    """Yield the attributes and methods of a class of the program and of its bases."""
    for each in type.mro(cls):
        module = sys.modules.get(each.__module__)
        if type(module) is types.ModuleType and is_of_the_program(module.__dict__):
            for name, value in list(vars(each).items()):
                if type(value) is types.FunctionType or not name.startswith("__"):
                    yield value


def _without_count(queue: Any) -> list[Any]:
    """Return a queue's content without `_unfinished_tasks`, which only `join` reads."""
    try:
        count = object.__getattribute__(queue, "_unfinished_tasks")
    except AttributeError:  # a subclass that does not call `__init__`
        count = None
    return [value for value in gc.get_referents(queue) if value is not count]


def _position(file: Any) -> int | None:
    try:
        return file.tell()  # type: ignore[no-any-return]
    except (OSError, ValueError):  # a pipe, or closed
        return None


def _left_in(iterator: Any) -> int:
    try:
        return operator.length_hint(iterator, -1)
    except TypeError:  # endless
        return -1
