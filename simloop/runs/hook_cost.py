"""The cost of the hooks of a run, in real time.

Not here: the measurement (engine/hook_meter.py), and benchmarks (bench). The rule to keep: real
times are in results and in no trace, because a trace has equal bytes on every machine.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simloop.engine.hook_meter import HookMeter, HookTimes

SLOW_NS = 10_000_000
BLOCKING_NS = 100_000_000
"""asyncio reports a callback that takes as long without a wait (`loop.slow_callback_duration`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCost:
    """The real time that one hook took at one point, over all runs of a conversation.

    Nanoseconds, without the time that the hook waited and without the measurement itself. `share`
    is the part of the real time of the runs. `longest_ns` is the longest real time without a wait.
    `blocked_ns` is virtual: the time that passed in `time.sleep`, which blocks the event loop.
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
        """Return whether the hook blocks the event loop.

        It does if it calls `time.sleep`, or if it takes 100 ms or more without a wait.
        """
        return self.blocked_ns > 0 or self.longest_ns >= BLOCKING_NS


def hook_cost(meter: HookMeter) -> tuple[HookCost, ...]:
    """Return the cost of each hook that a meter has measured, in the order of points and hooks."""
    return tuple(_cost(times, meter) for times in meter.times)


def _cost(times: HookTimes, meter: HookMeter) -> HookCost:
    taken = sorted(times.real_ns)
    total_ns = sum(taken)
    return HookCost(
        point=times.point,
        hook=times.hook,
        calls=len(taken),
        median_ns=percentile(taken, 0.5),
        p95_ns=percentile(taken, 0.95),
        total_ns=total_ns,
        share=total_ns / meter.run_ns if meter.run_ns else 0.0,
        longest_ns=times.longest_ns,
        blocked_ns=times.blocked_ns,
    )


def percentile(ordered: Sequence[int], share: float) -> int:
    """Return the first of the ordered values that at least this share of them does not exceed.

    Returns 0 for no values.
    """
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0
