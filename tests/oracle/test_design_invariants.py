"""Each invariant on one design is violated by its machine, misled, or by a wrong record."""

from typing import Any

import msgspec
import pytest
from faultyruns import DONE, LOOK, dropped, hearing, misled, scenario, violated

from simloop import Limits, Scenario
from simloop.kernel import effects, signals
from simloop.kernel.machine import Run, Transition
from simloop.kernel.signals import Signal
from simloop.loops.opencode import OpencodeLoop, OpencodeOptions
from simloop.loops.pi import PiLoop, PiOptions
from simloop.trace.entries import Notice

TWICE = {"max_steps": 2}
ENDS = {"look": {"returns": "ok", "terminate": True}}


class Late(OpencodeLoop):
    """It writes its note one step after the last one."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self.max_steps += 1


class Early(OpencodeLoop):
    """It writes its note one step before the last one."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self.max_steps -= 1


class Enforced(OpencodeLoop):
    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits, OpencodeOptions(steps="enforce"))


def offers_tools(right: Any, run: Run, signal: Signal) -> Transition:
    after, asked = right(run, signal)
    return after, tuple(
        msgspec.structs.replace(each, tools=True) if type(each) is effects.CallModel else each
        for each in asked
    )


class Terminated(PiLoop):
    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits, PiOptions(terminate=True))


CASES = [
    ("last-step-has-note", OpencodeLoop, Late, scenario(LOOK, DONE, limits=TWICE)),
    ("last-step-has-note", OpencodeLoop, Early, scenario(LOOK, DONE, limits=TWICE)),
    ("last-step-has-note", Enforced, misled(Enforced, offers_tools),
     scenario(LOOK, DONE, limits=TWICE)),
    ("terminated-batches-end-run", Terminated,
     misled(Terminated, hearing(signals.ToolsReturned, terminate=False)),
     scenario(LOOK, DONE, tools=ENDS)),
    ("terminated-batches-end-run", Terminated,
     misled(Terminated, hearing(signals.ToolsReturned, terminate=True)), scenario(LOOK, DONE)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "right", "wrong", "played"), CASES)
def test_a_design_that_breaks_its_promise_is_found(
    name: str, right: Any, wrong: Any, played: Scenario
) -> None:
    assert not violated(played, loop=right)
    assert name in violated(played, loop=wrong)


def test_a_long_run_that_is_not_reported_is_found() -> None:
    played = scenario(LOOK, LOOK, DONE, warn_after=2)
    assert not violated(played)
    assert "long-runs-reported" in violated(played, dropped(Notice))
