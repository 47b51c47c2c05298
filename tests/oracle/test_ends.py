"""Each invariant on the ends of runs is violated by a machine that decides otherwise."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from faultyruns import DONE, LOOK, later, misled, scenario, violated

from simloop import Scenario
from simloop.kernel.machine import Run, Transition
from simloop.kernel.signals import Signal
from simloop.kernel.states import Finished
from simloop.loops.pi import PiLoop
from simloop.loops.reference import ReferenceLoop
from simloop.messages import Outcome
from simloop.trace.entries import Ended

Advance = Callable[[Any, Run, Signal], Transition]


def ending(outcome: Outcome) -> Advance:
    def advance(right: Any, run: Run, signal: Signal) -> Transition:
        after, asked = right(run, signal)
        if type(after.state) is Finished:
            after = after.to(msgspec.structs.replace(after.state, outcome=outcome))
        return after, asked

    return advance


def uncounted(right: Any, run: Run, signal: Signal) -> Transition:
    after, asked = right(run, signal)
    if type(after.state) is Finished:
        after = Run(after.state, run.error_count, after.total_steps, after.compaction_attempts)
    return after, asked


FAILS = {"http": {"status": 500}}
REFUSED = {"http": {"status": 401}}
FILTERED = {"say": "No.", "finish": "content_filter"}

CASES = [
    ("limits-have-their-outcomes", ReferenceLoop, misled(ReferenceLoop, ending(Outcome.MAX_STEPS)),
     scenario(FAILS, limits={"max_error_count": 1})),
    ("limits-have-their-outcomes", ReferenceLoop,
     misled(ReferenceLoop, ending(Outcome.TOO_MANY_ERRORS)),
     scenario(LOOK, limits={"max_steps": 1})),
    ("replies-have-their-outcomes", PiLoop, misled(PiLoop, ending(Outcome.MODEL_ERROR)),
     scenario(FILTERED)),
    ("replies-have-their-outcomes", PiLoop, misled(PiLoop, ending(Outcome.CONTENT_FILTERED)),
     scenario(DONE)),
    ("last-failures-counted", ReferenceLoop, misled(ReferenceLoop, uncounted), scenario(REFUSED)),
]  # fmt: skip


def test_a_run_that_goes_on_after_its_time_limit_is_found() -> None:
    slow = {"look": {"returns": "seen", "takes": "30s"}}
    played = scenario(LOOK, DONE, tools=slow, limits={"max_wall_clock": "1s"})
    assert not violated(played, loop="opencode")
    assert "time-limits-end-runs-at-once" in violated(played, later(Ended, 20), loop="opencode")


@pytest.mark.parametrize(("name", "right", "wrong", "played"), CASES)
def test_a_machine_that_ends_its_runs_otherwise_is_found(
    name: str, right: Any, wrong: Any, played: Scenario
) -> None:
    assert not violated(played, loop=right)
    assert name in violated(played, loop=wrong)
