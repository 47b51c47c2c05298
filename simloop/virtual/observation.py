"""The observation of a program in a simulation: which gaps of the border it uses, and where.

Not here: the list of gaps (gaps.py) and what is printed (cli/audit.py). The rule to keep: a use is
reported only where it was seen; nothing is guessed. A profile function sees every
call of its thread, and an audit hook sees what happens inside of Python.
"""

import datetime as dt
import gc
import os
import platform
import queue
import random
import re
import stat
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from simloop.virtual.answers import FUNCTIONS, strftime_now
from simloop.virtual.reaches import is_exempt
from simloop.virtual.waiting import callers_place

_EVENTS = {
    "files": "open os.listdir os.scandir os.remove os.rename os.mkdir os.rmdir os.truncate os.chdir"
    " os.chmod os.chown os.link os.symlink os.utime os.lockf fcntl.flock fcntl.lockf"
    " shutil.copyfile tempfile.mkstemp tempfile.mkdtemp sqlite3.connect",
    "ctypes": "ctypes.dlopen ctypes.dlsym ctypes.call_function",
    "input": "builtins.input",
    "machine": "socket.gethostname socket.getservbyname socket.getservbyport subprocess.Popen",
}
_GAP_OF_EVENT = {event: gap for gap, events in _EVENTS.items() for event in events.split()}
_C_FUNCTIONS = {
    "machine": "posix.getpid posix.getppid posix.uname posix.cpu_count posix.getlogin"
    " posix.getloadavg posix.getuid posix.geteuid posix.getgid posix.getegid posix.getgroups"
    " posix.sysconf posix.confstr posix.sched_getaffinity posix.process_cpu_count pwd.getpwuid"
    " resource.getrusage resource.getrlimit _socket.if_nameindex",
    "locale": "_locale.setlocale _locale.localeconv _locale.nl_langinfo _locale.strxfrm"
    " _locale.strcoll _locale.getencoding",
    "identity": "builtins.id",
    "signals": "_signal.signal _signal.set_wakeup_fd",
    "files": "posix.stat posix.lstat posix.fstat posix.statvfs posix.access posix.readlink"
    " posix.getcwd posix.mkfifo",
    "pipes": "posix.read posix.readv posix.write posix.writev posix.splice posix.pipe posix.pipe2"
    " posix.openpty posix.eventfd posix.eventfd_read posix.get_terminal_size",
}
# A format that the locale changes; `%%` stands for a percent sign.
_LOCAL = re.compile(r"(?:[^%]|%[^aAbBchprxX])*%[aAbBchprxX]", re.DOTALL)
_ZONE = {"tzname", "timezone", "altzone", "daylight"}
_WAITS = {"acquire", "__enter__"}
# They wait with real clocks on purpose, or belong to the simulation.
_REAL_CLOCKS = {"simloop", "asyncio", "threading", "queue", "concurrent", "selectors"}
# Reading source and bytecode is no work of the program.
_IMPORTING = {"importlib", "zipimport", "linecache", "tokenize", "pkgutil", "runpy"}
# Reading a date, whatever its format, asks for the locale and the time zone.
_PARSING = {"strptime"}
# Each event loop of asyncio reads it, so that `asyncio.run` in a thread would be a use.
_OF_EACH_LOOP = "PYTHONASYNCIODEBUG"
_ASIDE = {"files": _IMPORTING, "locale": _PARSING}


def _c_functions() -> dict[Any, str]:
    found: dict[Any, str] = {}
    for gap, names in _C_FUNCTIONS.items():
        for name in names.split():
            module, _, attribute = name.partition(".")
            function = getattr(sys.modules.get(module), attribute, None)
            if function is not None:
                found[function] = gap
    return found


_GAP_OF_CODE = {
    os.environ.__getitem__.__func__.__code__: "environment",  # type: ignore[attr-defined]
    uuid.getnode.__code__: "machine",
    uuid.uuid1.__code__: "held-clocks",  # on a sealed loop, the stand-in never calls the original
    platform.uname.__code__: "machine",
    platform._sys_version.__code__: "machine",  # type: ignore[attr-defined]  # noqa: SLF001
    os._Environ.__iter__.__code__: "environment",  # noqa: SLF001 - its class has no other name
}
_READS: Any = import_module("_strptime")._strptime.__code__  # noqa: SLF001 - for all three
# Their formats decide: without a name of a day or month, the locale changes nothing.
_FORMATS: dict[Any, Callable[[dict[str, Any]], Any]] = {
    strftime_now.__code__: lambda known: known["args"][0],
    _READS: lambda known: known["format"],
}
_DRAWS = {
    value.__code__ for value in vars(random.Random).values() if isinstance(value, FunctionType)
}
_LOCKS = {"lock", "RLock", "SemLock"}
_SIMPLE_QUEUE = queue.SimpleQueue  # a simulation has another in `queue`
_RLOCK = type(threading.RLock())
_GENERATOR: Any = random.random.__self__  # type: ignore[attr-defined]


class Observer:
    """Notes what a program does inside `observing`.

    `uses` has, for each gap and each place in the program, the subjects of the uses (the name of a
    file, a variable or a function) and how often each occurred.
    """

    def __init__(self) -> None:
        self.uses: dict[str, dict[str, Counter[str]]] = {}
        self._watching = False
        self._c_functions = _c_functions()
        self._collects = set[CodeType | None]()

    @contextmanager
    def observing(self) -> Iterator[None]:
        """Observe the calling thread, and the threads that it starts."""
        _add_hook()
        # Of a tool that measures, such as Hypothesis: not called by the program, but at its places.
        self._collects = {getattr(each, "__code__", None) for each in gc.callbacks}
        self._watching = True
        _OBSERVERS[threading.get_ident()] = self
        plain, time.__class__ = time.__class__, self._watched_time()
        earlier = threading.getprofile()
        threading.setprofile(self._on_call_in_thread)
        sys.setprofile(self._on_call)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(earlier)
            time.__class__ = plain
            self._watching = False
            for ident in [each for each, observer in _OBSERVERS.items() if observer is self]:
                del _OBSERVERS[ident]

    def _watched_time(self) -> type[ModuleType]:
        """Return a type for the module `time` that notes who reads the time zone."""
        observer = self

        class WatchedTime(ModuleType):
            def __getattribute__(self, name: str) -> Any:
                if name in _ZONE and _OBSERVERS.get(threading.get_ident()) is observer:
                    frame = sys._getframe(1)  # noqa: SLF001 - the stack is the question
                    if not _is_inside(frame, _PARSING):
                        observer._note("time-zone", frame, f"time.{name}")
                return super().__getattribute__(name)

        return WatchedTime

    def _note(self, gap: str, frame: FrameType | None, subject: str) -> None:
        place = callers_place(frame)
        if place and frame is not None and frame.f_code not in self._collects:
            self.uses.setdefault(gap, {}).setdefault(place, Counter())[subject] += 1

    def on_event(self, event: str, args: tuple[Any, ...], frame: FrameType) -> None:
        """Note an audit event of an observed thread that is a gap."""
        gap = _GAP_OF_EVENT[event]
        if event == "subprocess.Popen" and not is_exempt(frame):
            return  # it is refused
        if not _is_importing(frame):
            named = args and isinstance(args[0], str | os.PathLike)
            self._note(gap, frame, os.fspath(args[0]) if named else event)

    def _on_call_in_thread(self, frame: FrameType, event: str, function: Any) -> None:
        if self._watching:  # a thread may go on after the observation
            _OBSERVERS[threading.get_ident()] = self
            self._on_call(frame, event, function)

    def _on_call(self, frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call":
            self._on_c_call(frame, function)
        elif event == "call":
            code = frame.f_code
            gap = _GAP_OF_CODE.get(code)
            if gap is None and code in _DRAWS and frame.f_locals.get("self") is _GENERATOR:
                gap = "held-clocks"
            if gap is None and _module_of(frame).startswith("zoneinfo"):
                gap = "time-zone"
            if code in _FORMATS and (code is _READS or not _is_inside(frame.f_back, _PARSING)):
                text = _FORMATS[code](frame.f_locals)
                if isinstance(text, str) and _LOCAL.match(text):
                    self._note("locale", frame.f_back, text)
            if gap is not None and not (gap == "environment" and _is_importing(frame)):
                variable = frame.f_locals.get("key") if gap == "environment" else None
                subject = os.fsdecode(variable or code.co_qualname)
                if subject != _OF_EACH_LOOP:
                    self._note(gap, frame.f_back, subject)

    def _on_c_call(self, frame: FrameType, function: Any) -> None:
        module = _module_of(frame)
        if module.partition(".")[0] == "simloop":
            return
        try:
            gap = self._c_functions.get(function)
            held = function in FUNCTIONS or _is_held_date(function)
        except TypeError:  # a method of something that has no hash
            return
        if held and module.partition(".")[0] not in _REAL_CLOCKS:
            gap = "held-clocks"
        elif gap == "identity" and not callers_place(frame).startswith(_file_of(frame)):
            return  # a library asks for it, and hardly to decide by it
        elif gap in _ASIDE and _is_inside(frame, _ASIDE[gap]):
            return
        elif gap is None:
            gap = _gap_of_method(function)
            if gap == "locks" and module.partition(".")[0] in _REAL_CLOCKS:
                return  # `_GAP_OF_CODE` has the waits of Python's own
        if gap is not None:
            self._note(gap, frame, function.__name__)


_OBSERVERS: dict[int, Observer] = {}
"""The observer of each observed thread."""


@cache
def _add_hook() -> None:
    """Add the audit hook of the process, once: Python has no way to remove it."""
    sys.addaudithook(_on_event)


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    if event in _GAP_OF_EVENT and threading.get_ident() in _OBSERVERS:
        frame = sys._getframe(1)  # noqa: SLF001 - the stack is the question
        _OBSERVERS[threading.get_ident()].on_event(event, args, frame)


def _is_held_date(function: Any) -> bool:
    """Return whether this is an original such as `datetime.now`, bound before the simulation."""
    owner = getattr(function, "__self__", None)
    return (
        type(function) is BuiltinFunctionType
        and isinstance(owner, type)
        and issubclass(owner, dt.date)
        and function.__name__ in {"now", "utcnow", "today", "fromtimestamp"}
    )


def _gap_of_method(method: Any) -> str | None:
    """Return the gap of a method written in C; locks and queues count only on a wait."""
    name: str = getattr(method, "__name__", "")
    owner: Any = getattr(method, "__self__", None)
    kind = type(owner)
    if name in _WAITS and kind.__name__ in _LOCKS and _is_taken(owner):
        return "locks"
    if name == "get" and kind is _SIMPLE_QUEUE and owner.empty():
        return "locks"
    if name.startswith("read") and owner is not None and owner is sys.stdin:
        return "input"
    if name.startswith(("read", "write")) and kind.__module__ == "_io":
        return _gap_of_file(owner, reads=name.startswith("read"))
    return None


def _is_taken(lock: Any) -> bool:
    """Return whether a caller has to wait for the lock."""
    if type(lock).__name__ == "SemLock":
        return bool(lock._is_zero())  # noqa: SLF001 - it has no other method
    if isinstance(lock, _RLOCK):  # `locked` is new in Python 3.14
        return not lock._is_owned() and repr(lock).startswith("<locked")  # type: ignore[attr-defined]  # noqa: SLF001
    return bool(lock.locked())


def _gap_of_file(file: Any, *, reads: bool) -> str | None:
    """Return the gap of an open file; what a program prints is not one."""
    try:
        number = file.fileno()
        mode = os.fstat(number).st_mode
    except (OSError, ValueError):  # it is in memory, or closed
        return None
    if number <= 2:  # noqa: PLR2004 - stdin, stdout and stderr
        return "input" if reads else None
    return None if stat.S_ISREG(mode) else "pipes"


def _file_of(frame: FrameType) -> str:
    return frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2] + ":"


def _module_of(frame: FrameType | None) -> str:
    return "" if frame is None else str(frame.f_globals.get("__name__"))


def _is_importing(frame: FrameType | None) -> bool:
    return _is_inside(frame, _IMPORTING)


def _is_inside(frame: FrameType | None, modules: AbstractSet[str]) -> bool:
    """Return whether code of these modules of Python is on the stack, leading underscores aside."""
    while frame is not None and frame.f_code.co_qualname != "VirtualLoop.run":
        if _module_of(frame).lstrip("_").partition(".")[0] in modules:
            return True
        frame = frame.f_back
    return False


def held_clocks() -> list[str]:
    """Return the default arguments and class attributes of packages that hold an original."""
    originals = set(FUNCTIONS)
    holders = [
        holder for holder in gc.get_referrers(*originals) if type(holder) in {tuple, dict}
    ]  # one search for all of them: each goes through every object of the process
    found: set[str] = set()
    for owner in gc.get_referrers(*holders):
        if type(owner) is FunctionType:
            found |= set(_defaults_of(owner, originals))
        elif isinstance(owner, type):
            found |= set(_attributes_of(owner, originals))
    return sorted(found)


def _defaults_of(function: FunctionType, originals: set[Any]) -> Iterator[str]:
    values = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    for value in values:
        if type(value) is BuiltinFunctionType and value in originals:
            yield from _held_by(function, f"a default argument of {{}} holds {value.__name__}")


def _attributes_of(cls: type, originals: set[Any]) -> Iterator[str]:
    for name, value in list(vars(cls).items()):
        if type(value) is BuiltinFunctionType and value in originals:
            yield from _held_by(cls, f"the attribute {name} of {{}} holds {value.__name__}")


def _held_by(holder: Any, sentence: str) -> Iterator[str]:
    module = str(holder.__module__)
    if module.partition(".")[0] not in sys.stdlib_module_names | {"simloop"}:
        yield sentence.format(f"{module}.{holder.__qualname__}")


def extension_modules(before: set[str]) -> list[str]:
    """Return the packages with modules written in C that were loaded since `before`."""
    names = {
        name.partition(".")[0]
        for name, module in list(sys.modules.items())
        if name not in before
        and str(getattr(getattr(module, "__spec__", None), "origin", "")).endswith(
            tuple(EXTENSION_SUFFIXES)
        )
    }
    return sorted(names - sys.stdlib_module_names)


def other_threads() -> list[str]:
    """Return the names of the threads that run beside the calling one."""
    return [t.name for t in threading.enumerate() if t is not threading.current_thread()]
