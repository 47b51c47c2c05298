"""The real time that hooks take, measured around each call and kept beside the trace.

No real time enters a trace, and a run without a meter does no work for it.
"""

import asyncio
import contextlib
import copy
from collections.abc import Callable, Generator, Iterator
from functools import partial
from time import perf_counter_ns  # simloop's own modules keep the real clock during a simulation
from types import coroutine
from typing import Any, TypeAlias

from msgspec import Struct

from simloop.engine.hooks import POINTS, Hooks
from simloop.virtual.clock.tasks import is_coroutine
from simloop.world.user_functions import UserFunction

SLOW_NS = 10_000_000
BLOCKING_NS = 100_000_000
"""asyncio reports a callback that takes as long without a wait (`loop.slow_callback_duration`)."""
RealClock: TypeAlias = Callable[[], int]
"""Returns nanoseconds since some moment."""


class HookTimes:
    """The calls of one hook at one point.

    `real_ns` has the real nanoseconds of each call; the rest is as in HookCost.
    """

    def __init__(self, point: str, hook: str, clock: RealClock, reading_ns: int) -> None:
        self.point, self.hook = point, hook
        self.real_ns: list[int] = []
        self.longest_ns = self.blocked_ns = 0
        self._clock, self._reading_ns = clock, reading_ns

    def timed(self, index: int, step: Callable[..., Any], *values: Any) -> Any:
        """Make a step of a call, which ends with a wait or with the call, and add its time."""
        loop: Any = asyncio.get_running_loop()
        virtual_ns = loop.now_ns
        start_ns = self._clock()
        try:
            return step(*values)
        finally:
            taken_ns = max(0, self._clock() - start_ns - self._reading_ns)
            self.real_ns[index] += taken_ns
            self.longest_ns = max(self.longest_ns, taken_ns)
            self.blocked_ns += loop.now_ns - virtual_ns

    def cost(self, run_ns: int) -> "HookCost":
        taken, total_ns = sorted(self.real_ns) or [0], sum(self.real_ns)
        return HookCost(
            point=self.point, hook=self.hook, calls=len(self.real_ns), total_ns=total_ns,
            median_ns=taken[(len(taken) - 1) // 2], p95_ns=taken[(len(taken) * 95 - 1) // 100],
            share=total_ns / run_ns if run_ns else 0.0,
            longest_ns=self.longest_ns, blocked_ns=self.blocked_ns,
        )  # fmt: skip


class HookCost(Struct, frozen=True, kw_only=True):
    """The real nanoseconds that one hook took at one point, over all runs of a conversation.

    They are without its waits and without the measurement itself. At most half of the calls took
    longer than `median_ns`, and one in twenty longer than `p95_ns`. `share` is the part of the real
    time of the runs, and `longest_ns` the longest real time without a wait. `blocked_ns` is
    virtual: the time that passed in `time.sleep`, which blocks the event loop.
    """

    point: str
    hook: str
    calls: int
    median_ns: int
    p95_ns: int
    total_ns: int
    share: float
    longest_ns: int
    blocked_ns: int

    @property
    def is_slow(self) -> bool:
        """Return whether one call in twenty takes 10 ms or more."""
        return self.p95_ns >= SLOW_NS

    @property
    def blocks(self) -> bool:
        """Return whether it blocks the event loop: by `time.sleep`, or by 100 ms without a wait."""
        return self.blocked_ns > 0 or self.longest_ns >= BLOCKING_NS


class HookMeter:
    """Measures each call of the hooks that `measured` returns, by a clock.

    `run_ns` is the real time of the runs in which the hooks were called.
    """

    def __init__(self, clock: RealClock = perf_counter_ns) -> None:
        self.times: list[HookTimes] = []
        self.run_ns, self._clock = 0, clock
        self._reading_ns = min(-(clock() - clock()) for _ in range(200))

    def measured(self, hooks: Hooks) -> Hooks:
        at = {point: map(partial(self._measured, point), getattr(hooks, point)) for point in POINTS}
        return Hooks(**at)

    def _measured(self, point: str, hook: UserFunction) -> UserFunction:
        times = HookTimes(point, hook.name, self._clock, self._reading_ns)
        self.times.append(times)
        replaced = copy.copy(hook)
        replaced.function = lambda given: _call(hook, given, times)
        return replaced

    def costs(self) -> tuple[HookCost, ...]:
        return tuple(times.cost(self.run_ns) for times in self.times)

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        start_ns = self._clock()
        try:
            yield
        finally:
            self.run_ns += self._clock() - start_ns


def _call(hook: UserFunction, given: Any, times: HookTimes) -> Any:
    index = len(times.real_ns)
    times.real_ns.append(0)
    result = times.timed(index, hook.function, given)
    if result is not None and (hook.is_async or is_coroutine(result)):
        return _awaited(result, times, index)
    return result


async def _awaited(awaitable: Any, times: HookTimes, index: int) -> Any:
    return await _steps(awaitable, times, index)


@coroutine
def _steps(awaitable: Any, times: HookTimes, index: int) -> Generator[Any, Any, Any]:
    """Await something, and measure its steps between its waits as one call."""
    iterator = awaitable.__await__()
    step, given = next, iterator
    while True:
        try:
            waits_for = times.timed(index, step, given)
        except StopIteration as done:
            return done.value
        try:
            given = yield waits_for
            # An iterator need not have `send`.
            step, given = (next, iterator) if given is None else (iterator.send, given)
        except GeneratorExit:
            times.timed(index, iterator.close)
            raise
        except BaseException as error:  # noqa: BLE001 - also a cancellation is for the awaitable
            step, given = iterator.throw, error
