"""The real time that hooks take, measured around each call and kept beside the trace.

Not here: the figures that a user reads (runs/hook_cost.py). The rules to keep: nothing here decides
anything in a run, and no real time enters a trace. A run without a meter does no work for it.
"""

import asyncio
import contextlib
import copy
from collections.abc import Callable, Generator, Iterator
from time import perf_counter_ns  # simloop's own modules keep the real clock during a simulation
from typing import Any, NamedTuple

from simloop.engine.hooks import (
    AFTER_LLM_CALL,
    AFTER_TOOL_CALL,
    BEFORE_LLM_CALL,
    BEFORE_TOOL_CALL,
    Hooks,
)
from simloop.virtual.started import begin, is_coroutine
from simloop.world.user_function import UserFunction

POINTS = (BEFORE_LLM_CALL, AFTER_LLM_CALL, BEFORE_TOOL_CALL, AFTER_TOOL_CALL)
_CALIBRATION_CALLS = 201


class Overhead(NamedTuple):
    """The real nanoseconds that the measurement adds to a call and to each step of an awaitable."""

    call_ns: int
    step_ns: int


class HookTimes:
    """The calls of one hook at one point.

    `real_ns` has the real nanoseconds of each call: without its waits, and without the measurement
    itself. `longest_ns` is the longest real time without a wait, and `blocked_ns` the virtual time
    that passed without one: a blocking `time.sleep` moves the virtual clock.
    """

    __slots__ = ("blocked_ns", "hook", "longest_ns", "overhead", "point", "real_ns")

    def __init__(self, point: str, hook: str, overhead: Overhead) -> None:
        self.point = point
        self.hook = hook
        self.overhead = overhead
        self.real_ns: list[int] = []
        self.longest_ns = 0
        self.blocked_ns = 0

    def called(self, real_ns: int, virtual_ns: int) -> int:
        """Add a call, and return its index."""
        self.real_ns.append(0)
        self._add(-1, real_ns - self.overhead.call_ns, virtual_ns)
        return len(self.real_ns) - 1

    def stepped(self, index: int, real_ns: int, virtual_ns: int) -> None:
        """Add a step of a call, which ends with a wait or with the call."""
        self._add(index, real_ns - self.overhead.step_ns, virtual_ns)

    def _add(self, index: int, real_ns: int, virtual_ns: int) -> None:
        self.real_ns[index] += max(0, real_ns)
        self.longest_ns = max(self.longest_ns, real_ns)
        self.blocked_ns += virtual_ns


class HookMeter:
    """Measures each call of the hooks that `measured` returns.

    `run_ns` is the real time of the runs in which the hooks were called.
    """

    def __init__(self) -> None:
        self.times: list[HookTimes] = []
        self._overhead = overhead()
        self.run_ns = 0

    def measured(self, hooks: Hooks) -> Hooks:
        """Return hooks that do as the given ones, and whose calls are measured."""
        return Hooks(
            **{
                point: [self._measured(point, hook) for hook in getattr(hooks, point)]
                for point in POINTS
            }
        )

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """Count the real time of the block as that of a run."""
        start_ns = perf_counter_ns()
        try:
            yield
        finally:
            self.run_ns += perf_counter_ns() - start_ns

    def _measured(self, point: str, hook: UserFunction) -> UserFunction:
        times = HookTimes(point, hook.name, self._overhead)
        self.times.append(times)
        return measured(hook, times)


def measured(hook: UserFunction, times: HookTimes) -> UserFunction:
    """Return a hook that does as the given one and adds each of its calls to `times`."""
    replaced = copy.copy(hook)
    replaced.function = lambda given: _call(hook, given, times, asyncio.get_running_loop())
    return replaced


def _call(hook: UserFunction, given: Any, times: HookTimes, loop: Any) -> Any:
    function, virtual_ns, end_ns = hook.function, loop.now_ns, 0
    start_ns = perf_counter_ns()
    try:
        result = function(given)
        end_ns = perf_counter_ns()
    finally:
        real_ns = (end_ns or perf_counter_ns()) - start_ns
        index = times.called(real_ns, loop.now_ns - virtual_ns)
    if result is not None and (hook.is_async or is_coroutine(result)):
        return _Steps(result, times, index, loop)
    return result


class _Steps:
    """An awaitable whose steps between its waits are measured, as one call."""

    __slots__ = ("_awaitable", "_index", "_iterator", "_loop", "_times")

    def __init__(self, awaitable: Any, times: HookTimes, index: int, loop: Any) -> None:
        self._awaitable = awaitable
        self._iterator: Any = None
        self._times = times
        self._index = index
        self._loop = loop

    def __await__(self) -> "Generator[Any, Any, Any]":
        self._iterator = self._awaitable.__await__()
        return self  # it has the methods of a generator

    def __iter__(self) -> "_Steps":
        return self

    def __next__(self) -> Any:
        return self._step(next, self._iterator)  # an iterator need not have `send`

    def send(self, value: Any) -> Any:
        """Run the awaitable to its next wait."""
        return self._step(self._iterator.send, value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception where the awaitable waits."""
        return self._step(self._iterator.throw, *error)

    def close(self) -> None:
        """End the awaitable where it waits."""
        self._step(self._iterator.close)

    def _step(self, step: Callable[..., Any], *values: Any) -> Any:
        loop, end_ns = self._loop, 0
        virtual_ns = loop.now_ns
        start_ns = perf_counter_ns()
        try:
            waits_for = step(*values)
            end_ns = perf_counter_ns()
        finally:
            real_ns = (end_ns or perf_counter_ns()) - start_ns
            self._times.stepped(self._index, real_ns, loop.now_ns - virtual_ns)
        return waits_for


class _Stopped:
    """A clock that stands still."""

    now_ns = 0


def overhead() -> Overhead:
    """Measure what the measurement itself adds: the times of functions that do nothing."""

    async def wait_for_nothing(given: object) -> None:
        """Do nothing."""

    call_ns = _median_ns(UserFunction(lambda given: given), Overhead(0, 0))
    return Overhead(call_ns, _median_ns(UserFunction(wait_for_nothing), Overhead(call_ns, 0)))


def _median_ns(idle: UserFunction, known: Overhead) -> int:
    times = HookTimes("", "", known)
    for _ in range(_CALIBRATION_CALLS):
        rest = _call(idle, None, times, _Stopped)
        if rest is not None:
            begin(rest)
    return sorted(times.real_ns)[_CALIBRATION_CALLS // 2]
