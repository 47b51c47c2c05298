"""Virtual time: an asyncio event loop whose clock moves only when nothing is ready to run.

Not here: what `time.time` and `random` answer (`sealed`), and who runs on the loop (`driver`).
The rule to keep: what happens next depends on the program and the seed alone, never on `id()`,
garbage collection, wall time or another thread. So instants are integer nanoseconds, equal instants
fire in the order they were set, and whatever would wait for the real world is an error.
"""
# ruff: noqa: SLF001 - a loop works on the private slots of handles and tasks, as asyncio's own do

import asyncio
import contextlib
import contextvars
import heapq
import itertools
import math
import random
import sys
import threading
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from types import FrameType
from typing import Any, TypeVar, cast

from simloop.errors import Deadlock, RunawayRun, ScenarioError

T = TypeVar("T")
Task = asyncio.Task[Any]

SECOND_NS = 1_000_000_000
MAX_VIRTUAL_NS = 10 * 365 * 86_400 * SECOND_NS
MAX_CALLBACKS = 10_000_000
# From here on (146 years) a timer means "never": libraries write forever as inf or as centuries.
NEVER_NS = 2**62
_NEVER_S = NEVER_NS / SECOND_NS
# Below this (24 days) sums of two doubles still round to the nanosecond that was meant.
_EXACT_S = 2.0**21
_DRAIN_CALLBACKS = 10_000
_NAMED_TASKS = 20

_ADVICE = {
    "put a fake transport (such as httpx.MockTransport) or a fake tool in its place": (
        "create_connection create_server create_unix_connection create_unix_server"
        " create_datagram_endpoint connect_accepted_socket start_tls sendfile"
        " getaddrinfo getnameinfo add_reader remove_reader add_writer remove_writer"
        " sock_recv sock_recv_into sock_recvfrom sock_recvfrom_into"
        " sock_sendall sock_sendto sock_connect sock_accept sock_sendfile"
    ),
    "put a fake tool in its place": (
        "subprocess_exec subprocess_shell connect_read_pipe connect_write_pipe"
    ),
    "call the handler itself, for instance with loop.call_later": (
        "add_signal_handler remove_signal_handler"
    ),
}
# asyncio says these from `__del__`, so garbage collection decides whether and when.
_SAID_BY_DEL = ("exception was never retrieved", "was destroyed but it is pending!")


class VirtualLoop(asyncio.BaseEventLoop):
    """One simulation at a time, in one thread; `run` leaves the loop ready for the next.

    `now_ns` is virtual time since the start of the run. `escapes` are the errors raised where the
    program reached for the real world: the run fails with the first, even if it was swallowed.
    With `shuffle_seed`, timers of one instant fire in an order drawn from that seed.
    """

    _ready: deque[asyncio.Handle]
    _thread_id: int | None
    _stopping: bool
    _task_factory: Any
    _exception_handler: Any
    _asyncgens_shutdown_called: bool

    def __init__(
        self,
        *,
        shuffle_seed: int | None = None,
        max_virtual_ns: int = MAX_VIRTUAL_NS,
        max_callbacks: int = MAX_CALLBACKS,
    ) -> None:
        super().__init__()
        self.shuffle_seed = shuffle_seed
        self.max_virtual_ns = max_virtual_ns
        self.max_callbacks = max_callbacks
        self._timers: list[tuple[int, int, int, asyncio.TimerHandle]] = []
        self._reset()

    def _reset(self) -> None:
        self.now_ns = 0
        self.escapes: list[ScenarioError] = []
        self._failures: list[BaseException] = []
        self._callbacks = 0
        self._ready.clear()
        self._timers.clear()
        self._timer_cancelled_count = 0
        self._timer_sequence = itertools.count()
        self._tie: Callable[[], int] | None = None
        # Strong references: asyncio's weak ones let the garbage collector end a waiting task.
        self._tasks: list[Task] = []
        self._task_count = 0
        self._sweep_at = 256
        self._generators: weakref.WeakValueDictionary[int, AsyncGenerator[Any, Any]] | None = None
        self._stopping = False
        self._task_factory = None
        self._exception_handler = None
        self._asyncgens_shutdown_called = False

    # ------------------------------------------------------------------ running

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` to its end and return its result; then cancel and drain what it left behind.

        Raises what `main` raises; Deadlock; RunawayRun; the first of `escapes`; and whatever asyncio
        would only have logged: an exception in a callback, or one of a task that nobody looked at.
        """
        self._check_free(main)
        hooks = sys.get_asyncgen_hooks()
        self._enter()
        try:
            task = self._start(main, "main")
            try:
                while not task.done():
                    if self._stopping:
                        raise ScenarioError("loop.stop() was called: return from main instead")
                    self._run_once()
                result = task.result()
            except BaseException as error:
                self._wind_up(task)
                fatal = isinstance(error, KeyboardInterrupt | SystemExit)
                if self.escapes and self.escapes[0] is not error and not fatal:
                    raise self.escapes[0] from error
                raise
            self._raise_finding(self._wind_up(task))
            return cast("T", result)
        finally:
            asyncio._set_running_loop(None)
            self._thread_id = None
            sys.set_asyncgen_hooks(*hooks)
            if self._debug:
                self._set_coroutine_origin_tracking(enabled=False)
            self._reset()

    def _check_free(self, main: Coroutine[Any, Any, T]) -> None:
        if not asyncio.iscoroutine(main):
            raise ScenarioError(f"a simulation runs a coroutine, not {main!r}")
        if asyncio._get_running_loop() is not None or self.is_running():
            main.close()
            raise ScenarioError(
                "an event loop is already running in this thread:"
                " await the coroutine instead, or start the simulation outside of it"
            )
        self._check_closed()

    def _enter(self) -> None:
        if "anyio" in sys.modules:
            _teach_anyio()
        self._callback_limit = self.max_callbacks
        self._time_limit_ns = self.max_virtual_ns
        if self.shuffle_seed is not None:
            ties = random.Random(self.shuffle_seed)  # noqa: S311 - reproducible on purpose
            self._tie = lambda: ties.getrandbits(32)
        self._thread_id = threading.get_ident()
        sys.set_asyncgen_hooks(self._asyncgen_firstiter_hook, self._asyncgen_finalizer_hook)
        asyncio._set_running_loop(self)
        if self._debug:
            self._set_coroutine_origin_tracking(enabled=True)

    def _run_once(self) -> None:
        ready = self._ready
        if not ready and not self._stopping:
            self._jump()
        timers = self._timers
        now_ns = self.now_ns
        while timers and timers[0][0] <= now_ns:
            handle: asyncio.Handle = self._pop_timer()
            if not handle._cancelled:
                ready.append(handle)
        count = len(ready)
        self._callbacks += count
        if self._callbacks > self._callback_limit:
            raise RunawayRun(self._report(f"more than max_callbacks={self.max_callbacks} ran"))
        for _ in range(count):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _jump(self) -> None:
        """Move time to the next timer that is still wanted."""
        timers = self._timers
        while timers and timers[0][3]._cancelled:
            self._pop_timer()
        if not timers:
            raise Deadlock(self._report("nothing can run and no timer is set"))
        self.advance_ns(max(0, timers[0][0] - self.now_ns))

    def advance_ns(self, nanoseconds: int) -> None:
        """Move time forward within the running callback: what a blocking `time.sleep` does."""
        now_ns = self.now_ns + nanoseconds
        if now_ns > self._time_limit_ns:
            bound = (
                f"max_virtual_ns={self.max_virtual_ns} would pass: waiting until {_clock(now_ns)}"
            )
            raise RunawayRun(self._report(bound))
        self.now_ns = now_ns

    # ------------------------------------------------------------------ time

    def time(self) -> float:
        """Virtual seconds since the start of the run; `now_ns` is the exact value."""
        return self.now_ns / 1e9

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Exact to the nanosecond; not above zero is due now, infinity is never."""
        if 0 < delay < _NEVER_S:
            return self._set(self.now_ns + round(delay * 1e9), callback, args, context)
        return self._set(_due_or_never(delay, self.now_ns), callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """As `call_later`. Far from zero a double is coarser than a nanosecond: there the distance
        from `time()` counts, so that `timeout(1)` and `sleep(1)` still meet in one instant.
        """  # noqa: D205 - one thought
        if not 0 < when < _NEVER_S:
            when_ns = _due_or_never(when, self.now_ns)
        elif when < _EXACT_S:
            when_ns = round(when * 1e9)
        else:
            when_ns = self.now_ns + round((when - self.time()) * 1e9)
        return self._set(when_ns, callback, args, context)

    def call_at_ns(
        self, when_ns: int, callback: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        """As `call_at`, without the way through a float."""
        return self._set(when_ns, callback, args, None)

    def _set(
        self,
        when_ns: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> asyncio.TimerHandle:
        handle: Any = asyncio.TimerHandle(when_ns / 1e9, callback, args, self, context)
        if when_ns < NEVER_NS:
            tie = self._tie() if self._tie else 0
            heapq.heappush(self._timers, (when_ns, tie, next(self._timer_sequence), handle))
            handle._scheduled = True
        return cast("asyncio.TimerHandle", handle)

    def _pop_timer(self) -> asyncio.TimerHandle:
        handle: Any = heapq.heappop(self._timers)[3]
        handle._scheduled = False
        self._timer_cancelled_count -= handle._cancelled
        return cast("asyncio.TimerHandle", handle)

    def _timer_handle_cancelled(self, handle: Any) -> None:
        """Asked by a handle just before it becomes cancelled, so it is named here as well."""
        if not handle._scheduled:
            return
        self._timer_cancelled_count += 1
        if self._timer_cancelled_count > max(100, len(self._timers) // 2):
            self._timers[:] = [
                timer
                for timer in self._timers
                if timer[3] is not handle and not timer[3]._cancelled
            ]
            heapq.heapify(self._timers)
            self._timer_cancelled_count = 0

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """First in, first out, as asyncio promises; no seed shuffles this."""
        if self._debug:
            return super().call_soon(callback, *args, context=context)
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    # ------------------------------------------------------------------ tasks

    def create_task(self, coro: Any, *, name: object = None, **kwargs: Any) -> Task:  # type: ignore[override]
        """Unnamed tasks are `task-1`, `task-2`, ... of this run: asyncio counts per process."""
        self._task_count += 1
        return self._start(coro, f"task-{self._task_count}" if name is None else name, **kwargs)

    def _start(self, coro: Any, name: object, **kwargs: Any) -> Task:
        if self._task_factory is None:
            task = asyncio.Task(coro, loop=self, name=cast("str", name), **kwargs)
        else:
            task = super().create_task(coro, name=name, **kwargs)
        self._tasks.append(task)
        if len(self._tasks) > self._sweep_at:
            self._tasks = [task for task in self._tasks if not task.done() or _unseen(task)]
            self._sweep_at = max(256, 2 * len(self._tasks))
        return task

    def _unfinished(self) -> list[Task]:
        return [task for task in self._tasks if not task.done()]

    def _asyncgen_firstiter_hook(self, generator: AsyncGenerator[Any, Any]) -> None:
        if self._generators is None:
            self._generators = weakref.WeakValueDictionary()
            self._generator_count = itertools.count()
        self._generators[next(self._generator_count)] = generator

    def _asyncgen_finalizer_hook(self, generator: AsyncGenerator[Any, Any]) -> None:
        # A generator of an earlier run, or one collected in another thread, has no place in time.
        if self._thread_id == threading.get_ident():
            name = f"close {generator.__qualname__}"
            self.call_soon(lambda: self._start(generator.aclose(), name))

    async def shutdown_asyncgens(self) -> None:
        """Close them one after the other in the order of first use; asyncio's set has no order."""
        generators = list((self._generators or {}).values())
        for generator in generators:
            try:
                await generator.aclose()
            except Exception as error:  # noqa: BLE001 - each must get its turn
                self.call_exception_handler({"message": "", "exception": error})

    def _wind_up(self, main: Task) -> list[Task]:
        """End what the run left behind and return the tasks that refuse."""
        refused = [] if main.done() and len(self._tasks) == 1 else self._drain(set())
        for task in refused:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(Exception):
                cast("Coroutine[Any, Any, Any]", task.get_coro()).close()
            self._tasks.remove(task)
        if self._generators:
            refused += self._drain({self._start(self.shutdown_asyncgens(), "close generators")})
        for task in self._tasks:
            if _unseen(task):
                message = f"{task.get_name()} failed and nobody looked at its exception"
                error = task.exception()
                if task is not main:
                    self.call_exception_handler({"message": message, "exception": error})
        return refused

    def _drain(self, asked: set[Task]) -> list[Task]:
        """Cancel every task once, but those in `asked`, and run until all are done or stuck."""
        unfinished = self._unfinished()
        self._callback_limit = self._callbacks + _DRAIN_CALLBACKS + 100 * len(unfinished)
        self._time_limit_ns = self.now_ns + self.max_virtual_ns
        with contextlib.suppress(Deadlock, RunawayRun):
            while unfinished:
                for task in unfinished:
                    if task not in asked:
                        asked.add(task)
                        task.cancel()
                self._run_once()
                unfinished = self._unfinished()
        return unfinished

    # ------------------------------------------------------------------ findings

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep for the end of the run what asyncio logs, unless garbage collection said it."""
        message = context["message"]
        if not message.endswith(_SAID_BY_DEL):
            self._failures.append(context.get("exception") or RuntimeError(message))

    def _raise_finding(self, refused: list[Task]) -> None:
        if self.escapes:
            raise self.escapes[0]
        if self._failures:
            raise self._failures[0]
        if refused:
            names = ", ".join(task.get_name() for task in refused[:_NAMED_TASKS])
            raise RunawayRun(f"tasks did not end when cancelled after main had returned: {names}")

    def _report(self, finding: str) -> str:
        tasks = self._unfinished()
        lines = [f"  {task.get_name()}: {_waiting(task)}" for task in tasks[:_NAMED_TASKS]]
        if len(tasks) > len(lines):
            lines.append(f"  and {len(tasks) - len(lines)} more")
        return "\n".join((f"{finding}, at {_clock(self.now_ns)}; unfinished tasks:", *lines))

    def refuse(self, what: str, advice: str) -> ScenarioError:
        """An error for the caller to raise, remembered so that swallowing it does not hide it."""
        escape = ScenarioError(f"{what} is not available in a simulation: {advice}")
        self.escapes.append(escape)
        return escape

    # ------------------------------------------------------------------ threads

    def call_soon_threadsafe(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """`call_soon`, in the loop's own thread; other threads have no place in virtual time."""
        if self._thread_id != threading.get_ident():
            raise self.refuse(
                "a call from another thread", "use asyncio.to_thread, which runs inline"
            )
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, _executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run `func` now, whatever the executor; only an Exception waits in the future."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except StopIteration as error:  # no future takes one: a real thread would wait for ever
            future.set_exception(RuntimeError(f"{func!r} raised {error!r}"))
        except Exception as error:  # noqa: BLE001 - the function is user code
            future.set_exception(error)
        return future

    def set_default_executor(self, executor: object) -> None:
        """Accepted and unused: everything runs inline."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Nothing to shut down."""

    def __del__(self, *_: object) -> None:
        """Silent, unlike asyncio's: this loop holds no sockets, so nothing leaks."""


def _forbidden(name: str, advice: str) -> Callable[..., Any]:
    def refuse(self: VirtualLoop, *_: object, **__: object) -> None:
        raise self.refuse(f"loop.{name}", advice)

    return refuse


for _advice, _names in _ADVICE.items():
    for _name in _names.split():
        setattr(VirtualLoop, _name, _forbidden(_name, _advice))


def _due_or_never(seconds: float, now_ns: int) -> int:
    if math.isnan(seconds):
        raise ValueError("a timer cannot be set for NaN seconds")
    return now_ns if seconds <= 0 else NEVER_NS


def _unseen(task: Task) -> bool:
    """Whether it failed and nobody has asked for the exception: asyncio's own mark."""
    return getattr(task, "_log_traceback", False)


def _clock(now_ns: int) -> str:
    seconds, rest = divmod(now_ns, SECOND_NS)
    return f"{seconds}.{rest:09d}".rstrip("0").rstrip(".") + " s"


def _waiting(task: Task) -> str:
    """The innermost frame outside asyncio and anyio, and what it awaits."""
    place, awaited = "not started", ""
    for coroutine, frame in _chain(task.get_coro()):
        if frame.f_globals.get("__name__", "").partition(".")[0] not in {"asyncio", "anyio"}:
            code = frame.f_code
            place = f"{code.co_filename.rpartition('/')[2]}:{frame.f_lineno} in {code.co_qualname}"
            awaited = ""
        elif not awaited:
            awaited = getattr(coroutine, "__qualname__", "")
    future = getattr(task, "_fut_waiter", None)
    if not awaited and future is not None:
        task_name = getattr(future, "get_name", None)
        awaited = task_name() if task_name else type(future).__name__.lstrip("_")
    return f"{place}, awaiting {awaited}" if awaited else place


def _chain(awaitable: Any) -> Iterator[tuple[Any, FrameType]]:
    """A coroutine and what it awaits, down to the innermost one that has a frame."""
    while awaitable is not None:
        for prefix in ("cr", "gi", "ag"):
            frame = getattr(awaitable, f"{prefix}_frame", None)
            if frame is not None:
                yield awaitable, frame
                step = "yieldfrom" if prefix == "gi" else "await"
                awaitable = getattr(awaitable, f"{prefix}_{step}", None)
                break
        else:
            return


def _teach_anyio() -> None:
    """Make anyio's worker threads inline too; only for those who imported anyio already."""
    from anyio._backends._asyncio import AsyncIOBackend  # noqa: PLC0415 - not everyone's dependency

    original = AsyncIOBackend.run_sync_in_worker_thread
    if getattr(original, "runs_inline", False):
        return

    async def run_sync_in_worker_thread(
        cls: type[AsyncIOBackend],
        func: Callable[..., Any],
        args: tuple[Any, ...],
        abandon_on_cancel: bool = False,  # noqa: FBT001, FBT002 - anyio's signature
        limiter: Any = None,
    ) -> Any:
        if not isinstance(asyncio._get_running_loop(), VirtualLoop):
            return await original(func, args, abandon_on_cancel, limiter)
        await cls.checkpoint()
        async with limiter or contextlib.nullcontext():
            return contextvars.copy_context().run(func, *args)

    run_sync_in_worker_thread.runs_inline = True  # type: ignore[attr-defined]
    AsyncIOBackend.run_sync_in_worker_thread = classmethod(run_sync_in_worker_thread)  # type: ignore[method-assign, assignment]


class _Spare(threading.local):
    loop: VirtualLoop | None = None


_spare = _Spare()


def run_virtual(
    main: Coroutine[Any, Any, T],
    *,
    shuffle_seed: int | None = None,
    max_virtual_ns: int = MAX_VIRTUAL_NS,
    max_callbacks: int = MAX_CALLBACKS,
) -> T:
    """`VirtualLoop.run` on a loop kept for this thread: creating one costs more than a run."""
    loop, _spare.loop = _spare.loop or VirtualLoop(), None
    loop.shuffle_seed = shuffle_seed
    loop.max_virtual_ns = max_virtual_ns
    loop.max_callbacks = max_callbacks
    try:
        return loop.run(main)
    finally:
        if not loop.is_closed():
            _spare.loop = loop
