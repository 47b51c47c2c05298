"""Simulated threads: every thread of a program in a simulation runs alone, in its turn.

A simulated thread is a real one that runs only while it has the turn, which the event loop's thread
gives. It parks where Python would block: the stand-ins for locks, sleeps and joins call `park`. So
the order of switches depends on the clock and the seed, and nothing here needs a lock.
"""
# ruff: noqa: SLF001 - `threading` keeps the state of a thread in private attributes

import _thread
import asyncio
import contextvars
import functools
import heapq
import itertools
import logging
import queue
import sys
import threading
import time
import types
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import thread as pool_module
from types import FrameType
from typing import Any, NoReturn, cast

from simloop.errors import Deadlock, ScenarioError
from simloop.virtual.clock.instants import NEVER_NS
from simloop.virtual.clock.listener import report_blocking, report_lock
from simloop.virtual.clock.loop import THREADS, VirtualLoop
from simloop.virtual.places import caller, callers_place, place_of_code
from simloop.virtual.real_world import is_exempt, stack

_OF_THREAD = "_simulated_by_simloop"
MOST_ENDS = 100
"""A thread that has caught so many exceptions that should end it never ends."""
LOOK_S = 0.2
LOOKS = 5
"""A thread that has done nothing in so many looks, one second, waits for something real."""
_NOTHING_NS = 1_000_000  # the processor time of a look itself, at most
MAX_WORKERS = 32
"""The size of a pool without `max_workers`: Python's, on a machine with 28 processors or more."""
_PER_RUN = ("max_workers", "thread_name_prefix", "initializer", "initargs")

# The originals: a simulation has others in their places.
_start_thread = _thread.start_new_thread
# New in Python 3.13. Refused in every module while a simulation runs, unless it is wrapped.
_start_joinable: Any = getattr(_thread, "start_joinable_thread", None)
if _start_joinable is not None:
    _start_joinable = functools.partial(_start_joinable)
_make_lock = _thread.allocate_lock
_process_time_ns = time.process_time_ns
_make_queue: Any = queue.SimpleQueue
_make_pool: Any = ThreadPoolExecutor.__init__
_submit = ThreadPoolExecutor.submit


def make_locked() -> Any:
    """Return a real lock that is taken."""
    lock = _make_lock()
    lock.acquire()
    return lock


class _RealThread:
    """A thread of the operating system that can be joined, and for which Python does not wait."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._begun = make_locked()
        self._sentinel: Any = None
        self.handle: Any = None  # Python's; None before Python 3.13
        if _start_joinable is None:
            self.ident: int = _start_thread(self._run, ())
        else:
            self.handle = _start_joinable(self._run, daemon=True)
            self.ident = self.handle.ident

    def _run(self) -> None:
        if _start_joinable is None:
            # A lock that Python releases when the thread is over, and its local data is gone.
            self._sentinel = _thread._set_sentinel()  # type: ignore[attr-defined]
            self._sentinel.acquire()
        self._begun.release()
        self._function()

    def join(self) -> None:
        self._begun.acquire()
        if _start_joinable is None:
            self._sentinel.acquire()
        else:
            self.handle.join()


class ThreadEnded(SystemExit):
    """Ends a thread where it is parked. As a SystemExit, it prints nothing."""


class SimulatedThread:
    """One thread that takes turns: a thread of the program, or that of the event loop."""

    ident = ends = 0
    is_ready = is_timed_out = is_ending = is_done = is_abandoned = False
    waits_for: Any = "its start"
    """The object for which the thread is parked; None while it may run."""
    timer: asyncio.TimerHandle | None = None
    error: BaseException | None = None
    has_heard = False  # such an error
    before: "frozenset[asyncio.Task[Any]]" = frozenset()  # the tasks of its loop at that time
    waited_for: Any = None
    """A lock that it has taken, for how long it waited, and where the holder did. It is told when
    the thread waits, too: one that finds the work done leaves at once."""
    is_main = False  # for the code that runs in it, and so for all that the code opens
    handler: Callable[[], object] | None = None
    """The handler of a signal, which runs where the thread is parked, or where it parks next."""
    back: Any = None
    real: _RealThread | None = None
    """The thread that was made for it; None for the loop's and for one that the run adopts."""

    @property
    def is_worker(self) -> bool:
        """Return whether the program has started it: no stop of a run reaches it."""
        return self.real is not None and not self.is_main

    def __init__(
        self, threads: "Threads", thread: threading.Thread, function: Callable[[], Any]
    ) -> None:
        self.threads = threads
        self.loop = threads.loop
        self.thread = thread
        self.function = function
        self.origin = callers_place()
        self.joiners: list[SimulatedThread] = []
        self._turn = make_locked()

    @property
    def name(self) -> str:
        return self.thread.name

    @property
    def frame(self) -> Any:
        return sys._current_frames().get(self.ident)

    @property
    def place(self) -> str:
        """Return the place in the program where the thread is, or else where it was started."""
        frame = self.frame
        return (callers_place(frame) if frame is not None else "") or self.origin

    def run(self) -> None:
        """Give the thread the turn. Called by the event loop's thread."""
        self.is_ready = False
        self._turn.release()

    def pause(self) -> None:
        """Give the turn back, and wait for the next one. Called by the thread itself."""
        self.back.release()
        self._turn.acquire()

    def check(self) -> None:
        """Raise the exception that ends the thread, or run the handler of a signal, if any."""
        error, self.error = self.error, None
        if self.is_abandoned or self.is_ending:
            self.ends += 1
            if self.ends > MOST_ENDS and not self.is_abandoned:
                self.pause()  # for ever: `end` reports the thread
            raise ThreadEnded
        if error is not None:
            self.has_heard = True
            inner = asyncio._get_running_loop()
            self.before = frozenset(asyncio.all_tasks(inner) if inner is not None else ())
            raise error
        handler, self.handler = self.handler, None
        if handler is not None:
            handler()

    def bootstrap(self) -> None:
        self._turn.acquire()
        self._work()
        self.is_done = True
        if not self.is_abandoned:
            self.threads.has_ended(self)
            self.back.release()

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _work(self) -> None:
        hooks: Any = threading
        try:
            self.waits_for = None
            self.check()
            if hooks._trace_hook:
                sys.settrace(hooks._trace_hook)
            if hooks._profile_hook:
                sys.setprofile(hooks._profile_hook)
            self.function()
        except ThreadEnded:
            pass
        except BaseException:  # noqa: BLE001 - as Python does, for threads
            if not self.is_ending and not self.is_abandoned:
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), self.thread)))
        finally:
            del self.function


def _idles(thread: SimulatedThread, until: Any, pauses: Callable[[], bool] = lambda: False) -> bool:
    """Wait for the lock `until`. Return True if the process does nothing for a second before.

    A thread that computes is never idle, however slow the machine is, nor is one in which a person
    steps through the program. A process that was stopped looks only once in the meantime.
    """
    before_ns, alike = _process_time_ns(), 0
    while not until.acquire(timeout=LOOK_S):
        now_ns = _process_time_ns()
        alike = alike + 1 if now_ns - before_ns < _NOTHING_NS and not pauses() else 0
        before_ns = now_ns
        if alike >= LOOKS and not is_exempt(thread.frame):
            return True
    return False


@types.coroutine
def parked(until_ns: int | None, waits_for: str) -> Generator[Any, bool, bool]:
    """Park the fiber that awaits this, as `Threads.park` parks a thread."""
    return (yield until_ns, waits_for)


class Fiber(SimulatedThread):
    """Code of simloop that takes turns as a thread does, without a thread of its own.

    It is a coroutine that awaits nothing but `parked`. Its turns run in the event loop's thread, so
    that a scripted process costs neither a thread nor a switch between threads.
    """

    name = ""

    def __init__(
        self, threads: "Threads", name: str, coroutine: Coroutine[Any, bool | None, None]
    ) -> None:
        self.threads = threads
        self.loop = threads.loop
        self._starter = caller(sys._getframe(1))  # its words are made when somebody asks
        self.name = name
        self._coroutine = coroutine
        self._begun = False
        self.born = self.loop.progress.callbacks
        """How many callbacks had begun: the same number while the starter has its turn."""

    @property
    def place(self) -> str:
        return "" if self._starter is None else place_of_code(*self._starter)

    def run(self) -> None:
        if self.is_done:
            return
        woken = not self.is_timed_out if self._begun else None
        error, self.error = self.error, None
        self._begun, self.is_ready, self.is_timed_out, self.waits_for = True, False, False, None
        self.stop_timer()
        try:
            wait = self._coroutine.send(woken) if error is None else self._coroutine.throw(error)
        except (StopIteration, ThreadEnded):
            self.end()
            return
        until_ns, self.waits_for = wait
        if until_ns is not None and until_ns < NEVER_NS:
            self.threads._set_timer(self, until_ns)

    def end(self) -> None:
        self.is_done = True
        self.stop_timer()
        if self in self.threads.fibers:
            self.threads.fibers.remove(self)
        self._coroutine.close()


def _forget_worker(thread: threading.Thread) -> None:
    pool_module._threads_queues.pop(thread, None)  # type: ignore[attr-defined]


# Keeps a pool from logging that the end of a run has ended an idle worker.
logging.getLogger("concurrent.futures").addFilter(
    lambda record: record.exc_info is None or record.exc_info[0] is not ThreadEnded
)


class _Workers(dict[threading.Thread, None]):
    """The workers of a pool, which `shutdown` joins one by one: a set is in the order of `id()`."""

    def add(self, thread: threading.Thread) -> None:
        self[thread] = None


class _NumberedFuture(Future[Any]):
    """The future of a pool, whose hash is its number in the run: `wait` returns sets of them."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class Pools:
    """The pools of threads of one run: their workers are simulated threads.

    A pool that was made before the simulation, such as one in a module, has real workers and stays
    as it was, so another takes its work. A pool that was made inside works afterwards.
    """

    def __init__(self) -> None:
        self._own: list[weakref.ref[ThreadPoolExecutor]] = []
        self._in_place_of: dict[ThreadPoolExecutor, ThreadPoolExecutor] = {}
        self._names = self._futures = 0

    def make(self, pool: Any, *given: Any, **named: Any) -> None:
        """Initialize a pool; its name counts per run, and its size is not that of the machine."""
        named |= zip(_PER_RUN, given, strict=False)
        if named.get("max_workers") is None:
            named["max_workers"] = MAX_WORKERS
        if not named.get("thread_name_prefix"):
            named["thread_name_prefix"] = f"ThreadPoolExecutor-{self._names}"
            self._names += 1
        _make_pool(pool, **named)
        pool._threads = _Workers()
        self._own.append(weakref.ref(pool))

    def submit(self, pool: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Submit work to a pool, or to the one in the place of a pool from outside the run."""
        if not any(each() is pool for each in self._own):
            if pool._shutdown:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if pool not in self._in_place_of:
                self._in_place_of[pool] = made = ThreadPoolExecutor.__new__(ThreadPoolExecutor)
                attributes = ((name, getattr(pool, f"_{name}", None)) for name in _PER_RUN)
                self.make(made, **{name: value for name, value in attributes if value})
            pool = self._in_place_of[pool]
        future: Any = _submit(pool, function, *args, **kwargs)
        future.__class__ = _NumberedFuture
        self._futures += 1
        future.number = self._futures
        return future

    def restore(self) -> None:
        """Let the pools that the run has made begin anew, with real threads."""
        for each in self._own:
            pool: Any = each()
            if pool is not None:
                pool._threads = set()
                pool._work_queue = _make_queue()
                pool._idle_semaphore = threading.Semaphore(0)
        self._own.clear()
        self._in_place_of.clear()


class Threads:
    """The threads of one run on a virtual loop; it is made when the run first needs it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.of_loop = SimulatedThread(self, threading.current_thread(), lambda: None)
        self.of_loop.ident = threading.get_ident()
        self.of_loop.waits_for = None
        self.alive: list[SimulatedThread] = []
        self.fibers: list[Fiber] = []
        self.is_over = False
        self.exit_status: int | None = None
        self.has_main = False
        """Whether the main thread is one of the program's, so that the loop's is not."""
        self.numbers = itertools.count(1)
        self.pools = Pools()
        # Event loops whose threads ended while they ran. Nobody runs them again, so they are
        # closed: a function of `atexit` that waits for one would never end.
        self.interrupted: list[asyncio.AbstractEventLoop] = []
        self._ready: list[SimulatedThread] = []
        self._timers: list[tuple[int, int, Any, SimulatedThread]] = []
        self._timer_numbers = itertools.count()
        self._back = make_locked()
        self._is_blocked = False
        self._has_turn = False  # a thread of the program, for which the loop's own waits
        self._watch: _RealThread | None = None
        self._watch_ends = make_locked()
        # Of its own: a context cannot be entered twice, as by a simulation in a thread of another.
        self._context = contextvars.Context()

    def spawn(self, thread: threading.Thread, function: Callable[[], Any]) -> SimulatedThread:
        started = SimulatedThread(self, thread, function)
        started.real = _RealThread(started.bootstrap)  # it waits for its first turn
        started.ident = started.real.ident
        return self._enter(started)

    def adopt(self, thread: threading.Thread, function: Callable[[], Any]) -> SimulatedThread:
        """Return a real thread, which calls `bootstrap`, as one that calls `function` here."""
        adopted = SimulatedThread(self, thread, function)
        assert thread.ident is not None
        adopted.ident = thread.ident
        self.has_main = True
        return self._enter(adopted)

    def _enter(self, thread: SimulatedThread) -> SimulatedThread:
        thread.thread.__dict__[_OF_THREAD] = thread
        # Before the first turn: made during it, the watch would take this thread for a stuck one.
        if self._watch is None:
            self._watch = _RealThread(self._watch_loop)
        THREADS[thread.ident] = thread
        self.alive.append(thread)
        self.wake(thread)
        return thread

    def start_fiber(self, name: str, coroutine: Coroutine[Any, bool | None, None]) -> Fiber:
        started = Fiber(self, name, coroutine)
        self.fibers.append(started)
        self.wake(started)
        return started

    def run_new_fiber(self) -> bool:
        """Give a new fiber its turn if that is next: to change threads takes longer."""
        ready, callbacks = self._ready, self.loop._ready
        if self._is_blocked or len(ready) != 1 or len(callbacks) != 1:
            return False
        fiber = ready[0]
        if type(fiber) is not Fiber or fiber.born != self.loop.progress.callbacks:
            return False
        ready.clear()
        callbacks.clear()
        contextvars.Context().run(fiber.run)
        return True

    def has_ended(self, thread: SimulatedThread) -> None:
        self.alive.remove(thread)
        THREADS.pop(thread.ident, None)
        self.loop.worlds_of_threads.pop(thread.ident, None)
        if thread.real is not None:
            python: Any = threading
            with python._active_limbo_lock:
                python._active.pop(thread.ident, None)
            vars(thread.thread)["_is_stopped"] = True  # before Python 3.13, which has a handle
            _forget_worker(thread.thread)
        for joiner in thread.joiners:
            self.wake(joiner)

    def park_for(self, me: SimulatedThread, seconds: float | None, waits_for: Any) -> bool:
        """Park for some time, at least 1 ns, or without end if `seconds` is None; see `park`."""
        wait_ns = None if seconds is None else max(1, round(seconds * 1e9))
        return self.park(me, None if wait_ns is None else self.loop.now_ns + wait_ns, waits_for)

    def park(self, me: SimulatedThread, until_ns: int | None, waits_for: Any) -> bool:
        """Let others run until `wake`, or until an instant. Return whether `wake` came first.

        `me` is the calling thread. In the event loop's own thread, other threads run and time
        moves for them, but the callbacks of the loop do not run.
        """
        me.check()
        if me.waited_for is not None:
            lock, took_ns, place = me.waited_for
            me.waited_for = None
            if lock.holder is me:
                report_lock(self.loop, took_ns, place)
        if until_ns is not None and me is not self.of_loop and self._pass_time(until_ns):
            return False
        me.waits_for = waits_for
        me.is_timed_out = False
        try:
            if until_ns is not None and until_ns < NEVER_NS:
                self._set_timer(me, until_ns)
            if me is self.of_loop:
                self._block()
            else:
                me.pause()
                while me.handler is not None and not me.is_timed_out:
                    me.check()
                    me.pause()  # as Python does after a handler that raises nothing
        finally:
            me.waits_for = None
            me.stop_timer()
        me.check()
        return not me.is_timed_out

    def _pass_time(self, until_ns: int) -> bool:
        """Move time to `until_ns` if nothing comes before it, which needs no other turn."""
        loop = self.loop
        # While the loop is blocked, neither its callbacks nor its own timers matter.
        others = self._ready or (loop._ready and not self._is_blocked)
        if others or loop.progress.callbacks >= loop.progress.next:
            return False
        next_ns = self._next_timer_ns() if self._is_blocked else loop.next_timer_ns()
        if until_ns > loop._time_limit_ns or (next_ns is not None and next_ns <= until_ns):
            return False
        loop.progress.callbacks += 1
        loop.advance_ns(until_ns - loop.now_ns)
        return True

    @property
    def is_blocking(self) -> bool:
        """Return whether the loop's own thread is parked, so that other threads run."""
        return self.of_loop.waits_for is not None

    def sleep(self, me: SimulatedThread, nanoseconds: int) -> None:
        """Park for some time; for no time, let the other threads run that are ready."""
        until_ns = self.loop.now_ns + nanoseconds
        if nanoseconds:
            self.park(me, until_ns, "time.sleep")
        elif self._ready or me is not self.of_loop:
            me.waits_for = "time.sleep"
            self.wake(me)
            self.park(me, None, "time.sleep")

    def wake(self, thread: SimulatedThread) -> None:
        if thread.waits_for is None or thread.is_ready or thread.is_done or self.is_over:
            return
        thread.is_ready = True
        self._ready.append(thread)
        if thread is not self.of_loop:
            self.loop._ready.append(asyncio.Handle(self._take_turn, (), self.loop, self._context))

    def throw(self, thread: SimulatedThread, error: BaseException) -> None:
        """Raise `error` where the thread is parked, or where it parks next."""
        thread.error = error
        self.wake(thread)

    def exit_program(self, status: int) -> NoReturn:
        """End the main thread and the calling one where they are, with this exit status."""
        self.exit_status = status
        for thread in self.alive:
            if thread.real is None and thread.ident != threading.get_ident():
                self.throw(thread, ThreadEnded())
        raise ThreadEnded

    def _set_timer(self, thread: SimulatedThread, when_ns: int) -> None:
        # Twice: the loop has it among its own timers, and a blocked loop looks at these alone.
        thread.timer = self.loop.call_at_ns(when_ns, self._on_timer, thread, context=self._context)
        heapq.heappush(self._timers, (when_ns, next(self._timer_numbers), thread.timer, thread))

    def _on_timer(self, thread: SimulatedThread) -> None:
        if not thread.is_ready:
            self._time_out(thread)
            self._take_turn()

    def _time_out(self, thread: SimulatedThread) -> None:
        thread.is_timed_out = thread.is_ready = True
        self._ready.append(thread)

    def _take_turn(self) -> None:
        if self._ready:  # a blocked loop may have been here before
            self._run(self._pick())

    def _pick(self) -> SimulatedThread:
        ready, tie = self._ready, self.loop._tie
        return ready.pop(0 if tie is None or len(ready) == 1 else tie() % len(ready))

    def _run(self, thread: SimulatedThread) -> None:
        if type(thread) is Fiber:
            thread.run()
            return
        back = thread.back = self._back
        is_back = False
        self._has_turn = True
        try:
            thread.run()
            # A turn is short. A thread that keeps it longer may wait for something real.
            is_back = back.acquire(timeout=LOOK_S) or not _idles(thread, back)
        except BaseException:  # a Ctrl-C
            if not is_back:
                self._abandon(thread)
            raise
        finally:
            self._has_turn = False
        if not is_back:
            self.loop.escapes.append(self._stuck(thread))
            self._abandon(thread)
        elif thread.is_done and thread.real is not None:
            thread.real.join()

    def _abandon(self, thread: SimulatedThread) -> None:
        """Go on without a thread that waits for something real; it ends when that comes."""
        thread.is_abandoned = self.loop.is_spoilt = True
        self.alive.remove(thread)
        THREADS.pop(thread.ident, None)
        _forget_worker(thread.thread)  # Python would wait for it at exit, without end
        self._back = make_locked()  # the thread gives its turn back to nobody

    def _watch_loop(self) -> None:
        """Watch the event loop's own thread, which may wait for a lock that a parked one holds."""
        while _idles(self.of_loop, self._watch_ends, lambda: self._has_turn):
            if self.loop.is_running() and self.alive:
                self.loop.escapes.append(self._stuck(self.of_loop))
                for thread in tuple(self.alive):  # the one with the lock ends, and releases it
                    self._abandon(thread)
                    thread.run()

    def _stuck(self, thread: SimulatedThread) -> ScenarioError:
        parked = [each for each in self.alive if each.waits_for is not None and each.place]
        held = "".join(f"\n  {each.name} is parked: {each.place}" for each in parked)
        hint = f"\nit may wait for a lock that one of these holds:{held}" if held else ""
        return ScenarioError(
            f"the thread {thread.name} waits in real time at {thread.place or 'an unknown place'}, "
            f"and a simulation moves virtual time only{hint}",
            hint="put a fake in its place; make locks inside the simulation, or do not wait while "
            "holding one",
        )

    def _block(self) -> None:
        loop, me, began_ns = self.loop, self.of_loop, self.loop.now_ns
        self._is_blocked = True
        try:
            while True:
                loop.progress.count(1)
                if not self._ready:
                    self._advance()
                if (thread := self._pick()) is me:
                    break
                self._run(thread)
        finally:
            if me in self._ready:
                self._ready.remove(me)
            me.is_ready = self._is_blocked = False
            report_blocking(loop, loop.now_ns - began_ns)

    def _advance(self) -> None:
        loop, next_ns = self.loop, self._next_timer_ns()
        if next_ns is None:
            found = loop.report("the event loop's thread is blocked, and nothing can wake it")
            loop.escapes.append(error := Deadlock(found))
            raise error
        loop.advance_ns(max(0, next_ns - loop.now_ns))
        _, _, timer, thread = heapq.heappop(self._timers)
        timer.cancel()
        if not thread.is_ready:
            self._time_out(thread)

    def _next_timer_ns(self) -> int | None:
        timers = self._timers
        while timers and (timers[0][2]._cancelled or timers[0][3].timer is not timers[0][2]):
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def at_work(self) -> list[SimulatedThread]:
        frames = sys._current_frames()
        return [thread for thread in self.alive if not _is_idle(frames.get(thread.ident))]

    def interrupt(self, spared: type[threading.Thread]) -> list[SimulatedThread]:
        """End the threads that have something to do where they are parked, and return them.

        Those of the class `spared` go on. So do the workers of anyio, which it keeps for each event
        loop, and the loop goes on.
        """
        own = (each for each in self.at_work() if not isinstance(each.thread, spared))
        found = [each for each in own if not _is_idle(each.frame, "anyio._backends")]
        for each in found:
            self.throw(each, ThreadEnded())
        return found

    def left(self) -> list[tuple[str, str]]:
        """Return the threads for which Python waits at exit, each with its place."""
        return [(each.name, each.place) for each in self.at_work() if not each.thread.daemon]

    def end(self) -> list[str]:
        """End all threads where they are parked. Return the names of those that go on."""
        for fiber in self.fibers[:]:  # first: what a thread waits for in its clean-up is over then
            fiber.end()
        while to_end := [each for each in self.alive if not each.is_ending]:
            for thread in to_end:
                thread.is_ending = True
                self._run(thread)
        self._ready.clear()
        refused = self.alive[:]
        for thread in refused:
            self._abandon(thread)
        self.is_over = True
        for loop in self.interrupted:
            loop.close()
        self.interrupted.clear()
        self.stop_watch()
        self.pools.restore()
        return [thread.name for thread in refused]

    def stop_watch(self) -> None:
        """Stop watching the event loop's thread, which must not end before."""
        if self._watch is not None:
            self._watch_ends.release()
            self._watch.join()
            self._watch = None

    def describe(self) -> Iterator[str]:
        for each in (self.of_loop, *self.alive, *self.fibers):
            if each.waits_for is not None:
                who = f"{'thread ' * (type(each) is SimulatedThread)}{each.name}"
                what = f"waits for {_named(each.waits_for, each)}"
                yield f"  {who}: {', '.join(filter(None, (each.place, what)))}"

    def waiting(self) -> Iterator[tuple[str, str, str, asyncio.TimerHandle | None]]:
        """Yield for each parked thread: sleep or thread, its name, its place, its timer."""
        for each in (self.of_loop, *self.at_work()):
            if each.waits_for is not None:
                what = "sleep" if each.waits_for == "time.sleep" else "thread"
                yield what, each.name, each.place, each.timer


def simulated(thread: threading.Thread) -> SimulatedThread | None:
    """Return the simulated thread of a thread; None if it was started outside, or not yet."""
    return thread.__dict__.get(_OF_THREAD)


def threads_of(loop: VirtualLoop) -> Threads:
    """Return the threads of the run on a loop; the first call makes their scheduler."""
    if loop.threads is None:
        loop.threads = Threads(loop)
    return cast("Threads", loop.threads)


def thread_here() -> SimulatedThread | None:
    """Return the simulated thread of the calling code; None outside of simulations."""
    running = asyncio._get_running_loop()
    if isinstance(running, VirtualLoop):
        return None if running.answers is None else threads_of(running).of_loop
    return cast("SimulatedThread | None", THREADS.get(threading.get_ident()))


def _named(waits_for: Any, thread: SimulatedThread) -> str:
    if isinstance(waits_for, str):
        return waits_for
    holder = waits_for.holder
    # A condition waits for a lock that it has taken itself, so the two look alike.
    if holder is None or holder is thread:
        return "a notification, or a lock that it has taken itself"
    return f"a lock that {holder.name} has taken{' and never released' * holder.is_done}"


def _is_idle(frame: FrameType | None, pools: str = "concurrent.futures.thread") -> bool:
    """Return whether the thread with this frame is a worker of a pool that waits for work."""
    for each in stack(frame):
        module = str(each.f_globals.get("__name__"))
        if module.partition(".")[0] not in {"simloop", "threading", "queue"}:
            return module.startswith(pools)
    return False
