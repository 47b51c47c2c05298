"""The user: each message is taken exactly once, in order, and a request to stop is recorded."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupting import is_stopped
from pacing import MS, nap
from work import lines_run
from worlds import Opened, in_world

from simloop.kernel.signals import HookFailed
from simloop.messages import Queue, StopCause
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.recorder import Recorder
from simloop.virtual.clock.loop import VirtualLoop
from simloop.world.user_port import UserPort

SEEDED = settings(derandomize=True)
queues = st.sampled_from(Queue)
Take = tuple[Queue | None, bool]
"""The queue that is asked for, or None for both; and whether for one message only."""
takes: st.SearchStrategy[Take] = st.tuples(st.none() | queues, st.booleans())
Move = Queue | Take
moves: st.SearchStrategy[list[Move]] = st.lists(queues | takes, max_size=30)
"""A message to a queue, or something taken."""


def port() -> tuple[UserPort, list[AnyEntry], VirtualLoop]:
    loop, record = VirtualLoop(), list[AnyEntry]()
    return UserPort(Recorder(record, loop), loop), record, loop


def play(moves: Sequence[Move]) -> tuple[list[tuple[int, Queue]], list[list[int]], UserPort]:
    """What was sent, numbered; what was taken, one list for each time; and what is left."""
    user, sent, taken = port()[0], list[tuple[int, Queue]](), list[list[int]]()
    for move in moves:
        if isinstance(move, Queue):
            user.send(str(len(sent)), move)
            sent.append((len(sent), move))
        else:
            queue, one = move
            taken.append([int(text) for text in user.take(queue, one=one)])
    return sent, taken, user


@SEEDED
@given(moves)
def test_every_message_is_taken_once_and_in_the_order_in_which_it_was_sent(
    moves: list[Move],
) -> None:
    sent, taken, left = play(moves)
    of, rest = dict(sent), [int(text) for text in left.take()]
    out = [number for numbers in taken for number in numbers] + rest
    assert sorted(out) == [number for number, _ in sent]
    for numbers in (*taken, rest, *([n for n in out if of[n] is queue] for queue in Queue)):
        assert numbers == sorted(numbers)


@SEEDED
@given(moves, takes)
def test_what_is_taken_is_of_the_queue_that_was_asked_for(moves: list[Move], take: Take) -> None:
    sent, _, user = play(moves)
    of, (queue, one) = dict(sent), take
    taken = [of[int(text)] for text in user.take(queue, one=one)]
    assert set(taken) <= ({queue} if queue is not None else set(Queue))
    if one:
        assert len(taken) <= 1
    else:
        assert not any(user.has(each) for each in Queue if queue in {None, each})


@SEEDED
@given(moves)
def test_a_queue_has_something_exactly_while_something_can_be_taken_from_it(
    moves: list[Move],
) -> None:
    _, _, user = play(moves)
    assert user.has() is (user.has(Queue.STEERING) or user.has(Queue.FOLLOW_UP))
    for queue in Queue:
        assert user.has(queue) is bool(user.take(queue))
        assert not user.has(queue)
    assert not user.has()


# ------------------------------------------------------------------------- planned messages


def test_a_message_is_for_the_next_request_unless_it_says_otherwise() -> None:
    user, _, _ = port()
    user.send("a")
    assert (user.has(Queue.FOLLOW_UP), user.take(Queue.STEERING)) == (False, ["a"])


def test_the_one_message_of_both_queues_is_the_first_that_was_sent() -> None:
    user, _, _ = port()
    user.send("a", Queue.FOLLOW_UP)
    user.send("b", Queue.STEERING)
    assert [user.take(one=True), user.take(one=True)] == [["a"], ["b"]]


def test_messages_planned_for_one_time_are_sent_in_the_order_in_which_they_were_planned() -> None:
    user, _, loop = port()
    user.plan([(5, queue, text) for queue, text in zip(Queue, "ba", strict=True)])
    loop.now_ns = 5
    assert [user.take(one=True) for _ in range(3)] == [["b"], ["a"], []]


def test_a_planned_message_is_sent_at_its_time_among_those_sent_then() -> None:
    user, _, loop = port()
    later, soon = (30, Queue.STEERING, "later"), (10, Queue.FOLLOW_UP, "soon")
    user.plan([later, soon])
    assert not user.has()
    user.send("at once")
    loop.now_ns = 20
    assert user.has(Queue.FOLLOW_UP)
    user.send("between")
    loop.now_ns = 30
    assert user.take() == ["at once", "soon", "between", "later"]
    assert not user.has()


@pytest.mark.parametrize("one", [True, False])
@pytest.mark.parametrize("queue", [None, *Queue])
def test_taking_costs_the_same_however_many_messages_wait(queue: Queue | None, one: bool) -> None:  # noqa: FBT001
    def work_of(count: int) -> int:
        user, _, _ = port()

        def send_and_take_all() -> None:
            for number in range(count):
                user.send(str(number), Queue.STEERING if number % 2 else Queue.FOLLOW_UP)
            for _ in range(count):
                user.take(queue, one=one)

        return lines_run(send_and_take_all)

    assert work_of(400) < 2.5 * work_of(200)


# ------------------------------------------------------------------------- the request to stop


def test_a_run_is_stopped_by_its_user_and_records_who_stopped_it() -> None:
    async def main(opened: Opened) -> tuple[bool, bool, list[StopCause], int]:
        user = opened.world.user
        before = user.stopped
        opened.loop.call_later(0.005, user.stop)
        stopped = await is_stopped(nap(10))
        causes = [entry.cause for entry in opened.of(entries.StopRequested)]
        return before, user.stopped and stopped, causes, opened.loop.now_ns // MS

    assert in_world(main) == (False, True, [StopCause.ABORT], 5)


def test_the_wall_clock_stops_a_run_and_is_recorded_as_the_cause() -> None:
    async def main(opened: Opened) -> tuple[bool, list[tuple[int, StopCause]]]:
        stopped = await is_stopped(nap(10))
        found = opened.of(entries.StopRequested)
        return stopped, [(entry.at_ns // MS, entry.cause) for entry in found]

    assert in_world(main, wall_clock_ms=7) == (True, [(7, StopCause.WALL_CLOCK)])


def test_a_hook_that_ends_its_run_is_not_recorded_as_the_user() -> None:
    async def main(opened: Opened) -> tuple[bool, list[AnyEntry]]:
        opened.world.user.cancellation.end_run(HookFailed())
        return opened.world.user.stopped, opened.entries

    assert in_world(main) == (True, [])


def test_without_a_run_a_request_to_stop_does_nothing() -> None:
    user, record, _ = port()
    user.stop()
    assert (user.stopped, record) == (False, [])


def test_a_message_is_given_out_and_recorded_as_text_that_can_be_written() -> None:
    user, record, _ = port()
    user.send("\ud800!")
    assert user.take() == ["\ufffd!"]
    assert [entry.text for entry in record if isinstance(entry, entries.Queued)] == ["\ufffd!"]
