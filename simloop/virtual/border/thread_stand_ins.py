"""The stand-ins for Python's threads and locks, which code of a simulation gets in their place.

Outside of a simulation, and for objects that were made outside, every stand-in calls the original.
"""
# ruff: noqa: SLF001 - `threading` keeps the state of a thread in private attributes

import _thread
import asyncio
import functools
import queue
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import GenericAlias
from typing import Any

from simloop.virtual.border.answers import Answers, answers_here, stand_in
from simloop.virtual.clock.listener import report_lock
from simloop.virtual.places import shares_code
from simloop.virtual.threads.calls import InnerLoop
from simloop.virtual.threads.scheduler import SimulatedThread, simulated, thread_here, threads_of

_threading: Any = threading
_make_lock = _thread.allocate_lock
_JOIN: Any = threading.Thread.join
_MAIN_THREAD, _SIGNAL = (threading.main_thread,), (signal.signal,)
_IS_ALIVE: Any = threading.Thread.is_alive


class SimulatedLock:
    """A lock as `threading.Lock` makes it: a wait for it parks the thread on virtual time.

    Everything in Python that blocks is built on locks: events, conditions, semaphores, barriers,
    queues and futures. A lock that outlives its simulation, such as that of a logging handler, is a
    real lock for all code outside. `holder` is the simulated thread that has taken it.
    """

    __slots__ = ("__weakref__", "_heir", "_losers", "_real", "_waiters", "holder")

    def __init__(self) -> None:
        self._real = _make_lock()
        self.holder: SimulatedThread | None = None
        self._waiters: list[SimulatedThread] = []
        self._losers: set[SimulatedThread] = set()
        self._heir: SimulatedThread | None = None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 - as in Python
        may_wait = blocking and (timeout > 0 or timeout == -1)
        if self._real.acquire(False) if may_wait else self._real.acquire(blocking, timeout):  # noqa: FBT003
            self.holder = thread_here()
            return True
        if not may_wait:
            return False
        if (me := thread_here()) is None or self._is_held_outside(me):
            taken = self._real.acquire(True, timeout)  # noqa: FBT003
            self.holder = me if taken else self.holder
            return taken
        return self._wait(me, timeout)

    def _is_held_outside(self, me: SimulatedThread) -> bool:
        holder = self.holder
        return holder is None or (holder.threads is not me.threads and not holder.threads.is_over)

    def _wait(self, me: SimulatedThread, timeout: float) -> bool:
        threads, holder, begin_ns = me.threads, self.holder, me.loop.now_ns
        place, is_same_work = "", False
        if holder is not None and holder is not me:
            place, is_same_work = holder.place, shares_code(holder.frame)
        until_ns = None if timeout == -1 else me.loop.now_ns + max(1, round(timeout * 1e9))
        self._waiters.append(me)
        try:
            while threads.park(me, until_ns, self):
                if self._heir is me or self._real.acquire(False):  # noqa: FBT003
                    self._heir, self.holder = None, me
                    took_ns = me.loop.now_ns - begin_ns
                    if is_same_work:  # perhaps done by now: the first one has made it for all
                        me.waited_for = self, took_ns, place
                    elif place:  # else a lock that its own holder waits for, as in a condition
                        report_lock(me.loop, took_ns, place)
                    return True
                # Another thread was faster. It must not be so for ever (see `release`).
                self._losers.add(me)
            return False
        finally:
            self._leave(me)

    def _leave(self, me: SimulatedThread) -> None:
        self._waiters.remove(me)
        self._losers.discard(me)
        if self._heir is me:  # an exception ended the wait
            self._heir = None
            self.release()
        elif self._waiters and not self._real.locked():
            self._wake()

    def _wake(self) -> None:
        first = self._waiters[0]
        first.threads.wake(first)

    def release(self) -> None:
        """Release the lock, and make the thread ready that has waited for it the longest.

        As in Python, another thread may take the lock before that one has its turn. If that has
        happened once, the lock is handed over, so a thread that takes the lock again and again
        cannot keep it for ever.
        """
        waiters, holder = self._waiters, self.holder
        if holder is not None and holder.waited_for is not None:
            holder.waited_for = None
        if waiters and waiters[0] in self._losers and self._real.locked():
            self._heir = self.holder = waiters[0]
            self._wake()
            return
        self.holder = None
        self._real.release()
        if waiters:
            self._wake()

    def locked(self) -> bool:
        return self._real.locked()

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()

    _at_fork_reinit = __init__


def _start(answers: Answers, thread: Any) -> None:
    if not thread._initialized:
        raise RuntimeError("thread.__init__() not called")
    if thread._started.is_set():
        raise RuntimeError("threads can only be started once")

    def run() -> None:
        if hasattr(thread, "_native_id"):
            thread._native_id = threading.get_native_id()
        thread.run()

    context = getattr(thread, "_context", None)  # Python 3.14 runs a thread in a context
    begin = run if context is None else functools.partial(context.run, run)
    started = threads_of(answers.loop).spawn(thread, begin)
    thread._ident = started.ident
    if started.real is not None and started.real.handle is not None:
        thread._handle = started.real.handle
    with _threading._active_limbo_lock:
        _threading._active[started.ident] = thread
    thread._started.set()


def _join(thread: Any, timeout: float | None = None) -> None:
    if (joined := simulated(thread)) is None:
        _JOIN(thread, timeout)
        return
    if thread is threading.current_thread():
        raise RuntimeError("cannot join current thread")
    if (me := thread_here()) is None or joined.is_done:
        return
    joined.joiners.append(me)
    try:
        if timeout is None or timeout > 0:
            me.threads.park_for(me, timeout, f"the end of {thread.name}")
    finally:
        joined.joiners.remove(me)


def _is_alive(thread: Any) -> bool:
    started = simulated(thread)
    return bool(_IS_ALIVE(thread)) if started is None else not started.is_done


def home() -> str:
    """Return the name of the calling thread, or an empty text for one that stands for the main one.

    Those are the thread of the event loop, and one in which an agent or a test is called that is
    not async. Code outside of simulations, such as that of a module, belongs there, too.
    """
    me = thread_here()
    return "" if me is None or me.is_main or me is me.threads.of_loop else me.name


def _main_thread(_: Answers) -> threading.Thread:
    me = thread_here()
    return me.thread if me is not None and me.is_main else _MAIN_THREAD[0]()


def _signal(_: Answers, number: Any, handler: Any) -> Any:
    if (me := thread_here()) is None or not me.is_main:
        return _SIGNAL[0](number, handler)
    return signal.getsignal(number)  # nobody sends one: alarms and real processes are refused


def _enumerate(answers: Answers) -> list[threading.Thread]:
    threads = threads_of(answers.loop)
    of_loop = () if threads.has_main else (threads.of_loop,)
    return [each.thread for each in (*of_loop, *threads.alive)]


class StandInType(type):
    """The type of the stand-ins for classes: a call makes a simulated object, or a real one."""

    original: type
    simulated: Callable[..., Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return (cls.original if answers_here() is None else cls.simulated)(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (cls.original, SimulatedLock, queue._PySimpleQueue))  # type: ignore[attr-defined]


def _class_stand_in(original: type, simulated: Callable[..., Any]) -> StandInType:
    names: dict[str, Any] = {
        "__doc__": original.__doc__, "__module__": original.__module__, "original": original,
        "__class_getitem__": classmethod(GenericAlias), "simulated": staticmethod(simulated),
    }  # fmt: skip
    return StandInType(original.__name__, (), names)


FUNCTIONS: dict[Any, Any] = {
    original: stand_in(original, answer)
    for original, answer in (
        (_thread.allocate_lock, lambda _: SimulatedLock()),
        (_thread.allocate, lambda _: SimulatedLock()),
        # Written in Python, around a lock that is simulated in here.
        (threading.RLock, lambda _: _threading._RLock()),
        (threading.main_thread, _main_thread), (signal.signal, _signal),
        (threading.enumerate, _enumerate),
        (threading.active_count, lambda answers: len(_enumerate(answers))),
        (_threading._newname, lambda answers, name="Thread-%d":
            name % next(threads_of(answers.loop).numbers)),
    )
} | {
    _thread.RLock: _class_stand_in(_thread.RLock, _threading._RLock),
    queue.SimpleQueue: _class_stand_in(queue.SimpleQueue, queue._PySimpleQueue),  # type: ignore[attr-defined]
}  # fmt: skip
if isinstance(threading.Lock, type):  # since Python 3.13
    FUNCTIONS[threading.Lock] = _class_stand_in(threading.Lock, SimulatedLock)

_EVENTS = vars(asyncio.events)  # Python 3.14 deprecates policies, and has renamed this one
_POLICY: Any = _EVENTS.get("_BaseDefaultEventLoopPolicy") or _EVENTS["BaseDefaultEventLoopPolicy"]


def _method(cls: type, name: str, answer: Callable[..., Any]) -> tuple[type, str, Any]:
    return cls, name, stand_in(cls.__dict__[name], answer)


def _of_pools(name: str) -> Callable[..., Any]:
    return lambda answers, *args, **kw: getattr(threads_of(answers.loop).pools, name)(*args, **kw)


METHODS: tuple[tuple[type, str, Any], ...] = (
    _method(threading.Thread, "start", _start),
    (threading.Thread, "join", functools.wraps(_JOIN)(_join)),
    (threading.Thread, "is_alive", functools.wraps(_IS_ALIVE)(_is_alive)),
    _method(ThreadPoolExecutor, "__init__", _of_pools("make")),
    _method(ThreadPoolExecutor, "submit", _of_pools("submit")),
    _method(_POLICY, "new_event_loop", lambda answers, _: InnerLoop(answers.loop)),
)
