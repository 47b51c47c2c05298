"""How a proof reads, where a loop that is shipped does not show it."""

from dataclasses import replace

import pytest

from simloop.cli.explore import proof_lines
from simloop.kernel.limits import Limits
from simloop.loops.react import ReactLoop
from simloop.prove.graph import RuleViolation
from simloop.prove.proof import prove


def counterexample_shown(length: int) -> list[str]:
    """The lines of a violation that has a counterexample of so many steps, without their indent."""
    limits = Limits(max_steps=5)
    proof = prove(ReactLoop(limits), limits)
    steps = max(proof.endings.values(), key=len)[:length]
    assert len(steps) == length
    told = list(proof_lines(replace(proof, violations=(RuleViolation("It.", steps),)), limits, {}))
    return [line.strip() for line in told[told.index("WRONG        It.") + 1 :]]


def test_of_a_long_counterexample_the_end_is_shown_and_how_much_came_before() -> None:
    whole = counterexample_shown(12)
    assert whole[0].startswith("began ")
    first, *rest = counterexample_shown(16)
    assert first == "... 4 transitions before"
    assert len(rest) == 12
    assert rest[:8] == whole[4:]


@pytest.mark.parametrize("length", [12, 13])
def test_a_counterexample_of_which_one_step_would_be_left_out_is_shown_whole(length: int) -> None:
    shown = counterexample_shown(length)
    assert len(shown) == length
    assert shown[0].startswith("began ")
