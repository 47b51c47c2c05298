import pytest
from incases import in_cases


def checked(failing: set[int]) -> list[int]:
    seen = []

    @in_cases(range(5), "case-{}".format)
    def test(case: int) -> None:
        seen.append(case)
        assert case not in failing

    test()
    return seen


def test_all_cases_that_fail_are_named() -> None:
    with pytest.raises(ExceptionGroup, match="2 cases fail") as raised:
        checked({0, 3})
    notes = [error.__notes__ for error in raised.value.exceptions]
    assert notes == [["in the case of case-0"], ["in the case of case-3"]]


def test_no_case_is_an_error() -> None:
    @in_cases([])
    def test(case: int) -> None:
        pass

    with pytest.raises(AssertionError, match="there is no case"):
        test()
