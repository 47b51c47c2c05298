"""Each invariant on machines is violated by a machine that is misled, or by a record of an engine
that is wrong: with other numbers, decisions or times."""

import dataclasses
from typing import Any

import msgspec
import pytest
from faultyruns import (
    DONE,
    LOOK,
    Advance,
    Edit,
    changed,
    dropped,
    hearing,
    later,
    misled,
    remembering,
    scenario,
    sending,
    violated,
)

from simloop import Scenario
from simloop.kernel import effects, signals
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import Run, Transition
from simloop.kernel.signals import Signal
from simloop.kernel.states import Finished, Measuring, Ready
from simloop.loops.opencode import OpencodeLoop
from simloop.loops.pi import PiLoop
from simloop.loops.react import ReactLoop
from simloop.loops.reference import ReferenceLoop
from simloop.messages import FinishReason, Message, Outcome, Queue, SummaryMessage, ToolMessage
from simloop.trace.entries import (
    Answered,
    Backoff,
    Classified,
    Compaction,
    Ended,
    Finish,
    Request,
    StopRequested,
)

DOWN = {"http": {"status": 500}}
WAITS = {"http": {"status": 429, "retry_after": "9s"}}
EMPTY = {"finish": "stop"}


def counting(**changes: int) -> Advance:
    """Have each move of the machine end with other counters: each a change of the right one."""

    def advance(right: Any, run: Run, signal: Signal) -> Transition:
        after, asked = right(run, signal)
        moved = {
            name: max(0, getattr(after, name) + by)
            for name, by in changes.items()
            if getattr(after, name) != getattr(run, name)
        }
        return msgspec.structs.replace(after, **moved), asked

    return advance


def forgets_failures(right: Any, run: Run, signal: Signal) -> Transition:
    after, asked = right(run, signal)
    if type(signal) is signals.ModelReplied:
        after = msgspec.structs.replace(after, error_count=0)
    return after, asked


def measures_again(right: Any, run: Run, signal: Signal) -> Transition:
    """Ask again after an empty reply, which counts as no failure."""
    after, asked = right(run, signal)
    if type(signal) is not signals.StepClosed or type(after.state) is Finished:
        return after, asked
    return run.to(Measuring()), (effects.TakeQueued(), effects.MeasureContext())


def numbers_each_failure_one(right: Any, run: Run, signal: Signal) -> Transition:
    after, asked = right(run, signal)
    return after, tuple(
        msgspec.structs.replace(each, failures=1) if type(each) is effects.Backoff else each
        for each in asked
    )


def exceeding(**limits: int) -> Any:
    """Return a loop that declares its limits, and keeps others: each so much larger."""

    class Exceeding(ReferenceLoop):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            kept = {name: getattr(self.limits, name) + by for name, by in limits.items()}
            self.limits = dataclasses.replace(self.limits, **kept)

    return Exceeding


class BeginningWithFailures(ReferenceLoop):
    """A loop that remembers its last run."""

    begun = -1

    def start(self) -> Run:
        self.begun += 1
        return Run(Ready(), self.begun)


LONG = {"say": "x" * 200, "call": {"look": {}}}
SUMMARY = {"say": "Short."}
SMALL = {"window": 120, "keep_turns": 1}
DROPS = {**SMALL, "strategy": "drop-oldest"}
CUT = {"say": "x" * 40, "finish": "length"}
TOO_LONG = {"http": {"status": 400, "message": "prompt is too long"}}


def long_run(**given: object) -> Scenario:
    """Two long replies, of which the first is compacted before the third request."""
    options: dict[str, object] = {"compaction": SMALL, "summaries": [SUMMARY], **given}
    return scenario(LONG, LONG, DONE, **options)


def without_results(messages: tuple[Message, ...]) -> list[Message]:
    return [each for each in messages if type(each) is not ToolMessage]


def with_another_summary(messages: tuple[Message, ...]) -> list[Message]:
    return [SummaryMessage("SHORT."), *messages[1:]]


SLOW = {"say": "Done.", "pace": {"first_part": "9s"}}
MORE = [{"say": "Also this.", "after": "text-delta"}]
LATER = [{"say": "Also this.", "after": "text-delta", "follow_up": True}]
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


def unheard_stop(record: list[Any]) -> list[Any]:
    return later(Ended, 5)(dropped(StopRequested)(record))


MACHINES = [
    ("counters-zero-at-run-start", BeginningWithFailures, scenario(DONE, DONE, then=["Again."])),
    ("counters-never-decrease", misled(ReferenceLoop, forgets_failures), scenario(DOWN, DONE)),
    ("every-attempt-counted", misled(ReferenceLoop, counting(error_count=1)),
     scenario(DOWN, DONE, limits={"max_error_count": 9})),
    ("useless-replies-count-as-errors", misled(ReferenceLoop, measures_again),
     scenario(EMPTY, DONE)),
    ("limits-enforced", exceeding(max_steps=1),
     scenario(LOOK, LOOK, DONE, limits={"max_steps": 2})),
    ("limits-not-enforced-early", exceeding(max_steps=-1),
     scenario(LOOK, LOOK, DONE, limits={"max_steps": 3})),
    ("max-steps-per-round-enforced", misled(ReferenceLoop, hearing(signals.ModelReplied, steps=1)),
     scenario({"call": {"look": {}}, "steps": 4}, DONE, limits={"max_steps_per_round": 3})),
    ("failures-numbered-in-order", misled(ReferenceLoop, numbers_each_failure_one),
     scenario(DOWN, DOWN, DONE)),
    ("retries-match-policy",
     misled(ReferenceLoop, hearing(signals.ModelFailed, retryable=True)),
     scenario({"http": {"status": 400}}, DONE)),
    ("retries-match-policy",
     misled(ReferenceLoop, hearing(signals.ModelFailed, retryable=False)), scenario(DOWN, DONE)),
    ("compactions-have-a-reason",
     misled(ReferenceLoop, hearing(signals.ContextMeasured, over=True)),
     long_run(compaction={**DROPS, "window": 4000}, summaries=[])),
    ("full-contexts-compacted", misled(ReferenceLoop, hearing(signals.ContextMeasured, over=False)),
     long_run(compaction=DROPS, summaries=[])),
    ("useless-compaction-ends-run",
     misled(ReferenceLoop, hearing(signals.ContextCompacted, shrunk=True)),
     scenario(CUT, DONE, compaction=DROPS)),
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
def test_a_wrong_machine_is_found(name: str, loop: Any, played: Scenario) -> None:
    assert not violated(played)
    assert name in violated(played, loop=loop)


RECORDS = [
    ("backoff-matches-policy", changed(Backoff, delay_ns=4_000_000_000), scenario(DOWN, DONE)),
    (
        "backoff-matches-policy",  # it waits for the Retry-After of the failure before
        changed(Backoff, 1, delay_ns=9_000_000_000),
        scenario(WAITS, EMPTY, DONE),
    ),
    ("backoff-lasts-as-recorded", later(signals.BackoffElapsed, -1), scenario(DOWN, DONE)),
    ("failure-class-matches-policy", changed(signals.ModelFailed, retryable=True),
     scenario({"http": {"status": 400}})),
    ("failure-class-matches-policy", changed(Classified, error_class=ErrorClass.SERVER),
     scenario({"http": {"status": 401}})),
    ("failure-class-matches-policy", changed(Classified, error_class=ErrorClass.OVERFLOW),
     scenario({"http": {"status": 429, "message": "prompt is too long"}}, DONE)),
    ("failure-class-matches-policy", changed(Classified, error_class=ErrorClass.BAD_REQUEST),
     scenario({"error": {"message": "busy", "code": "overloaded_error"}}, DONE)),
    ("answers-match-tool-runs", changed(Answered, is_error=False),
     scenario({"call": {"look": {"none": 1}}}, DONE, tools={"look": {}})),
    ("compaction-sizes-match-context", changed(signals.ContextCompacted, shrunk=True),
     scenario(CUT, DONE, compaction=DROPS)),
    ("compaction-sizes-match-context", changed(Compaction, tokens_after=700), long_run()),
    ("summaries-come-from-model", sending(3, with_another_summary), long_run()),
    ("summaries-come-from-model", changed(Finish, 2, reason=FinishReason.LENGTH), long_run()),
    ("summaries-come-from-model", changed(Request, 2, kept=2), long_run()),
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
def test_a_wrong_record_is_found(name: str, edit: Edit, played: Scenario) -> None:
    assert not violated(played)
    assert name in violated(played, edit)


def test_a_compaction_in_vain_that_no_limit_counts_must_end_the_run() -> None:
    played = scenario(LOOK, LOOK, DONE, context={"over": [True], "shrunk": [False]})
    assert not violated(played, loop="opencode")
    loop = misled(OpencodeLoop, hearing(signals.ContextCompacted, shrunk=True))
    assert violated(played, loop=loop) == {"useless-compaction-ends-run"}


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
