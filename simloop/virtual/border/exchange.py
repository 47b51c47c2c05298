"""The exchange of originals for stand-ins, wherever a global or a class of Python holds them.

It is made whole or not at all. Nothing in `sys.modules` is asked anything while its globals are
read, because it may be any object.
"""

import contextlib
import ctypes
import gc
import operator
import sys
import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from simloop.virtual.border.thread_stand_ins import StandInType
from simloop.virtual.real_world import LISTS

# Only values of these types are looked up: the hash of any other object may run its own code.
# A class of another metaclass may define `__hash__` as well.
_KINDS = frozenset({BuiltinFunctionType, FunctionType, MethodType, type, StandInType})
# Bypasses a `__dict__` or `__getattribute__` that a subclass of ModuleType defines.
_namespace_of: Any = vars(ModuleType)["__dict__"].__get__
_forget = ctypes.pythonapi.PyType_Modified
_forget.argtypes, _forget.restype = [ctypes.py_object], None


class _Holder(NamedTuple):
    namespace: dict[str, Any]
    originals: dict[str, Any]
    stand_ins: dict[str, Any]


def _replace(namespace: dict[str, Any], held: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Replace the values that are still held; one that a test has patched in stays."""
    held = {name: value for name, value in held.items() if namespace.get(name) is value}
    namespace.update({name: wanted[name] for name in held})


class _Holders:
    """All holders, exchanged together.

    Nearly always, every name holds its original before a simulation, and its stand-in after it.
    One comparison of all names finds that out. Otherwise each holder looks at its own names.
    """

    def __init__(self, holders: list[_Holder]) -> None:
        self._namespaces = [holder.namespace for holder in holders]
        self._originals = [holder.originals for holder in holders]
        self._stand_ins = [holder.stand_ins for holder in holders]
        self._readers = [_reader(names) for names in self._originals]
        self._read_originals = self._read(self._originals)
        self._read_stand_ins = self._read(self._stand_ins)

    def exchange(self, *, back: bool = False) -> None:
        held, wanted, values = self._originals, self._stand_ins, self._read_originals
        if back:
            held, wanted, values = wanted, held, self._read_stand_ins
        if self._hold(values):
            list(map(dict.update, self._namespaces, wanted))
        else:
            list(map(_replace, self._namespaces, held, wanted))

    def are_exchanged(self) -> bool:
        return self._hold(self._read_stand_ins)

    # Written for speed: to look at 100 names, or to write them, takes no step of Python for each.
    def _read(self, namespaces: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return list(map(operator.call, self._readers, namespaces))

    def _hold(self, values: list[tuple[Any, ...]]) -> bool:
        # A comparison of tuples asks only objects that are not identical, such as a fake of a test.
        try:
            return self._read(self._namespaces) == values
        except Exception:  # noqa: BLE001 - a name was deleted, or holds an object whose `==` raises
            return False


def _reader(names: Iterable[str]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    first, *others = names  # of one name, `itemgetter` would return the value and no tuple
    return operator.itemgetter(first, *others or [first])


def _holders_of_methods(methods: Sequence[tuple[type, str, Any]]) -> dict[type, _Holder]:
    """Return the classes of `methods` with their namespaces, even if written in C.

    A subclass put in the place of `datetime` (as freezegun does) is another object: pydantic then
    refuses a model with the field `at: datetime` that is built inside the simulation.
    """
    holders: dict[type, _Holder] = {}
    for cls, name, stand_in in methods:
        # `setattr` refuses a class written in C, and `__dict__` is a read-only proxy, whose only
        # referent is the dict itself. Where that is not so, the unpacking fails at import. Writing
        # to the type object by offset was rejected: the offsets differ between versions.
        (namespace,) = gc.get_referents(cls.__dict__)
        holder = holders.setdefault(cls, _Holder(namespace, {}, {}))
        holder.originals[name] = namespace[name]
        holder.stand_ins[name] = stand_in
    return holders


class NameExchange:
    """An exchange of names from the first `enter` in the process to the last `leave`.

    The packages `kept_by` keep the originals, but for those `everywhere`.
    """

    def __init__(
        self, functions: Mapping[Any, Any], methods: Sequence[tuple[type, str, Any]],
        *, kept_by: frozenset[str], everywhere: Container[Any] = (),
    ) -> None:  # fmt: skip
        self.lock = threading.Lock()
        self.seals = 0
        self.keepers = 0
        self.modules: list[Any] = []
        self._functions = functions
        self._by_value = {original: original for original in functions} | {
            stand_in: original for original, stand_in in functions.items()
        }
        self._classes = _holders_of_methods(methods)
        # To forget the methods of a class is to forget those of its subclasses.
        known = self._classes.keys()
        self._changed = [cls for cls in known if known.isdisjoint(cls.__mro__[1:])]
        self._kept_by = kept_by
        self._everywhere = everywhere
        self.all = _Holders([*self._classes.values()])

    def _forget_cached_methods(self) -> None:
        """Let CPython look up methods anew: it caches them, and sees no write to a class's dict."""
        for cls in self._changed:
            _forget(cls)

    def _holder_of(self, namespace: dict[str, Any], module: str) -> _Holder | None:
        if (package := str.partition(module, ".")[0]) in LISTS.private_twins:
            return None
        by_value, originals, stand_ins = self._by_value, {}, {}
        for name, value in list(namespace.items()):
            if type(name) is str and type(value) in _KINDS and value in by_value:
                original = by_value[value]
                stand_in = self._functions[original]
                if package not in self._kept_by or original in self._everywhere:
                    # Equal is not the same: each `random._inst.random` is another object.
                    originals[name] = original if value is stand_in else value
                    stand_ins[name] = stand_in
        return _Holder(namespace, originals, stand_ins) if originals else None

    def begin(self, *given: Any) -> None:
        """Do what belongs to the first entrance besides the exchange, with its arguments."""

    def end(self) -> None:
        """Undo it; safe to repeat."""

    def enter(self, *given: Any) -> None:
        with self.lock:
            if self.seals == 0:
                try:
                    self._exchange(*given)
                except BaseException:
                    self._put_back()
                    raise
            self.seals += 1

    def leave(self) -> None:
        with self.lock:
            self.seals -= 1
            if self.seals == 0:
                self._open()

    def keep(self) -> None:
        """Leave the stand-ins in their places until `let_go`; forks need not find them again."""
        with self.lock:
            self.keepers += 1
            if self.seals == 0:
                self._scan()

    def let_go(self) -> None:
        """Put everything back, unless a simulation or another keeper still needs the border."""
        with self.lock:
            self.keepers -= 1
            if self.seals == 0:
                self._open(after_keep=True)

    def _open(self, *, after_keep: bool = False) -> None:
        try:
            if after_keep or len(sys.modules) != len(self.modules):
                self._scan()  # a module imported meanwhile has bound the stand-ins
            if self.keepers == 0:
                self._put_back()
            self.end()
        except BaseException:
            self._put_back()  # a Ctrl-C in the middle: it repeats nothing
            raise

    def _exchange(self, *given: Any) -> None:
        # What is imported while the border is kept binds the stand-ins. So only the number of the
        # modules counts, as in `_open`: to look at each of them takes a twentieth of a short run.
        if not (self.keepers and len(sys.modules) == len(self.modules)):
            self._scan()
        self.begin(*given)
        if not (self.keepers and self.all.are_exchanged()):
            self.all.exchange()
            self._forget_cached_methods()

    def _put_back(self) -> None:
        self.all.exchange(back=True)
        self._forget_cached_methods()
        self.end()

    def _scan(self) -> None:
        """Find where the originals are bound, if modules have changed: 500 of them take 2 ms."""
        with contextlib.suppress(Exception):  # of an object that is no module, and cannot compare
            if self.modules and [*sys.modules.values()] == self.modules:
                return
        self._put_back()  # nobody does it later in a module that is gone
        # A copy first: a finalizer that the garbage collector calls may import a module, so that
        # the mapping changes while it is read.
        modules: list[tuple[Any, Any]] = list(sys.modules.copy().items())
        holders, complete = [*self._classes.values()], True
        for name, module in modules:
            if issubclass(type(module), ModuleType) and isinstance(name, str):
                namespace = _namespace_of(module) or {}
                spec = namespace.get("__spec__")
                # While a module is being imported, its globals are not all there yet.
                unfinished = type(spec) is ModuleSpec and getattr(spec, "_initializing", False)
                complete = complete and not unfinished
                holders += filter(None, [self._holder_of(namespace, name)])
        self.all = _Holders(holders)
        self.modules = [module for _, module in modules] if complete else []
