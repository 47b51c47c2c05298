"""Calls between coroutines and blocking code, and the event loops that a program makes inside.

A whole program is called in the real main thread of its process: Python allows signal handlers only
there. A cancellation ends a thread where it is parked; after `asyncio.to_thread` it would go on.
While a thread waits for a coroutine, the callbacks of the loop that is blocked do not run.
"""
# ruff: noqa: SLF001 - a loop works on the private parts of asyncio's own
# typeshed ties the type of a callback to its arguments; a loop passes both on unseen.
# mypy: disable-error-code="override"

import asyncio
import contextvars
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NoReturn, TypeVar

from simloop.errors import ScenarioError
from simloop.virtual.clock.instants import NEVER_S
from simloop.virtual.clock.listener import WAKE, hear_timer
from simloop.virtual.clock.loop import THREADS, VirtualLoop
from simloop.virtual.clock.transports import ReachingLoop, Watches, refuse_methods
from simloop.virtual.threads import scheduler

T = TypeVar("T")
_Start = Callable[[Callable[[], None]], threading.Thread]
_Stop = Callable[[scheduler.SimulatedThread], object] | None
_OF_THE_OUTER = frozenset({
    "stop", "run_forever", "run_until_complete", "add_signal_handler", "remove_signal_handler",
})  # fmt: skip
_BLOCKING: set["asyncio.Task[Any]"] = set()


async def call_in_thread(function: Callable[[], T], name: str) -> T:
    """Return what `function` returns, in the caller's context, in a thread that is its main one."""

    def start(work: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=work, name=name)
        thread.start()
        if (started := scheduler.simulated(thread)) is not None:
            started.is_main = True
        return thread

    return await result_in_thread(function, start)


async def result_in_thread(function: Callable[[], T], start: _Start, stop: _Stop = None) -> T:
    """Call `function` in a thread that `start` gives its work, and return its result.

    A cancellation ends the thread, but for a first one that `stop` handles.
    """
    loop = asyncio.get_running_loop()
    context = contextvars.copy_context()
    result: list[T] = []
    errors: list[BaseException] = []
    ended = loop.create_future()

    def work() -> None:
        try:
            result.append(context.run(function))
        except BaseException as error:  # noqa: BLE001 - it is raised in the task
            errors.append(error)
        finally:
            loop.call_soon_threadsafe(WAKE, ended, None)

    cancelled = await _wait(ended, start(work), stop)
    if result:
        return result[0]
    error = errors.pop()
    if cancelled is not None and isinstance(error, scheduler.ThreadEnded):
        raise cancelled
    try:
        raise error
    finally:
        del error  # its traceback has this frame


async def _wait(ended: asyncio.Future[None], thread: Any, stop: _Stop) -> BaseException | None:
    cancelled = None
    while not ended.done():
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError as error:
            running = scheduler.simulated(thread)
            if running is not None and cancelled is None and stop is not None:
                stop(running)
            elif running is not None:
                running.threads.throw(running, scheduler.ThreadEnded())
            cancelled = cancelled or error
    return cancelled


class MainThread:
    """The calling thread, which is the main one. It belongs to runs as long as it serves them."""

    def __init__(self) -> None:
        self._thread = threading.current_thread()
        self._is_due = scheduler.make_locked()
        self._due: scheduler.SimulatedThread | None = None

    def serve(self, answer: Callable[[], NoReturn]) -> NoReturn:
        """Call `answer`, which ends the process, in another thread, and run what `call` gives."""
        threading.Thread(target=answer, name="simloop", daemon=True).start()
        while True:
            self._is_due.acquire()
            assert self._due is not None
            self._due.bootstrap()

    async def call(self, loop: VirtualLoop, function: Callable[[], int]) -> int:
        """Call `function` in the main thread and return its exit status, or that of `os._exit`.

        A first cancellation is a Ctrl-C: the handler of the program runs where the thread waits.
        """

        def start(work: Callable[[], Any]) -> threading.Thread:
            self._due = scheduler.threads_of(loop).adopt(self._thread, work)
            self._is_due.release()
            return self._thread

        threads = scheduler.threads_of(loop)
        threads.exit_status = None
        try:
            return await result_in_thread(function, start, _press_ctrl_c)
        except scheduler.ThreadEnded:
            if threads.exit_status is None:
                raise
            return threads.exit_status


def _press_ctrl_c(thread: scheduler.SimulatedThread) -> None:
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):  # not ignored
        if thread.loop.processes is not None:
            thread.loop.processes.interrupt()
        thread.handler = partial(handler, signal.SIGINT, None)
        thread.threads.wake(thread)


def is_blocking(task: "asyncio.Task[Any]") -> bool:
    """Return whether a task blocks its loop: it runs, although it is not the current task."""
    return task in _BLOCKING


def run_blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run `coroutine` on a loop of its own in the calling thread; return its result.

    Raises what `coroutine` raises, and ScenarioError outside of simulations.
    """
    if (me := scheduler.thread_here()) is None:
        coroutine.close()
        raise ScenarioError("this needs the virtual clock", hint="call it in a simulation")
    with _no_loop_running(me):
        inner = InnerLoop(me.loop)
        try:
            return inner.run_until_complete(coroutine)
        finally:
            with suppress(RuntimeError):  # a clean-up of the user's that waits
                coroutine.close()  # if the thread is ended: the collector would do it at any time
            inner.close()


@contextmanager
def _no_loop_running(me: scheduler.SimulatedThread) -> Iterator[None]:
    running: Any = asyncio._get_running_loop()
    if running is None:  # the thread is in no callback of another loop
        yield
        return
    task, ident = asyncio.current_task(running), threading.get_ident()
    is_new = ident not in THREADS
    if task is not None:
        asyncio._leave_task(running, task)
        _BLOCKING.add(task)
    asyncio._set_running_loop(None)
    if is_new:
        # Code of a simulation is known by its running loop, which is another one now.
        THREADS[ident] = me
    try:
        yield
    finally:
        if is_new:
            del THREADS[ident]
        asyncio._set_running_loop(running)
        if task is not None:
            _BLOCKING.discard(task)
            asyncio._enter_task(running, task)


class _ParkingWatches(Watches):
    """The pipes of an inner loop, whose thread parks until one is ready, or a call comes."""

    _parked: scheduler.SimulatedThread | None = None
    _is_woken = False

    def select(self, timeout: float | None = None) -> Any:
        me, found = scheduler.thread_here(), super().select()
        if me is not None and not (found or self._is_woken) and (timeout is None or timeout > 0):
            self._parked = me
            try:
                me.threads.park_for(me, timeout, "its event loop")
            finally:
                self._parked = None
            found = super().select()
        self._is_woken = False
        return found

    def wake(self) -> None:
        self._is_woken = True
        if self._parked is not None:
            self._parked.threads.wake(self._parked)


class InnerLoop(ReachingLoop):
    """An event loop that a program makes inside: it waits on the clock of the loop `outer`."""

    def __init__(self, outer: VirtualLoop) -> None:
        super().__init__()
        self.outer: VirtualLoop = outer
        self._selector = _ParkingWatches(self)
        self._clock_resolution = 1e-9

    def run_forever(self) -> None:
        try:
            super().run_forever()
        except scheduler.ThreadEnded:
            scheduler.threads_of(self.outer).interrupted.append(self)
            raise

    def look_at_pipes(self) -> None:
        self._selector.wake()

    _write_to_self = look_at_pipes

    def time(self) -> float:
        return self.outer.time()

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        """Call after `delay` seconds; an infinite delay is a very long one."""
        hear_timer(self.outer, delay, callback)
        return super().call_later(min(delay, NEVER_S), callback, *args, context=context)

    def add_signal_handler(self, sig: int, callback: Any, *args: Any) -> None:
        """Call `callback` when the user of a whole program sends that signal."""
        self._check_signals("loop.add_signal_handler")
        signal.signal(sig, lambda *_: self.call_soon_threadsafe(callback, *args))

    def remove_signal_handler(self, sig: int) -> bool:
        self._check_signals("loop.remove_signal_handler")
        default = signal.default_int_handler if sig == signal.SIGINT else signal.SIG_DFL
        return signal.signal(sig, default) is not default

    def _check_signals(self, name: str) -> None:
        me = scheduler.thread_here()
        if me is None or me.real is not None or me is me.threads.of_loop:
            message = "only a whole program gets signals: call the handler itself"
            raise self.outer.refuse(name, message)

    def close(self) -> None:
        super().close()
        if self.outer.pipes is not None:
            self.outer.pipes.forget(self)


refuse_methods(InnerLoop, without=_OF_THE_OUTER)
