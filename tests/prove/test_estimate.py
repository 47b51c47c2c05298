"""The states of a machine are estimated from small explorations, and well enough to refuse many."""

import pytest

from simloop.kernel.limits import Limits
from simloop.kernel.machine import Machine, Run, Transition
from simloop.kernel.signals import Signal
from simloop.loops.react import ReactLoop
from simloop.loops.reference import ReferenceLoop
from simloop.prove import explore
from simloop.prove.explore import count_states, estimate
from simloop.runs.loop import machine_for

LIMITS = Limits(max_steps=12, max_error_count=4, max_compaction_attempts=0, max_steps_per_round=1)


@pytest.mark.parametrize("loop", ["reference", "react", "opencode", "pi"])
def test_the_estimate_is_exact_where_every_reply_reports_one_step(loop: str) -> None:
    counted = count_states(machine_for(loop, LIMITS), LIMITS, 100_000)
    assert estimate(lambda limits: machine_for(loop, limits), LIMITS).states == counted


def test_the_estimate_is_low_rather_than_high_where_replies_report_more() -> None:
    limits = Limits(max_steps=6, max_error_count=2, max_compaction_attempts=0)
    counted = count_states(ReferenceLoop(limits), limits, 100_000)
    assert counted is not None
    assert counted / 2 < estimate(ReferenceLoop, limits).states < counted


def test_an_estimate_of_limits_however_high_costs_a_few_thousand_states() -> None:
    advanced = 0

    class Counted(ReferenceLoop):
        def advance(self, run: Run, signal: Signal) -> Transition:
            nonlocal advanced
            advanced += 1
            return super().advance(run, signal)

    high = Limits(max_steps=10**6, max_error_count=10**6, max_compaction_attempts=10**6)
    assert estimate(Counted, high).states > 10**18
    assert advanced < 100_000


def test_the_limit_to_lower_is_named_with_a_value_that_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explore, "MAX_NODES", 1_000)
    refused = estimate(ReactLoop, Limits(max_steps=400))
    assert refused.limit == "max_steps"
    assert estimate(ReactLoop, Limits(max_steps=refused.fitting)).limit == ""
    assert estimate(ReactLoop, Limits(max_steps=refused.fitting + 1)).limit == "max_steps"


def test_a_machine_whose_states_are_no_matter_of_limits_is_not_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explore, "_MOST", 100)
    monkeypatch.setattr(explore, "MAX_NODES", 200)
    machine: Machine = ReactLoop(Limits(max_steps=50))
    assert estimate(lambda _: machine, Limits(max_steps=10**6)).limit == ""
