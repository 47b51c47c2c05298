import pytest
from every import FAULTS
from fault import Edit, Fault, applied, edited, function_of, play
from incases import in_cases

from simloop.check.invariants.judge import judge
from simloop.check.invariants.subject import Subject
from simloop.check.trial import Rules, failure_of
from simloop.runs.plan import Plan


def judged(fault: Fault, expected: str) -> tuple[tuple[str, ...], set[str]]:
    """What a run of the witness fails of what is expected, and the invariants that it violates."""
    simulation, failed = play(fault, expected)
    found = judge(Subject.of(simulation), simulation.trace.entries).violations
    broken = {violation.name for violation in found}
    if not broken:
        plan = Plan(fault.scenario("{}"), {"loop": fault.given_loop()})
        error = failure_of(plan, Rules(expectations=False))
        if error is not None and not error.name.startswith("Script"):  # the witness is short
            broken.add(error.name)
    return failed, broken


@pytest.mark.slow
@in_cases(FAULTS)
def test_the_witness_and_the_rules_tell_the_faulty_loop_from_the_correct_one(fault: Fault) -> None:
    assert judged(fault, fault.right) == ((), set())
    with applied(fault):
        assert play(fault, fault.right)[1] != ()
        failed, broken = judged(fault, fault.wrong)
    assert failed == ()
    assert set(fault.violates) <= broken
    assert play(fault, fault.right)[1] == ()


def test_the_words_of_each_edit_stand_in_the_code_once() -> None:
    for fault in FAULTS:
        for edit in fault.edits:
            assert edited(edit.target, fault.edits) != function_of(edit.target).__code__


def test_each_fault_has_a_name_of_its_own() -> None:
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names)


def test_there_are_enough_faults_of_each_kind() -> None:
    parts = [fault.part for fault in FAULTS]
    assert len(FAULTS) >= 70
    assert parts.count("agent") >= 20
    assert parts.count("machine") >= 20
    assert sum(len(fault.circumstances) > 1 for fault in FAULTS) >= 20
    assert sum(bool(fault.unusual) for fault in FAULTS) >= 10


def test_words_that_no_longer_stand_in_the_code_are_an_error() -> None:
    target = "simloop.loops.reference:ReferenceLoop._recover"
    with pytest.raises(ValueError, match=r"has 'no such words' 0 times, not once"):
        edited(target, (Edit(target, "no such words", ""),))
