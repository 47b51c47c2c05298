import pytest
from every import FAULTS
from fault import Edit, Fault, applied, edited, play
from incases import in_cases

from simloop.check.invariants.judge import judge
from simloop.check.invariants.subject import Subject
from simloop.check.trial import Rules, failure_of
from simloop.runs.plan import Plan

EACH = in_cases(FAULTS)


def violated(fault: Fault, *, faulty: bool) -> dict[str, str]:
    """The invariants that the witness violates, by name, each with the violation."""
    if not faulty:
        return _judged(fault, fault.right)
    with applied(fault):
        return _judged(fault, fault.wrong)


def _judged(fault: Fault, expected: str) -> dict[str, str]:
    simulation = play(fault, expected)[0]
    found = judge(Subject.of(simulation), simulation.trace.entries).violations
    broken = {violation.name: str(violation) for violation in found}
    if not broken:
        plan = Plan(fault.scenario("{}"), {"loop": fault.given_loop()})
        error = failure_of(plan, Rules(expectations=False))
        if error is not None and not error.name.startswith("Script"):  # the witness is short
            broken[error.name] = f"{error.name}: {error.text}"
    return broken


@EACH
def test_the_witness_tells_the_faulty_loop_from_the_correct_one(fault: Fault) -> None:
    assert play(fault, fault.right)[1] == ()
    with applied(fault):
        assert play(fault, fault.right)[1] != ()
        assert play(fault, fault.wrong)[1] == ()
    assert play(fault, fault.right)[1] == ()


@EACH
def test_the_rules_report_the_witness_on_the_faulty_loop_only(fault: Fault) -> None:
    assert violated(fault, faulty=False) == {}
    assert set(fault.violates) <= set(violated(fault, faulty=True))


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
