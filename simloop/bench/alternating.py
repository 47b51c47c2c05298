"""Measurements that alternate in one process, so that all have an equal share of the noise.

The rules to keep: the order of each turn is drawn anew, so that a drift of the machine hits each
alike, and each follows each of the others as often: a batch is faster after one that ran the same
code. Nothing but the calls is inside a measured interval.
"""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from time import perf_counter_ns

from simloop.bench.point_calls import Calls

BATCH_NS = 200_000
"""A batch is shorter than the time that a busy machine gives a process at once."""
WARM_UP_TURNS = 20
FEWEST_TURNS, ENOUGH_TURNS, _MOST_TURNS = 21, 101, 2_000
_PATIENCE = 20
"""A measurement takes up to so many times as long until it has enough turns."""
_TRIES = 5


async def alternate(
    measured: Mapping[str, Calls], seconds: float, alike: Sequence[str] = ()
) -> dict[str, list[float]]:
    """Return the nanoseconds per call of each, one value for each turn.

    A batch takes about 200 us, and has at least one call. Those that are `alike` have batches of
    equal size: the first calls of a batch are slower, so a smaller one costs more per call. The
    first 20 turns are warm-up, or fewer if they take longer than the measurement.
    """
    calls = {name: await _calls_of_batch(each) for name, each in measured.items()}
    calls |= dict.fromkeys(alike, max((calls[name] for name in alike), default=1))
    end_ns = perf_counter_ns() + seconds * 1e9
    for _ in range(WARM_UP_TURNS):
        for name, each in measured.items():
            await each.batch(calls[name])
        if perf_counter_ns() > end_ns:
            break
    taken: dict[str, list[float]] = {name: [] for name in measured}
    order, noise = list(measured), Random()  # noqa: S311 - this draws an order
    with _no_collections():
        turns, start_ns = 0, perf_counter_ns()
        while _goes_on(turns, (perf_counter_ns() - start_ns) / 1e9, seconds):
            for name in order:
                taken[name].append(await measured[name].batch(calls[name]) / calls[name])
            noise.shuffle(order)
            turns += 1
    return taken


def _goes_on(turns: int, taken_s: float, seconds: float) -> bool:
    """Return whether another turn is needed: a busy machine allows few in the given time.

    With 21 turns of which a few were interrupted, an interval says nothing.
    """
    if taken_s < seconds:
        return turns < _MOST_TURNS
    return turns < (ENOUGH_TURNS if taken_s < _PATIENCE * seconds else FEWEST_TURNS)


async def _calls_of_batch(calls: Calls) -> int:
    number = 1
    while await _least_ns(calls, number) < BATCH_NS:
        number *= 2
    return number


async def _least_ns(calls: Calls, number: int) -> int:
    """Return the least time of some batches: one that is interrupted looks long enough too early.

    A batch of a few calls would have the time of cold caches in each of them.
    """
    return min([await calls.batch(number) for _ in range(_TRIES)])


@contextmanager
def _no_collections() -> Iterator[None]:
    """Collect garbage before a measurement, and not during it."""
    collects = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
