"""The observation of a program in a simulation: which gaps of the border it uses, and where.

Not here: the list of gaps (gaps.py) and what is printed (cli/audit.py). The rule to keep: a use is
reported only where it was seen; nothing is guessed. A profile function sees every
call of the thread, and an audit hook sees what happens inside of Python.
"""

import gc
import os
import queue
import random
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from types import BuiltinFunctionType, FrameType, FunctionType
from typing import Any

from simloop.virtual.answers import FUNCTIONS
from simloop.virtual.reaches import is_exempt
from simloop.virtual.waiting import callers_place

_EVENTS = {
    "files": "open os.listdir os.scandir os.remove os.rename os.mkdir os.rmdir os.truncate"
    " shutil.copyfile tempfile.mkstemp tempfile.mkdtemp sqlite3.connect",
    "ctypes": "ctypes.dlopen ctypes.dlsym ctypes.call_function",
    "input": "builtins.input",
    "machine": "socket.gethostname subprocess.Popen",
}
_GAP_OF_EVENT = {event: gap for gap, events in _EVENTS.items() for event in events.split()}
_C_FUNCTIONS = {
    "machine": "posix.getpid posix.getppid posix.uname posix.cpu_count posix.getlogin"
    " posix.getloadavg posix.getuid posix.sysconf",
    "locale": "_locale.setlocale _locale.localeconv _locale.nl_langinfo _locale.strxfrm",
    "identity": "builtins.id",
    "files": "posix.stat posix.lstat posix.access posix.readlink posix.getcwd",
    "older-sockets": "posix.read posix.write",
}
_SOCKET_METHODS = {"accept", "send", "sendall", "recv", "recv_into", "recvfrom", "recvmsg"}
# They wait with real clocks on purpose, or belong to the simulation.
_REAL_CLOCKS = {"simloop", "asyncio", "threading", "queue", "concurrent", "selectors"}
# Reading source and bytecode is no work of the program.
_IMPORTING = {"importlib", "zipimport", "linecache", "tokenize", "pkgutil", "runpy"}


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
    threading.Condition.wait.__code__: "locks",
    threading.Thread.join.__code__: "locks",
    queue.Queue.get.__code__: "locks",
    uuid.getnode.__code__: "machine",
}
_DRAWS = {
    value.__code__ for value in vars(random.Random).values() if isinstance(value, FunctionType)
}
_LOCK = type(threading.Lock())
_GENERATOR: Any = random.random.__self__  # type: ignore[attr-defined]


class Observer:
    """Notes what a program does inside `observing`.

    `uses` has, for each gap and each place in the program, the subjects of the uses (the name of a
    file, a variable or a function) and how often each occurred.
    """

    def __init__(self) -> None:
        self.uses: dict[str, dict[str, Counter[str]]] = {}
        self._watching = 0
        self._c_functions = _c_functions()

    @contextmanager
    def observing(self) -> Iterator[None]:
        """Observe the calling thread."""
        sys.addaudithook(self._on_event)
        self._watching = threading.get_ident()
        sys.setprofile(self._on_call)
        try:
            yield
        finally:
            sys.setprofile(None)
            self._watching = 0

    def _note(self, gap: str, frame: FrameType | None, subject: str) -> None:
        place = callers_place(frame)
        if place:
            self.uses.setdefault(gap, {}).setdefault(place, Counter())[subject] += 1

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        gap = _GAP_OF_EVENT.get(event)
        if gap is None or self._watching != threading.get_ident():
            return
        frame = sys._getframe(1)  # noqa: SLF001 - the stack is the question
        if event == "subprocess.Popen" and not is_exempt(frame):
            return  # it is refused
        if not _is_importing(frame):
            named = args and isinstance(args[0], str | os.PathLike)
            self._note(gap, frame, os.fspath(args[0]) if named else event)

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
            if gap is not None and not (gap == "environment" and _is_importing(frame)):
                variable = frame.f_locals.get("key") if gap == "environment" else None
                self._note(gap, frame.f_back, os.fsdecode(variable or code.co_qualname))

    def _on_c_call(self, frame: FrameType, function: Any) -> None:
        module = _module_of(frame)
        if module.partition(".")[0] == "simloop":
            return
        try:
            gap = self._c_functions.get(function)
            held = function in FUNCTIONS
        except TypeError:  # a method of something that has no hash
            return
        if held and module.partition(".")[0] not in _REAL_CLOCKS:
            gap = "held-clocks"
        elif gap == "identity" and not callers_place(frame).startswith(_file_of(frame)):
            return  # a library asks for it, and hardly to decide by it
        elif gap == "files" and _is_importing(frame):
            return
        elif gap is None:
            gap = _gap_of_method(function)
            if gap == "locks" and module.partition(".")[0] in _REAL_CLOCKS:
                return  # `_GAP_OF_CODE` has the waits of Python's own
        if gap is not None:
            self._note(gap, frame, function.__name__)


def _gap_of_method(method: Any) -> str | None:
    """Return the gap of a method written in C; locks and queues count only on a wait."""
    name: str = getattr(method, "__name__", "")
    owner: Any = getattr(method, "__self__", None)
    kind = type(owner)
    if name in _SOCKET_METHODS and kind.__module__ in {"socket", "_socket", "ssl"}:
        return "older-sockets"
    if name in {"poll", "control"} and kind.__module__ == "select":
        return "older-sockets"
    if name == "acquire" and kind is _LOCK and owner.locked():
        return "locks"
    if name == "get" and kind is queue.SimpleQueue and owner.empty():
        return "locks"
    if name.startswith("read") and owner is not None and owner is sys.stdin:
        return "input"
    return None


def _file_of(frame: FrameType) -> str:
    return frame.f_code.co_filename.replace("\\", "/").rpartition("/")[2] + ":"


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_qualname != "VirtualLoop.run":
        if _module_of(frame).lstrip("_").partition(".")[0] in _IMPORTING:
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
