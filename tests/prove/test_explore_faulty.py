"""Of 36 faulty machines exploration finds all but those that only a specification could find."""

import pytest
from broken import LOOPS, replayed
from faultlist import FAULTS
from faulty import WIDE, Fault, Twisted, keep

from simloop.kernel.limits import Limits
from simloop.kernel.machine import AbortRule, Machine
from simloop.prove.explore import explore
from simloop.prove.graph import RuleViolation
from simloop.runs.loop import machine_for

FOUND = [fault for fault in FAULTS if not fault.spec]


def violations(machine: Machine, limits: Limits = WIDE) -> list[RuleViolation]:
    return explore(machine, limits)[1]


def test_there_are_36_and_each_of_the_four_loops_has_some() -> None:
    assert len({str(fault) for fault in FAULTS}) == len(FAULTS) == 36
    assert {fault.loop.partition("@")[0] for fault in FAULTS} == set(LOOPS)


@pytest.mark.parametrize("fault", FOUND, ids=str)
def test_a_faulty_machine_is_found_with_a_way_that_it_goes(fault: Fault) -> None:
    found = violations(fault.made(), fault.limits)
    assert found
    for violation in found:
        replayed(fault.made(), violation.counterexample)


@pytest.mark.parametrize("fault", [one for one in FAULTS if one.spec], ids=str)
def test_a_fault_that_another_design_has_on_purpose_needs_a_specification(fault: Fault) -> None:
    assert violations(fault.made(), fault.limits) == []


@pytest.mark.parametrize("loop", [*LOOPS, "pi@0.87.1", "opencode@1.18.34", "reference@documented"])
def test_without_its_fault_a_machine_with_a_map_of_every_move_is_found_sound(loop: str) -> None:
    assert violations(Twisted(machine_for(loop, WIDE), keep)) == []


@pytest.mark.parametrize("loop", ["opencode", "reference@documented"])
def test_a_version_that_acts_after_an_abort_is_found_if_it_does_not_declare_it(loop: str) -> None:
    machine = Twisted(machine_for(loop, WIDE), keep)
    machine.abort_rule = AbortRule()
    assert any("after an abort" in one.what for one in violations(machine))
