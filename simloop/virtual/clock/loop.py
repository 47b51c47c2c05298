"""The event loop of virtual time; `simloop.virtual.clock` explains how it works."""
# ruff: noqa: SLF001 - a loop works on the private slots of handles and tasks, as asyncio's own do
# typeshed ties the type of a callback to its arguments; a loop passes both on unseen.
# mypy: disable-error-code="override"

import asyncio
import contextlib
import ctypes
import functools
import heapq
import random
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from itertools import count, islice
from typing import Any, TypeVar, cast

from simloop.errors import Deadlock, RunawayRun, ScenarioError, SimloopError
from simloop.virtual.clock import tasks
from simloop.virtual.clock.instants import EXACT_S, NEVER_NS, NEVER_S, SECOND_NS, clock_text
from simloop.virtual.clock.listener import hear_timer, report_blocking
from simloop.virtual.clock.transports import ReachingLoop, Watches, refuse_methods
from simloop.virtual.places import MOST_NAMED, askers_place, place_of_callback, where_it_waits
from simloop.virtual.progress import Progress
from simloop.virtual.real_world import ADVICE, noted_interrupts, stack

T = TypeVar("T")
Task = asyncio.Task[Any]
Timer = asyncio.TimerHandle
Handle = asyncio.Handle

MAX_VIRTUAL_NS = 10 * 365 * 86_400 * SECOND_NS
# asyncio says these from a `__del__` written in C.
_SAID_BY_DEL = ("exception was never retrieved", "was destroyed but it is pending!")
_keep_for_ever = ctypes.pythonapi.Py_IncRef

THREADS: dict[int, Any] = {}
"""The simulated thread (threads/scheduler.py) of each identifier of a real one.

It is the only registry of the code that belongs to a run: a thread runs no loop, or one of its own.
Everything else of a run hangs on the loop.
"""


def loop_here() -> "VirtualLoop | None":
    """Return the virtual loop of the run that the calling code belongs to; None outside of runs."""
    running = asyncio._get_running_loop()
    if isinstance(running, VirtualLoop):
        return running
    thread = THREADS.get(threading.get_ident()) if THREADS else None
    return None if thread is None else thread.loop


class VirtualLoop(ReachingLoop):
    """One simulation at a time, in one thread; `run` leaves the loop ready for the next.

    `now_ns` is virtual time since the start of the run. `escapes` are the errors raised where the
    program reached for the real world: the run fails with the first, even if it was swallowed.
    With `shuffle_seed`, timers of one instant fire in an order drawn from that seed. Packages above
    keep here what belongs to the run: the border `answers` and `output`, the world its `worlds`.
    """

    _ready: deque[Handle]
    _thread_id: int | None

    shuffle_seed: int | None = None
    max_virtual_ns = MAX_VIRTUAL_NS
    max_callbacks: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.outer = self
        self.ready = self._ready
        """The callbacks that run next; empty where no other task is ready."""
        self.has_due = False
        """Whether a timer may be due that the loop has not looked at yet."""
        self._timers: list[tuple[int, int, int, Timer]] = []
        self.is_spoilt = False  # True: a thread that was given up may still call this loop
        self.answers: Any = None
        """The answers of the border that seals the loop, or None (border/answers.py)."""
        self.worlds: list[Any] = []
        """The worlds of the runs that are under way, the newest last (world/world.py)."""
        self.listeners: list[Any] = []
        """They hear of the program, the newest alone (listener.py)."""
        self._reset()

    def _reset(self) -> None:
        self.now_ns = 0
        self.escapes: list[SimloopError] = []
        self._looks_at_pipes = False
        if self._selector.get_map():
            self._selector = Watches(self)
        self.pipes: Any = None  # the noted pipes and the scripted processes, if the run has some
        self.processes: Any = None
        self.network: Any = None  # the servers of the program itself, if it has some
        self.innermost: dict[Task, Any] = {}  # the timeouts of tasks (timeouts.py)
        self.folder: Any = None  # on the disk, for what the program stores (runs/folders.py)
        self.standard_input: Any = None  # if the run has one (border/standard_input.py)
        self.on_refusal: Callable[[str, str, str, str], object] | None = None
        """Called with each refusal: see `note_refused`; the run that is under way keeps them."""
        self.threads: Any = None  # made with the first of them
        self._default_executor: Any = None
        self.worlds_of_threads: dict[int, Any] = {}  # of those that outlive the run of their world
        self.at_end: list[Callable[[], object]] = []  # called when nothing of the run is left
        # Watched where code of a program runs; without it, each KeyboardInterrupt is a Ctrl-C.
        self.interrupts: noted_interrupts | None = None
        # Called with a SystemExit or KeyboardInterrupt that a task of the program raises: asyncio
        # ends the loop with it, and the run of an agent is to have an end of its own.
        self.on_exit: Callable[[BaseException], object] | None = None
        self.output: Any = None  # what the program writes, on a sealed loop (border/output.py)
        # False: whoever runs the loop takes the failures that nobody looked at, by `take_unseen`.
        self.raises_unseen = True
        self._failures: list[BaseException] = []
        self._ready.clear()
        self._timers.clear()
        self._timer_cancelled_count = 0
        self._timer_sequence = count()
        self._tie: Callable[[], int] | None = None
        # Strong references: asyncio's weak ones let the garbage collector end a waiting task.
        self._tasks: list[Task] = []
        self.task_count = self.future_count = 0
        self._sweep_at = 256
        self._task_factory: Any = None
        self._exception_handler: Any = None

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` to its end and return its result; cancel and drain what it left behind.

        Raises what `main` raises; Deadlock; RunawayRun; the first of `escapes`; and what asyncio
        only logs: an exception in a callback, or one of a task that no code retrieved.
        """
        __tracebackhide__ = True  # in reports of pytest, also below
        if asyncio._get_running_loop() is not None or self.is_running():
            main.close()
            hint = "await the coroutine instead, or move the call out of the running loop"
            raise ScenarioError("an event loop is already running in this thread", hint=hint)
        hooks = sys.get_asyncgen_hooks()
        task = self._start(main, "main")
        self._enter()
        try:
            while not task.done():
                self.turn()
            result: T = task.result()
        except BaseException as error:
            fatal = isinstance(error, KeyboardInterrupt | SystemExit)
            self._wind_up(task, waits=not fatal and not isinstance(error, Deadlock | RunawayRun))
            if not fatal and self.escapes and self.escapes[0] is not error:
                raise self.escapes[0] from error
            raise
        else:
            refused = self._wind_up(task)
            for finding in (*self.escapes, *(self._failures if self.raises_unseen else ())):
                raise finding
            if refused:
                names = ", ".join(each.get_name() for each in refused[:MOST_NAMED])
                message = "tasks did not end when cancelled after main had returned"
                raise RunawayRun(f"{message}: {names}")
            return result
        finally:
            del task  # it holds the exception, whose traceback holds this frame
            if self.threads is not None:
                self.threads.stop_watch()
            asyncio._set_running_loop(None)
            self._thread_id = None
            sys.set_asyncgen_hooks(*hooks)
            for end in self.at_end:
                end()
            self._reset()

    def is_ctrl_c(self, error: BaseException) -> bool:
        """Return whether the user has raised `error` by Ctrl-C, and not the program itself."""
        watch = self.interrupts
        return isinstance(error, KeyboardInterrupt) and (watch is None or watch.pressed)

    def _enter(self) -> None:
        self.progress = Progress(self.report, self.escapes, self.max_callbacks)
        self._time_limit_ns = self.max_virtual_ns
        if self.shuffle_seed is not None:
            self._tie = functools.partial(random.Random(self.shuffle_seed).getrandbits, 32)  # noqa: S311 - reproducible on purpose
        self._thread_id = threading.get_ident()
        sys.set_asyncgen_hooks(self._asyncgens.add, self._asyncgen_finalizer_hook)
        asyncio._set_running_loop(self)

    def turn(self) -> None:
        """Run the callbacks that are ready, or move time to the next timer and run its own."""
        __tracebackhide__ = True
        try:
            self._run_once()
        except (KeyboardInterrupt, SystemExit) as error:
            if self.on_exit is None or self.is_ctrl_c(error):
                raise
            self.on_exit(error)

    def _run_once(self) -> None:
        __tracebackhide__ = True
        if not (ready := self._ready):
            if (next_ns := self.next_timer_ns()) is None:
                raise Deadlock(self.report("nothing can run and no timer is set"))
            self.advance_ns(max(0, next_ns - self.now_ns))
        timers, now_ns = self._timers, self.now_ns
        while timers and timers[0][0] <= now_ns:
            ready.append(self._pop_timer())
        self.has_due = False
        count = len(ready)
        self.progress.count(count)
        for _ in range(count):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def next_timer_ns(self) -> int | None:
        timers = self._timers
        while timers and timers[0][3]._cancelled:
            self._pop_timer()
        return timers[0][0] if timers else None

    def advance_ns(self, nanoseconds: int) -> None:
        """Move time forward within the running callback, as a blocking `time.sleep` does."""
        if (then_ns := self.now_ns + nanoseconds) > self._time_limit_ns:
            reached = f"reached by a wait until {clock_text(then_ns)}"
            raise RunawayRun(self.report(f"max_virtual_ns={self.max_virtual_ns} {reached}"))
        self.now_ns = then_ns
        self.has_due = bool(self._timers) and self._timers[0][0] <= then_ns

    def block_ns(self, nanoseconds: int) -> None:
        """Wait within the running callback, as a blocking `time.sleep` does; threads may run."""
        if self.threads is None:
            began_ns = self.now_ns
            self.progress.count(1)
            self.advance_ns(nanoseconds)
            report_blocking(self, self.now_ns - began_ns)
        else:
            self.threads.sleep(self.threads.of_loop, nanoseconds)

    @property
    def busy(self) -> bool:
        """Return whether a callback is ready, or a timer is due, beside the running callback."""
        return bool(self._ready) or self.has_due

    def time(self) -> float:
        """Return virtual seconds since the start of the run; `now_ns` is the exact value."""
        return self.now_ns / 1e9

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Timer:
        """Call after `delay` seconds: at least 1 ns if positive, and never if it is infinite."""
        if self.listeners:
            hear_timer(self, delay, callback)
        if 0 < delay < NEVER_S:
            wait_ns = max(1, round(delay * 1e9))
        elif delay != delay:  # noqa: PLR0124 - NaN
            raise ValueError("a timer cannot be set for NaN seconds")
        else:
            wait_ns = 0 if delay <= 0 else NEVER_NS
        return self.call_at_ns(self.now_ns + wait_ns, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Timer:
        """Call at the time `when`; its distance from `time()` counts where doubles are coarse."""
        if 0 < when < EXACT_S:
            if (when_ns := round(when * 1e9)) <= self.now_ns and when > self.time():
                when_ns = self.now_ns + 1
            return self.call_at_ns(when_ns, callback, *args, context=context)
        return self.call_later(when - self.time(), callback, *args, context=context)

    def call_at_ns(self, when_ns: int, callback: Any, *args: Any, context: Any = None) -> Timer:
        handle: Any = Timer(when_ns / 1e9, callback, args, self, context)
        if when_ns < NEVER_NS:
            tie = self._tie() if self._tie else 0
            heapq.heappush(self._timers, (when_ns, tie, next(self._timer_sequence), handle))
            self.has_due = self.has_due or when_ns <= self.now_ns
            handle._scheduled = True
        return cast("Timer", handle)

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Handle:
        """Call in first-in, first-out order, as asyncio promises; no seed shuffles it."""
        handle = Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> Handle:
        """Call soon from a thread of this run; other threads are outside virtual time."""
        if self._thread_id != threading.get_ident() and loop_here() is not self:
            raise self.refuse("a call from another thread", ADVICE["thread"])
        return self.call_soon(callback, *args, context=context)

    def look_at_pipes(self) -> None:
        """Look soon which descriptors are ready, after the callbacks that are."""
        if not self._looks_at_pipes:
            self._looks_at_pipes = True
            self.call_soon(self._take_ready)

    def _take_ready(self) -> None:
        self._looks_at_pipes = False
        found = self._selector.select()
        self._process_events(found)
        if found:  # a descriptor stays ready until its callback reads from it
            self.look_at_pipes()

    def _pop_timer(self) -> Timer:
        handle: Any = heapq.heappop(self._timers)[3]
        handle._scheduled = False
        self._timer_cancelled_count -= handle._cancelled
        return cast("Timer", handle)

    def _timer_handle_cancelled(self, handle: Any) -> None:
        """Count a cancelled timer; its handle is not marked yet, so it is skipped explicitly."""
        self._timer_cancelled_count += handle._scheduled
        timers = self._timers
        if self._timer_cancelled_count > max(100, len(timers) // 2):
            timers[:] = [t for t in timers if t[3] is not handle and not t[3]._cancelled]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0

    def _start(self, coro: Any, name: Any, **kwargs: Any) -> Task:
        task = super()._start(coro, name, **kwargs)
        self._tasks.append(task)
        if len(self._tasks) > self._sweep_at:
            self._tasks = [task for task in self._tasks if not task.done() or tasks.is_unseen(task)]
            self._sweep_at = max(256, 2 * len(self._tasks))
        return task

    def _asyncgen_finalizer_hook(self, generator: Any) -> None:
        # A generator of an earlier run, or one collected in another thread, has no place in time.
        if self._thread_id == threading.get_ident():
            name = f"close {generator.__qualname__}"
            self.call_soon(lambda: self._start(generator.aclose(), name))

    def timers(self) -> list[tuple[int, int, int, Timer]]:
        return [timer for timer in self._timers if not timer[3]._cancelled]

    def unfinished(self) -> list[Task]:
        return [task for task in self._tasks if not task.done()]

    def unfinished_threads(self) -> list[tuple[str, str]]:
        """Return the threads for which Python would wait at exit, each with its place."""
        return [] if self.threads is None else self.threads.left()

    def report(self, finding: str) -> str:
        """Return a finding with its time, and a line for each task, callback and thread at work."""
        left = self.unfinished()
        due = [handle for handle in self._ready if not handle._cancelled]
        handles = [*due, *(handle for *_, handle in sorted(self.timers()))]
        count = f"{len(left)} unfinished task{'s' * (len(left) != 1)}:"
        places = filter(None, map(place_of_callback, handles))
        callbacks = [f"  callback: {place}" for place in islice(places, MOST_NAMED)]
        waits = [f"  {task.get_name()}: {where_it_waits(task)}" for task in left[:MOST_NAMED]]
        found = f"{finding}, at {clock_text(self.now_ns)} with {count}"
        threads = () if self.threads is None else self.threads.describe()
        return "\n".join((found, *waits, *callbacks, *threads))

    def take_unseen(self) -> list[BaseException]:
        """Return the exceptions that no code looked at, which asyncio would log, each once."""
        found, self._failures = self._failures, []
        for task in self._tasks if self._exception_handler is None else ():
            if tasks.is_unseen(task) and not tasks.closes(task):
                found += filter(None, [task.exception()])
        return [error for error in found if not isinstance(error, KeyboardInterrupt | SystemExit)]

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep for the end of the run what asyncio logs, but not what a finalizer said."""
        message = context.get("message", "unnamed failure")
        is_of_del = any(each.f_code.co_name == "__del__" for each in stack(sys._getframe(1)))
        if not is_of_del and not message.endswith(_SAID_BY_DEL):
            self._failures.append(context.get("exception") or RuntimeError(message))

    def _wind_up(self, main: Task, *, waits: bool = True) -> list[Task]:
        """End what the run left behind; return the tasks that refuse. `waits` lets threads end."""
        # The usual end: one task, which is done. A callback that is ready may still start others.
        tidy = main.done() and len(self._tasks) == 1 and not self._ready
        if tidy and self.threads is None and not self._asyncgens:
            return []
        refused = [] if tidy else self._drain(set())
        if self.threads is not None:
            refused += self._end_threads(self.threads, waits=waits)
        refused = list(dict.fromkeys(refused))  # a task may refuse before the threads end and after
        for task in refused:
            self._close_task(task)
            self._tasks.remove(task)
        if refused and self.threads is not None:
            self.threads.end()  # those that the code has started while it was closed
        # After the tasks: closing a generator that a task is still in raises RuntimeError.
        if self._asyncgens:
            refused += self._drain({self._start(self.shutdown_asyncgens(), "close generators")})
        for task in self._tasks:
            error = task.exception() if tasks.is_unseen(task) else None
            if error and task is not main:
                message = f"{task.get_name()} failed and nobody looked at its exception"
                self.call_exception_handler({"message": message, "exception": error, "task": task})
        return refused

    def _end_threads(self, threads: Any, *, waits: bool) -> list[Task]:
        self._renew_bounds(len(threads.alive))
        known = len(self.escapes)
        with contextlib.suppress(Deadlock, RunawayRun):
            while waits and threads.left():
                self.turn()
        if not self.raises_unseen:
            # A thread of an agent goes on after a stop, and no model answers it any more. Its
            # refused calls fail in the thread; the trace says that the thread was left behind.
            late = self.escapes[known:]
            self.escapes[known:] = [one for one in late if not isinstance(one, ScenarioError)]
        refused = self._drain(set()) if self._ready or self.unfinished() else []
        if stubborn := ", ".join(threads.end()[:MOST_NAMED]):
            finding = "threads did not end when they were told to at the end of the run"
            self.escapes.append(RunawayRun(f"{finding}: {stubborn}"))
        return refused

    def _close_task(self, task: Task) -> None:
        """End the coroutine of a task that has refused its cancellation.

        The garbage collector would run the rest of such a task in some later simulation, and
        asyncio would log that it was pending. Ending it here happens at one place in every run.
        """
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        coroutine = cast("Coroutine[Any, Any, Any]", task.get_coro())
        # Within the task, so that code that catches even this can be suspended where it waits next.
        asyncio._enter_task(self, task)
        try:
            coroutine.throw(_TaskEnded)
        except BaseException:  # noqa: BLE001 - the run has an error of its own
            return
        finally:
            asyncio._leave_task(self, task)
        self.is_spoilt = True  # the coroutine may have left its world and listeners on it
        # Code that catches all exceptions may run for ever if Python closes it: Python must not.
        _keep_for_ever(ctypes.py_object(coroutine))

    def _renew_bounds(self, count: int) -> None:
        """Count the bounds from here: a run that has used up its own may still clean up."""
        self.progress.allow(10_000 + 100 * count)
        self._time_limit_ns = self.now_ns + self.max_virtual_ns

    def _drain(self, asked: set[Task]) -> list[Task]:
        unfinished = self.unfinished()
        self._renew_bounds(len(unfinished))
        with contextlib.suppress(Deadlock, RunawayRun):
            # A task may start others while it ends, so the tasks are listed again after each turn.
            # A second cancellation would break off clean-up that waits; a task that goes on after
            # the first is reported. The closing of a generator is itself clean-up.
            while unfinished or self._ready:
                for task in unfinished:
                    if task not in asked and not tasks.closes(task):
                        asked.add(task)
                        task.cancel()
                self.turn()
                unfinished = self.unfinished()
        return unfinished

    def refuse(self, what: str, advice: str) -> ScenarioError:
        """Return an error for the caller to raise; it fails the run even if it is swallowed."""
        place = askers_place()
        called = f"; called at {place}" if place else ""
        self.note_refused("call", what, what, place)
        escape = ScenarioError(f"{what} is not available in a simulation: {advice}{called}")
        if self.is_running():
            self.escapes.append(escape)
        return escape

    def note_refused(self, what: str, name: str, asked: str, place: str = "") -> None:
        """Tell the run that the world refuses something, at the place that asks for it."""
        if self.on_refusal is not None:
            self.on_refusal(what, name, asked, place or askers_place())


class _TaskEnded(BaseException):
    """Ends a task that has refused its cancellation, where it waits."""


refuse_methods(VirtualLoop)
