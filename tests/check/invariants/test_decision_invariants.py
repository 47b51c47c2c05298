"""Each invariant on decisions, and on limits in time, is violated by a machine that is misled, or
by a record with other times."""

from typing import Any

import pytest
from faultyruns import (
    DONE,
    LOOK,
    Edit,
    changed,
    dropped,
    hearing,
    later,
    misled,
    remembering,
    scenario,
    violated,
)

from simloop import Scenario
from simloop.kernel import effects, signals
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import Run, Transition
from simloop.kernel.signals import Signal
from simloop.kernel.states import Finished
from simloop.loops.opencode import OpencodeLoop
from simloop.loops.pi import PiLoop
from simloop.loops.react import ReactLoop
from simloop.loops.reference import ReferenceLoop
from simloop.messages import FinishReason, Outcome, Queue
from simloop.trace.entries import Classified, Ended, StopRequested

SLOW = {"say": "Done.", "pace": {"first_part": "9s"}}
MORE = [{"say": "Also this.", "after": "text-delta"}]
LATER = [{"say": "Also this.", "after": "text-delta", "follow_up": True}]
DOWN = {"http": {"status": 500}}
CUT = {"say": "Half.", "finish": "length"}
VETO = [{"at": "before_tool_call", "block": "no"}]


def takes_answers_for_limits(right: Any, run: Run, signal: Signal) -> Transition:
    after, asked = right(run, signal)
    if type(after.state) is Finished:
        return after.to(Finished(Outcome.MAX_STEPS, "max_steps")), asked
    return after, asked


def counts_each_step_twice(right: Any, run: Run, signal: Signal) -> Transition:
    after, asked = right(run, signal)
    more = after.total_steps - run.total_steps
    return type(after)(after.state, after.error_count, after.total_steps + more), asked


def takes_and_ends(right: Any, run: Run, signal: Signal) -> Transition:
    if type(signal) is not signals.StepClosed:
        moved: Transition = right(run, signal)
        return moved
    after, asked = right(run, signals.StepClosed())
    return after, (effects.TakeQueued(), *asked)


def takes_follow_ups_first(right: Any, run: Run, signal: Signal) -> Transition:
    after, asked = right(run, signal)
    early = tuple(
        effects.TakeQueued(Queue.FOLLOW_UP) if type(each) is effects.TakeQueued else each
        for each in asked
    )
    return after, early


def forgets_no_failure(right: Any, run: Run, signal: Signal) -> Transition:
    after, asked = right(run, signal)
    failures = max(run.error_count, after.error_count)
    return type(after)(after.state, failures, after.total_steps), asked


MACHINES = [
    ("answers-complete-runs", misled(ReferenceLoop, takes_answers_for_limits),
     scenario(DONE, limits={"max_steps": 1})),
    ("broken-replies-end-runs", misled(PiLoop, remembering(FinishReason.TOOL_CALLS)),
     scenario({"call": {"look": {}}, "finish": "content_filter"}, DONE, loop="pi")),
    ("broken-replies-end-runs", misled(PiLoop, remembering(FinishReason.STOP)),
     scenario({"say": "Half.", "finish": "error"}, loop="pi")),
    ("aborted-calls-abort-runs",
     misled(PiLoop, hearing(signals.ModelFailed, error=ErrorClass.SERVER)),
     scenario({"error": {"message": "stopped", "code": "aborted"}}, loop="pi")),
    ("every-attempt-counted", misled(ReactLoop, counts_each_step_twice),
     scenario(LOOK, DONE, loop="react")),
    ("last-message-role",
     misled(ReferenceLoop, hearing(signals.StepClosed, steering=True)), scenario(DONE, DONE)),
    ("no-completion-with-queued-messages",
     misled(ReferenceLoop, hearing(signals.StepClosed, steering=False)),
     scenario(DONE, DONE, queue=MORE)),
    ("no-completion-with-queued-messages", misled(OpencodeLoop, takes_and_ends),
     scenario(DONE, DONE, queue=MORE, loop="opencode")),
    ("follow-ups-taken-at-run-end", misled(PiLoop, takes_follow_ups_first),
     scenario(LOOK, DONE, DONE, queue=MORE + LATER, loop="pi")),
    ("follow-ups-taken-at-run-end", misled(PiLoop, takes_follow_ups_first),
     scenario(DONE, DONE, DONE, queue=MORE + LATER, loop="pi")),
    ("vetoes-end-runs", misled(OpencodeLoop, hearing(signals.ToolsReturned, blocked=False)),
     scenario(LOOK, DONE, hooks=VETO, loop="opencode")),
    ("counters-reset-after-reply", misled(OpencodeLoop, forgets_no_failure),
     scenario(DOWN, LOOK, DONE, loop="opencode")),
    ("counters-never-decrease", misled(ReactLoop, counts_each_step_twice),
     scenario(LOOK, DONE, loop="react")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "loop", "played"), MACHINES)
def test_a_wrong_decision_is_found(name: str, loop: Any, played: Scenario) -> None:
    assert not violated(played)
    assert name in violated(played, loop=loop)


@pytest.mark.parametrize(
    "played",
    [
        scenario(DOWN, DOWN, limits={"max_error_count": 2}),
        scenario(CUT, limits={"max_compaction_attempts": 0}),
        scenario(DONE, limits={"max_compaction_attempts": 0}, context={"over": [True]}),
    ],
    ids=["no retry is left", "no forced compaction is left", "no compaction is left"],
)
def test_a_limit_that_is_reached_excuses_a_decision(played: Scenario) -> None:
    assert not violated(played)


def unheard_stop(record: list[Any]) -> list[Any]:
    return later(Ended, 5)(dropped(StopRequested)(record))


RECORDS = [
    ("failure-class-matches-policy", changed(Classified, error_class=ErrorClass.SERVER),
     scenario({"http": {"status": 408}}, DONE)),
    ("model-call-timeouts", later(Classified, 5),
     scenario(SLOW, DONE, limits={"first_part_timeout": "5s"})),
    ("model-call-timeouts", later(Classified, -2),
     scenario(SLOW, DONE, limits={"first_part_timeout": "5s"})),
    ("max-wall-clock-enforced", later(StopRequested, -1),
     scenario(SLOW, limits={"max_wall_clock": "2s"})),
    ("max-wall-clock-enforced", unheard_stop, scenario(SLOW, limits={"max_wall_clock": "2s"})),
]  # fmt: skip


@pytest.mark.parametrize(("name", "edit", "played"), RECORDS)
def test_a_wrong_class_or_time_is_found(name: str, edit: Edit, played: Scenario) -> None:
    assert not violated(played)
    assert name in violated(played, edit)
