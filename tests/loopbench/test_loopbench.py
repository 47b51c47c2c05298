import pytest
from every import FAULTS
from fault import Edit, Fault, edited, function_of, play
from incases import in_cases
from judging import problems

HERE = [fault for fault in FAULTS if fault.part != "sdk"]


@pytest.mark.slow
@in_cases(HERE)
def test_the_witness_and_the_rules_tell_the_faulty_loop_from_the_correct_one(fault: Fault) -> None:
    assert problems(fault) == []
    assert play(fault, fault.right)[1] == ()


def test_the_words_of_each_edit_stand_in_the_code_once() -> None:
    for fault in HERE:
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
    assert parts.count("sdk") >= 44
    assert sum(len(fault.circumstances) > 1 for fault in FAULTS) >= 20
    assert sum(bool(fault.unusual) for fault in FAULTS) >= 10


def test_words_that_no_longer_stand_in_the_code_are_an_error() -> None:
    target = "simloop.loops.reference:ReferenceLoop._recover"
    with pytest.raises(ValueError, match=r"has 'no such words' 0 times, not once"):
        edited(target, (Edit(target, "no such words", ""),))
