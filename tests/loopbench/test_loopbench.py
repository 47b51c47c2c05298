import pytest
from every import FAULTS
from fault import Edit, Fault, applied, edited, play

EACH = pytest.mark.parametrize("fault", FAULTS, ids=str)


@EACH
def test_the_witness_tells_the_faulty_loop_from_the_correct_one(fault: Fault) -> None:
    assert play(fault, fault.right)[1] == ()
    with applied(fault):
        assert play(fault, fault.right)[1] != ()
        assert play(fault, fault.wrong)[1] == ()
    assert play(fault, fault.right)[1] == ()


def test_each_fault_has_a_name_of_its_own() -> None:
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names)


def test_words_that_no_longer_stand_in_the_code_are_an_error() -> None:
    target = "simloop.loops.reference:ReferenceLoop._recover"
    with pytest.raises(ValueError, match=r"has 'no such words' 0 times, not once"):
        edited(target, (Edit(target, "no such words", ""),))
