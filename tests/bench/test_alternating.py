"""Measurements take turns in an order that is drawn each time, in batches of a fair size."""

import asyncio
import gc
import itertools

import pytest

from simloop.bench import alternating
from simloop.bench.alternating import ENOUGH_TURNS, FEWEST_TURNS, WARM_UP_TURNS, alternate


class Timed:
    """Calls that say that each takes a microsecond, and notes each batch."""

    def __init__(
        self, name: str, seen: list[tuple[str, int]], interrupted: tuple[int, ...]
    ) -> None:
        self.name, self.seen, self.interrupted = name, seen, interrupted
        self.batches = 0
        self.collects: set[bool] = set()

    async def batch(self, calls: int) -> int:
        """Say how long the calls took."""
        self.seen.append((self.name, calls))
        self.batches += 1
        self.collects.add(gc.isenabled())
        return 3_000_000 if self.batches in self.interrupted else calls * 1_000


def batches(seconds: float = 0, interrupted: tuple[int, ...] = ()) -> list[tuple[str, int]]:
    """Return the counted batches of two measurements."""
    seen: list[tuple[str, int]] = []
    both = {name: Timed(name, seen, interrupted) for name in ("a", "b")}
    taken = asyncio.run(alternate(both, seconds))
    return seen[-2 * len(taken["a"]) :]


def test_each_turn_has_each_measurement_once_and_its_order_is_drawn() -> None:
    names = "".join(name for name, _ in batches(seconds=0.01))
    turns = {names[at : at + 2] for at in range(0, len(names), 2)}
    assert turns == {"ab", "ba"}


def test_a_batch_takes_about_two_hundred_microseconds() -> None:
    assert {calls for _, calls in batches()} == {256}


@pytest.mark.parametrize("interrupted", [(1,), (1, 2, 3, 4), (7, 11)])
def test_a_batch_is_no_smaller_if_the_machine_was_busy_while_its_size_was_sought(
    interrupted: tuple[int, ...],
) -> None:
    assert {calls for _, calls in batches(interrupted=interrupted)} == {256}


def test_measurements_that_are_alike_have_batches_of_equal_size() -> None:
    def sizes(alike: tuple[str, ...]) -> set[int]:
        seen: list[tuple[str, int]] = []
        # All tries of the first size of one are interrupted, so its batches stay at one call.
        both = {"a": Timed("a", seen, (1, 2, 3, 4, 5)), "b": Timed("b", seen, ())}
        asyncio.run(alternate(both, 0, alike))
        return {calls for _, calls in seen[-2 * FEWEST_TURNS :]}

    assert sizes(()) == {1, 256}
    assert sizes(("a", "b")) == {256}


def test_each_measurement_has_a_value_for_each_turn_per_call() -> None:
    both = {name: Timed(name, [], ()) for name in ("a", "b")}
    taken = asyncio.run(alternate(both, 0))
    assert taken == {"a": [1_000.0] * FEWEST_TURNS, "b": [1_000.0] * FEWEST_TURNS}


@pytest.mark.parametrize(
    ("turn_ns", "turns"), [(1_000, 2_000), (1_000_000, ENOUGH_TURNS), (10**9, FEWEST_TURNS)]
)
def test_a_busy_machine_has_more_time_for_enough_turns_and_slow_calls_have_fewer(
    turn_ns: int, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(step=turn_ns)
    monkeypatch.setattr(alternating, "perf_counter_ns", lambda: next(clock))
    taken = asyncio.run(alternate({"a": Timed("a", [], ())}, 0.05))
    assert len(taken["a"]) == turns


def test_there_are_twenty_turns_of_warm_up_where_time_allows() -> None:
    seen: list[tuple[str, int]] = []
    taken = asyncio.run(alternate({"a": Timed("a", seen, ())}, 0.01))
    full = [calls for _, calls in seen if calls == 256]
    assert len(full) - len(taken["a"]) >= WARM_UP_TURNS


def test_garbage_is_not_collected_while_turns_are_counted() -> None:
    timed = Timed("a", [], ())
    assert gc.isenabled()
    asyncio.run(alternate({"a": timed}, 0))
    assert timed.collects == {True, False}
    assert gc.isenabled()
