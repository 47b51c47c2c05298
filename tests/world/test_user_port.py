"""Queued messages: each is given out exactly once, in the order in which it was said."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from work import lines_run

from simloop.kernel.effects import TakeQueued
from simloop.world.queued import Queued

SEEDED = settings(deadline=None, derandomize=True)
FIRST = "first"
queues = st.sampled_from(Queue)
takes = st.builds(TakeQueued, st.none() | queues, st.booleans())
Move = Queue | TakeQueued | str
moves = st.lists(queues | takes | st.just(FIRST), max_size=30)
"""A message to a queue, something taken, or the next prompt taken."""


def play(moves: Sequence[Move]) -> tuple[list[tuple[int, Queue]], list[list[int]], Queued]:
    """What was said, numbered; what was given out, one list for each time; and what is left."""
    queued, said, given_out = Queued(), list[tuple[int, Queue]](), list[list[int]]()
    for move in moves:
        if isinstance(move, Queue):
            queued.put(str(len(said)), move)
            said.append((len(said), move))
        elif isinstance(move, TakeQueued):
            given_out.append([int(text) for text in queued.take(move)])
        else:
            first = queued.take_first()
            given_out.append([] if first is None else [int(first)])
    return said, given_out, queued


@SEEDED
@given(moves)
def test_every_message_is_given_out_exactly_once(moves: list[Move]) -> None:
    said, given_out, left = play(moves)
    out = [number for numbers in given_out for number in numbers]
    out += [int(text) for text in left.take(TakeQueued())]
    assert sorted(out) == [number for number, _ in said]


@SEEDED
@given(moves)
def test_the_messages_of_a_queue_are_given_out_in_the_order_in_which_they_were_said(
    moves: list[Move],
) -> None:
    said, given_out, _ = play(moves)
    of = dict(said)
    for queue in Queue:
        out = [number for numbers in given_out for number in numbers if of[number] is queue]
        assert out == sorted(out)


@SEEDED
@given(moves)
def test_what_is_given_out_together_is_in_the_order_in_which_it_was_said(
    moves: list[Move],
) -> None:
    _, given_out, _ = play(moves)
    for numbers in given_out:
        assert numbers == sorted(numbers)


@SEEDED
@given(moves, takes)
def test_what_is_taken_is_of_the_queue_that_was_asked_for(
    moves: list[Move], take: TakeQueued
) -> None:
    said, _, queued = play(moves)
    of = dict(said)
    taken = [of[int(text)] for text in queued.take(take)]
    assert set(taken) <= ({take.queue} if take.queue is not None else set(Queue))
    if take.one:
        assert taken.count(Queue.STEERING) <= 1 >= taken.count(Queue.FOLLOW_UP)
    else:
        assert not any(queued.has(queue) for queue in Queue if take.queue in {None, queue})


@SEEDED
@given(moves)
def test_a_queue_has_something_exactly_while_something_can_be_taken_from_it(
    moves: list[Move],
) -> None:
    _, _, queued = play(moves)
    for queue in Queue:
        assert queued.has(queue) is bool(queued.take(TakeQueued(queue)))
        assert not queued.has(queue)


@pytest.mark.parametrize("queue", Queue)
def test_the_next_prompt_is_what_was_said_first_and_then_nothing(queue: Queue) -> None:
    queued = Queued()
    queued.put("a", queue)
    queued.put("b", queue)
    assert [queued.take_first() for _ in range(3)] == ["a", "b", None]


def test_the_next_prompt_is_what_was_said_first_whatever_it_was_said_for() -> None:
    queued = Queued()
    queued.put("a", Queue.FOLLOW_UP)
    queued.put("b", Queue.STEERING)
    assert [queued.take_first(), queued.take_first()] == ["a", "b"]


def test_the_one_message_of_both_queues_is_the_first_that_was_said() -> None:
    queued = Queued()
    queued.put("a", Queue.FOLLOW_UP)
    queued.put("b", Queue.STEERING)
    assert queued.take(TakeQueued(one=True)) == ["a"]


def test_of_nothing_nothing_is_taken() -> None:
    assert Queued().take(TakeQueued()) == []
    assert Queued().take_first() is None


class At:
    """A clock that stands where it is put."""

    def __init__(self) -> None:
        self.now_ns = 0


def test_what_is_planned_is_said_at_its_time_among_what_is_said_then() -> None:
    clock, queued = At(), Queued()
    later, soon = (30, Queue.STEERING, "later"), (10, Queue.FOLLOW_UP, "soon")
    queued.plan(clock, [later, soon])
    assert not queued
    queued.put("at once", Queue.STEERING)
    clock.now_ns = 20
    assert queued.has(Queue.FOLLOW_UP)
    queued.put("between", Queue.STEERING)
    clock.now_ns = 30
    assert queued.take(TakeQueued()) == ["at once", "soon", "between", "later"]
    assert not queued


def test_what_is_due_at_the_same_time_is_said_in_the_order_in_which_it_was_planned() -> None:
    clock, queued = At(), Queued()
    queued.plan(clock, [(5, Queue.STEERING, text) for text in ("a", "b", "c")])
    clock.now_ns = 5
    assert [queued.take_first() for _ in range(4)] == ["a", "b", "c", None]


@pytest.mark.parametrize("one", [True, False])
@pytest.mark.parametrize("queue", [None, *Queue])
def test_taking_costs_the_same_however_many_messages_wait(queue: Queue | None, one: bool) -> None:  # noqa: FBT001
    def work_of(count: int) -> int:
        queued = Queued()

        def say_and_take_all() -> None:
            for number in range(count):
                queued.put(str(number), Queue.STEERING if number % 2 else Queue.FOLLOW_UP)
            for _ in range(count):
                queued.take(TakeQueued(queue, one))

        return lines_run(say_and_take_all)

    assert work_of(400) < 2.5 * work_of(200)
