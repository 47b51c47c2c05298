"""Each invariant on counters, limits and retries is violated by a machine that is misled, or by
a record with other numbers."""

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
    hearing,
    later,
    misled,
    scenario,
    violated,
)

from simloop import Scenario
from simloop.kernel import effects, signals
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import Run
from simloop.kernel.machine import Transition as Moved
from simloop.kernel.signals import Signal
from simloop.kernel.states import Finished, Measuring, Ready
from simloop.loops.reference import ReferenceLoop
from simloop.trace.entries import Answered, Backoff, Classified

BUSY = {"http": {"status": 429}}
DOWN = {"http": {"status": 500}}
WAITS = {"http": {"status": 429, "retry_after": "9s"}}
EMPTY = {"finish": "stop"}


def counting(**changes: int) -> Advance:
    """Have each move of the machine end with other counters: each a change of the right one."""

    def advance(right: Any, run: Run, signal: Signal) -> Moved:
        after, asked = right(run, signal)
        moved = {
            name: max(0, getattr(after, name) + by)
            for name, by in changes.items()
            if getattr(after, name) != getattr(run, name)
        }
        return msgspec.structs.replace(after, **moved), asked

    return advance


def forgets_failures(right: Any, run: Run, signal: Signal) -> Moved:
    after, asked = right(run, signal)
    if type(signal) is signals.ModelReplied:
        after = msgspec.structs.replace(after, error_count=0)
    return after, asked


def measures_again(right: Any, run: Run, signal: Signal) -> Moved:
    """Ask again after an empty reply, which counts as no failure."""
    after, asked = right(run, signal)
    if type(signal) is not signals.StepClosed or type(after.state) is Finished:
        return after, asked
    return run.to(Measuring()), (effects.TakeQueued(), effects.MeasureContext())


def numbers_each_failure_one(right: Any, run: Run, signal: Signal) -> Moved:
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
]  # fmt: skip


@pytest.mark.parametrize(("name", "loop", "played"), MACHINES)
def test_a_wrong_counter_or_retry_is_found(name: str, loop: Any, played: Scenario) -> None:
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
]  # fmt: skip


@pytest.mark.parametrize(("name", "edit", "played"), RECORDS)
def test_a_wrong_wait_class_or_answer_is_found(name: str, edit: Edit, played: Scenario) -> None:
    assert not violated(played)
    assert name in violated(played, edit)
