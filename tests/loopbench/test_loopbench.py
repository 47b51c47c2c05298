import pytest
from every import FAULTS
from fault import Edit, Fault, applied, edited, play
from incases import in_cases
from judged import violated

EACH = in_cases(FAULTS)


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
