"""The border of a simulation: the exchange of Python's clocks, randomness and threads.

Not here: the answers (answers.py), the threads (threads.py) and the refusals (reaches.py). The
rule to keep: the border is entered whole or not at all.
Nothing in `sys.modules` is asked anything while its globals are read, because it may be any object.
"""

import contextlib
import ctypes
import gc
import operator
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import ModuleSpec
from itertools import chain
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from simloop.errors import InternalError, ScenarioError
from simloop.virtual.border import answers, refusals, thread_stand_ins
from simloop.virtual.border.answers import ANSWERS, Answers, shared_draws
from simloop.virtual.border.output import enter_streams, leave_streams
from simloop.virtual.border.randomness import addresses
from simloop.virtual.clock.interrupts import noted_interrupts
from simloop.virtual.seeds import Seeds

if TYPE_CHECKING:
    from simloop.virtual.clock.loop import VirtualLoop

# Every simulation starts at 2026-01-01T00:00:00Z, whatever the day it runs on.
EPOCH_NS = 1_767_225_600 * 10**9

# Their clocks must stay real: they wait in the operating system, or measure the simulation.
_SKIPPED = {
    "asyncio",
    "multiprocessing",
    "selectors",
    "simloop",
    "socketserver",
    "subprocess",
    "_pytest",
    "hypothesis",
    "pytest",
    "pytest_benchmark",
}

_FUNCTIONS = answers.FUNCTIONS | thread_stand_ins.FUNCTIONS | refusals.FUNCTIONS
_BY_VALUE = {original: original for original in _FUNCTIONS} | {
    stand_in: original for original, stand_in in _FUNCTIONS.items()
}
_METHODS = answers.METHODS + thread_stand_ins.METHODS + refusals.METHODS
# Only values of these types are looked up: the hash of any other object may run its own code.
# A class of another metaclass may define `__hash__` as well.
_KINDS = frozenset(
    {BuiltinFunctionType, FunctionType, MethodType, type, thread_stand_ins.StandInType}
)
# Bypasses a `__dict__` or `__getattribute__` that a subclass of ModuleType defines.
_read_namespace: Any = vars(ModuleType)["__dict__"]
_namespace_of = _read_namespace.__get__


class _Holder:
    """The names in one namespace, of a module or a class, that hold originals."""

    def __init__(
        self, namespace: dict[str, Any], originals: dict[str, Any], stand_ins: dict[str, Any]
    ) -> None:
        self.namespace = namespace
        self.originals = originals
        self.stand_ins = stand_ins

    def exchange(self) -> None:
        """Put the stand-ins in; a value that a test has patched in stays."""
        self._replace(self.originals, self.stand_ins)

    def put_back(self) -> None:
        """Put the originals back; safe to repeat."""
        self._replace(self.stand_ins, self.originals)

    def _replace(self, held: dict[str, Any], wanted: dict[str, Any]) -> None:
        namespace = self.namespace
        held = {name: value for name, value in held.items() if namespace.get(name) is value}
        namespace.update({name: wanted[name] for name in held})

    def is_open(self) -> bool:
        """Return whether a program would still find an original here."""
        namespace = self.namespace
        return any(namespace.get(name) is value for name, value in self.originals.items())


class _Holders:
    """All holders, exchanged together.

    Nearly always, every name holds its original before a simulation, and its stand-in after it.
    One comparison of all names finds that out. Otherwise each holder looks at its own names.
    """

    def __init__(self, holders: list[_Holder]) -> None:
        self._each = holders
        self._namespaces = [holder.namespace for holder in holders]
        self._readers = [_reader(holder.originals) for holder in holders]
        self._originals = [v for h in holders for v in _reader(h.originals)(h.originals)]
        self._stand_ins = [v for h in holders for v in _reader(h.originals)(h.stand_ins)]
        self._exchanges = [(h.namespace.update, h.stand_ins) for h in holders]
        self._returns = [(h.namespace.update, h.originals) for h in holders]

    def exchange(self) -> bool:
        """Put the stand-ins in. Return whether each name held its original."""
        if self._hold(self._originals):
            for update, stand_ins in self._exchanges:
                update(stand_ins)
            return True
        for holder in self._each:
            holder.exchange()
        return False

    def are_exchanged(self) -> bool:
        """Return whether each name holds its stand-in, as in a border that was kept."""
        return self._hold(self._stand_ins)

    def put_back(self) -> None:
        """Put the originals back; safe to repeat."""
        if self._hold(self._stand_ins):
            for update, originals in self._returns:
                update(originals)
        else:
            for holder in self._each:
                holder.put_back()

    def _hold(self, values: list[Any]) -> bool:
        # By identity: a program may bind the name to an object whose `==` raises, or is no bool.
        # Written for speed: this look at more than 100 names takes no step of Python for each.
        found = chain.from_iterable(map(operator.call, self._readers, self._namespaces))
        try:
            return not any(map(operator.is_not, found, values))
        except KeyError:  # a program has deleted a name
            return False


def _reader(names: Iterable[str]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """Return a function that reads these names; a single name it reads twice.

    With one name, `itemgetter` would return its value in the place of a tuple.
    """
    first, *others = names
    return operator.itemgetter(first, *others or [first])


def _holders_of_methods() -> list[tuple[type, _Holder]]:
    """Return the classes of `_METHODS` with their namespaces, even if written in C.

    A subclass put in the place of `datetime` (as freezegun does) is another object: pydantic then
    refuses a model with the field `at: datetime` that is built inside the simulation.
    """
    holders: dict[type, _Holder] = {}
    for cls, name, stand_in in _METHODS:
        # `setattr` refuses a class written in C, and `__dict__` is a read-only proxy, whose only
        # referent is the dict itself. Where that is not so, the unpacking fails at import. Writing
        # to the type object by offset was rejected: the offsets differ between versions.
        (namespace,) = gc.get_referents(cls.__dict__)
        holder = holders.setdefault(cls, _Holder(namespace, {}, {}))
        holder.originals[name] = namespace[name]
        holder.stand_ins[name] = stand_in
    return list(holders.items())


_CLASSES = _holders_of_methods()
_HOLDERS_OF_METHODS = [holder for _, holder in _CLASSES]
_CHANGED = [ctypes.py_object(cls) for cls, _ in _CLASSES]
_HOMES = {original.__module__ or "random" for original in _FUNCTIONS}
# Python 3.14 stays above the last stamp, which was a real one.
_STAMPS = [name for name in ("_last_timestamp_v6", "_last_timestamp_v7") if name in vars(uuid)]


class _Border:
    """The exchange of originals for stand-ins: by the first seal in the process, until the last.

    A border that is kept stays from one seal to the next.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seals = 0
        self.keepers = 0
        self.modules: tuple[Any, ...] = ()
        self.addresses = b""  # of the modules
        self.found: dict[Any, tuple[Any, _Holder | None]] = {}
        self.holders: list[_Holder] = []
        self.homes: list[_Holder] = []
        self.all = _Holders(_HOLDERS_OF_METHODS)
        self.is_checked = False

    def enter(self, seeds: Seeds) -> None:
        """Exchange everything, or raise and leave everything as it was."""
        with self.lock:
            if self.seals == 0:
                try:
                    self._exchange(seeds)
                except BaseException:
                    self._put_back()
                    raise
            else:
                shared_draws.share()
            self.seals += 1

    def leave(self) -> None:
        """Put everything back after the last seal. Raises ScenarioError for mixed-up draws."""
        with self.lock:
            self.seals -= 1
            mixed = shared_draws.are_mixed()
            if self.seals == 1:
                shared_draws.unshare()
            elif self.seals == 0:
                self._open()
        if mixed:
            raise ScenarioError(
                "several threads run simulations at once, and a default argument or an attribute "
                "holds `random.random` itself, so the order of its numbers is not certain",
                hint="call random.random() by its module, or run the simulations in processes",
            )

    def keep(self) -> None:
        """Let the next seal leave the stand-ins in place, until `let_go`."""
        with self.lock:
            self.keepers += 1

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
        except BaseException:
            self._put_back()  # a Ctrl-C in the middle: it repeats nothing
            raise

    def _exchange(self, seeds: Seeds) -> None:
        refusals.watch_reaches()
        # What is imported while the border is kept binds the stand-ins. So only the number of the
        # modules counts, as in `_open`: to look at each of them takes a twentieth of a short run.
        if not (self.keepers and self.is_checked and len(sys.modules) == len(self.modules)):
            self._scan()
        shared_draws.begin(seeds)
        for stamp in _STAMPS:
            setattr(uuid, stamp, None)
        if self.keepers and self.is_checked and self.all.are_exchanged():
            return
        as_expected = self.all.exchange()
        for cls in _CHANGED:
            _forget_cached_methods(cls)
        if not (as_expected and self.is_checked):
            self._check()

    def _check(self) -> None:
        """Raise InternalError if a program would still find an original."""
        if any(holder.is_open() for holder in (*self.homes, *_HOLDERS_OF_METHODS)):
            raise InternalError("the simulation is not sealed: a real clock is within its reach")
        self.is_checked = True

    def _put_back(self) -> None:
        self.all.put_back()
        for cls in _CHANGED:
            _forget_cached_methods(cls)
        shared_draws.end()

    def _scan(self) -> None:
        """Find where the originals are bound; 500 modules take 2 ms, so each is read once."""
        if self.addresses and addresses(tuple(sys.modules.values())) == self.addresses:
            return
        # A copy first: the tuples of a list may start the garbage collector, and a finalizer that
        # warns imports a module, so that the mapping changes while it is read.
        modules: list[tuple[Any, Any]] = list(sys.modules.copy().items())
        found: dict[Any, tuple[Any, _Holder | None]] = {}
        complete = True
        for name, module in modules:
            known = self.found.get(name)
            if known is not None and known[0] is module:
                found[name] = known
            elif issubclass(type(module), ModuleType) and isinstance(name, str):
                namespace = _namespace_of(module) or {}
                unfinished = _is_being_imported(namespace)  # its globals are not all there yet
                complete = complete and not unfinished
                clocks = str.partition(name, ".")[0] not in _SKIPPED
                found[name] = (None if unfinished else module, _holder_of(namespace, clocks=clocks))
        self._forget_absent(found)
        self.found = found
        self.holders = [holder for _, holder in found.values() if holder is not None]
        self.homes = [
            holder for name, (_, holder) in found.items() if name in _HOMES and holder is not None
        ]
        self.all = _Holders([*self.holders, *_HOLDERS_OF_METHODS])
        self.is_checked = False
        self.modules = tuple([module for _, module in modules]) if complete else ()
        self.addresses = addresses(self.modules)

    def _forget_absent(self, found: dict[Any, tuple[Any, _Holder | None]]) -> None:
        """Put the originals back into modules that are gone; nothing does it later."""
        for name, known in self.found.items():
            if found.get(name) is not known and known[1] is not None:
                known[1].put_back()


# CPython caches the attributes of a class, and does not see a write to its dict. Without this call
# code that has called `datetime.now` before may go on with the original.
_forget_cached_methods = ctypes.pythonapi.PyType_Modified


def _is_being_imported(namespace: dict[str, Any]) -> bool:
    spec = namespace.get("__spec__")
    return type(spec) is ModuleSpec and bool(getattr(spec, "_initializing", False))


def _holder_of(namespace: dict[str, Any], *, clocks: bool) -> _Holder | None:
    """Return the globals to exchange: refused ones and, with `clocks`, answered ones."""
    originals, stand_ins = {}, {}
    for name, value in list(namespace.items()):
        if type(name) is str and type(value) in _KINDS and value in _BY_VALUE:
            original = _BY_VALUE[value]
            stand_in = _FUNCTIONS[original]
            if clocks or original in refusals.FUNCTIONS:
                # Equal is not the same: each `random._inst.random` is another object.
                originals[name] = original if value is stand_in else value
                stand_ins[name] = stand_in
    return _Holder(namespace, originals, stand_ins) if originals else None


_border = _Border()


class sealed:  # noqa: N801 - a context manager, named as one reads it
    """Give code that runs on `loop` the clocks, dates and randomness of the simulation.

    Answered, wherever a module global holds them: the clocks of `time` and `time.sleep`, which
    moves virtual time; dates and local time, in UTC; `os.urandom`, `os.getrandom` and
    `ssl.RAND_bytes`, so `uuid4` and `secrets`; `uuid1`; `random`, with generators that are created
    unseeded. Threads, locks and event loops that are made inside are simulated. Blocking sockets,
    processes and alarms are refused.
    """

    __slots__ = ("_answers", "_interrupts", "_loop", "_outer", "_streams")

    def __init__(self, loop: "VirtualLoop", seeds: Seeds, epoch_ns: int = EPOCH_NS) -> None:
        self._loop = loop
        self._answers = Answers(loop, seeds, epoch_ns)
        self._interrupts = noted_interrupts()
        self._outer: Answers | None = None
        self._streams: tuple[Any, ...] = ()

    def __enter__(self) -> None:
        _border.enter(self._answers.seeds)
        self._streams = enter_streams()
        self._loop.interrupts = self._interrupts.__enter__()
        self._outer = ANSWERS.get(self._loop)
        ANSWERS[self._loop] = self._answers

    def __exit__(self, *_: object) -> None:
        try:
            if self._outer is None:
                ANSWERS.pop(self._loop, None)
            else:
                ANSWERS[self._loop] = self._outer
        finally:
            try:
                self._interrupts.__exit__()
                leave_streams(self._streams)
            finally:
                _border.leave()


@contextlib.contextmanager
def kept_border() -> Iterator[None]:
    """Leave the stand-ins in place between simulations, for many short ones in a row.

    Between them, code of the program calls the originals through the stand-ins, as other threads
    do while a simulation runs. At the end the originals are back.
    """
    _border.keep()
    try:
        yield
    finally:
        _border.let_go()
