"""The user: each message is taken exactly once, in order, and a request to stop is recorded."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interrupting import cancellation, current, is_stopped, now_ms, play
from pacing import MS, nap
from worlds import Opened, in_world

from simloop.kernel.signals import AbortRequested, HookFailed, Signal, WallClockExpired
from simloop.messages import Queue, StopCause
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.recorder import Recorder
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.clock.timeouts import GRACE_NS, Timeout
from simloop.virtual.simulate import run_virtual, running_loop
from simloop.world.user_port import Cancellation, UserPort

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


def messages_of(moves: Sequence[Move]) -> tuple[list[tuple[int, Queue]], list[list[int]], UserPort]:
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
    sent, taken, left = messages_of(moves)
    of, rest = dict(sent), [int(text) for text in left.take()]
    out = [number for numbers in taken for number in numbers] + rest
    assert sorted(out) == [number for number, _ in sent]
    for numbers in (*taken, rest, *([n for n in out if of[n] is queue] for queue in Queue)):
        assert numbers == sorted(numbers)


@SEEDED
@given(moves, takes)
def test_what_is_taken_is_of_the_queue_that_was_asked_for(moves: list[Move], take: Take) -> None:
    sent, _, user = messages_of(moves)
    of, (queue, one) = dict(sent), take
    assert user.has() is (user.has(Queue.STEERING) or user.has(Queue.FOLLOW_UP))
    is_there = user.has(queue)
    taken = [of[int(text)] for text in user.take(queue, one=one)]
    assert is_there is bool(taken)
    assert set(taken) <= ({queue} if queue is not None else set(Queue))
    if one:
        assert len(taken) <= 1
    else:
        assert not any(user.has(each) for each in Queue if queue in {None, each})


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


def test_a_task_that_waits_is_stopped_there_and_then() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, float]:
        running_loop().call_later(0.005, cancelling.end_run, AbortRequested())
        return await is_stopped(nap(10)), now_ms()

    assert play(main) == (True, 5)


def test_a_check_stops_a_task_that_does_not_wait() -> None:
    async def main(cancelling: Cancellation) -> None:
        cancelling.end_run(AbortRequested())
        with pytest.raises(asyncio.CancelledError):
            cancelling.check()
        cancelling.take()

    play(main)


def test_the_first_signal_counts() -> None:
    async def main(cancelling: Cancellation) -> object:
        cancelling.end_run(AbortRequested())
        cancelling.end_run(WallClockExpired())
        return cancelling.take()

    assert play(main) == AbortRequested()


@pytest.mark.parametrize("stops", [1, 2, 3])
def test_taking_the_signal_takes_back_every_cancellation(stops: int) -> None:
    async def main(cancelling: Cancellation) -> int:
        for _stop in range(stops):
            running_loop().call_later(0.001, cancelling.end_run, AbortRequested())
        await is_stopped(nap(10))
        cancelling.take()
        return current()[1].cancelling()

    assert play(main) == 0


def test_taking_the_signal_does_not_hide_a_cancellation_from_outside() -> None:
    async def main(cancelling: Cancellation) -> int:
        loop, task = current()
        loop.call_later(0.001, cancelling.end_run, AbortRequested())
        loop.call_later(0.001, task.cancel)
        await is_stopped(nap(10))
        with pytest.raises(asyncio.CancelledError):
            cancelling.take()
        return task.cancelling()

    assert play(main) == 1


def test_a_task_that_was_being_cancelled_before_the_run_may_still_run() -> None:
    async def inside() -> object:
        loop, task = current()
        task.cancel()
        await is_stopped(nap(1))
        cancelling = Cancellation(loop)
        cancelling.open(task, None)
        cancelling.end_run(AbortRequested())
        return cancelling.take()

    assert run_virtual(inside()) == AbortRequested()


def test_code_that_swallows_the_end_of_the_run_is_stopped_again_after_the_grace() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, float, int]:
        running_loop().call_later(0.005, cancelling.end_run, AbortRequested())
        await is_stopped(nap(100))
        stopped = await is_stopped(nap(10_000))
        cancelling.take()
        return stopped, now_ms() - GRACE_NS / MS, current()[1].cancelling()

    assert play(main) == (True, 5, 0)


def test_of_two_planned_ends_the_earlier_one_counts() -> None:
    async def main(cancelling: Cancellation) -> object:
        cancelling.plan(5 * MS, WallClockExpired())
        cancelling.plan(3 * MS, AbortRequested())
        running_loop().advance_ns(6 * MS)
        with pytest.raises(asyncio.CancelledError):
            cancelling.check()
        return cancelling.take()

    assert play(main) == AbortRequested()


# ---------------------------------------------------------------------- asking instead of stopping


def test_while_it_polls_an_abort_cancels_nothing_and_is_found_by_the_next_check() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, float, int, object]:
        cancelling.polls = True
        running_loop().call_later(0.005, cancelling.end_run, AbortRequested())
        stopped = await is_stopped(nap(10))
        with pytest.raises(asyncio.CancelledError):
            cancelling.check()
        return stopped, now_ms(), current()[1].cancelling(), cancelling.take()

    assert play(main) == (False, 10, 0, AbortRequested())


@pytest.mark.parametrize("signal", [WallClockExpired(), HookFailed()], ids=repr)
def test_while_it_polls_whatever_else_ends_the_run_still_cancels(signal: Signal) -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, float, object]:
        cancelling.polls = True
        running_loop().call_later(0.005, cancelling.end_run, signal)
        return await is_stopped(nap(10)), now_ms(), cancelling.take()

    assert play(main) == (True, 5, signal)


def test_the_wall_clock_cancels_also_after_an_abort_that_nobody_has_asked_about() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, float, object, int]:
        cancelling.polls = True
        cancelling.plan(5 * MS, AbortRequested())
        cancelling.plan(8 * MS, WallClockExpired())
        stopped = await is_stopped(nap(100)), now_ms()
        return *stopped, cancelling.take(), current()[1].cancelling()

    assert play(main) == (True, 8, WallClockExpired(), 0)


# ---------------------------------------------------------------------- the next run


def test_what_is_opened_again_can_be_stopped_again() -> None:
    async def main(cancelling: Cancellation) -> tuple[object, bool, object, int]:
        cancelling.end_run(AbortRequested())
        first = cancelling.take()
        cancelling.open(current()[1], None)
        running_loop().call_later(0.005, cancelling.end_run, WallClockExpired())
        stopped = await is_stopped(nap(10))
        return first, stopped, cancelling.take(), current()[1].cancelling()

    assert play(main) == (AbortRequested(), True, WallClockExpired(), 0)


def test_a_run_is_stopped_as_soon_as_an_end_is_pending_or_due() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, bool]:
        cancelling.plan(5 * MS, WallClockExpired())
        before = cancelling.is_due
        running_loop().advance_ns(6 * MS)
        return before, cancelling.is_due

    assert play(main) == (False, True)


# ---------------------------------------------------------------------- an abort as a flag


def flagged(cancelling: Cancellation) -> list[float]:
    """Let an abort be a flag; return the times at which it is noted."""
    noted: list[float] = []
    cancelling.note_abort = lambda: noted.append(now_ms())
    return noted


def test_where_an_abort_is_a_flag_it_ends_nothing_and_is_noted_once() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, bool, bool, list[float]]:
        noted = flagged(cancelling)
        for delay in (0.002, 0.003):
            running_loop().call_later(delay, cancelling.end_run, AbortRequested())
        before = cancelling.aborted
        stopped = await is_stopped(nap(10))
        cancelling.check()
        return before, stopped, cancelling.aborted, noted

    assert play(main) == (False, False, True, [2])


def test_an_abort_that_is_a_flag_is_found_also_when_time_passes_without_waiting() -> None:
    async def main(cancelling: Cancellation) -> bool:
        flagged(cancelling)
        cancelling.plan(5 * MS, AbortRequested())
        running_loop().advance_ns(6 * MS)
        return cancelling.aborted

    assert play(main) is True


def test_where_an_abort_is_a_flag_the_wall_clock_still_ends_the_run() -> None:
    async def main(cancelling: Cancellation) -> tuple[bool, float, object]:
        flagged(cancelling)
        cancelling.end_run(AbortRequested())
        cancelling.plan(5 * MS, WallClockExpired())
        return await is_stopped(nap(10)), now_ms(), cancelling.take()

    assert play(main) == (True, 5, WallClockExpired())


def test_an_abort_that_is_a_flag_breaks_off_the_wait_that_it_is_for_and_no_other() -> None:
    async def main(cancelling: Cancellation) -> list[float]:
        flagged(cancelling)
        ended = []
        running_loop().call_later(0.005, cancelling.end_run, AbortRequested())
        with Timeout.after(running_loop(), None) as timeout, cancelling.breaking(timeout):
            await nap(100)
        ended.append(now_ms())
        with Timeout.after(running_loop(), None):
            await nap(100)
        return [*ended, now_ms()]

    assert play(main) == [5, 105]


def test_an_abort_that_is_a_flag_breaks_off_a_wait_that_begins_after_it() -> None:
    async def main(cancelling: Cancellation) -> float:
        flagged(cancelling)
        cancelling.end_run(AbortRequested())
        with Timeout.after(running_loop(), None) as timeout, cancelling.breaking(timeout):
            await nap(100)
        return now_ms()

    assert play(main) == 0


# ---------------------------------------------------------------------- a run that goes on


def test_a_run_that_goes_on_after_its_end_can_be_ended_again_by_the_same_wall_clock() -> None:
    async def main() -> tuple[object, bool, float, object]:
        cancelling = cancellation(wall_clock_ms=8)
        cancelling.end_run(AbortRequested())
        first = cancelling.take()
        cancelling.reopen()
        return first, await is_stopped(nap(10)), now_ms(), cancelling.take()

    assert run_virtual(main()) == (AbortRequested(), True, 8, WallClockExpired())
