"""A list comes back from the changes, and usual changes are short."""

from hypothesis import given
from hypothesis import strategies as st

from simloop.page.changes import apply, changes

LISTS = st.lists(st.integers(0, 5), max_size=30)


@given(LISTS, LISTS)
def test_the_changes_of_any_two_lists_make_the_second_of_the_first(
    old: list[int], new: list[int]
) -> None:
    assert apply(old, changes(old, new)) == new


def test_equal_lists_have_no_changes() -> None:
    assert changes([1, 2, 3], [1, 2, 3]) == []


def test_a_heading_and_an_end_are_two_changes_however_long_the_list() -> None:
    body = list(range(10, 2_000))
    old, new = [1, *body, 2_000], [2, *body, 3_000, 3_001]
    assert changes(old, new) == [[0, 1, 2], [1_991, 1, 3_000, 3_001]]


def test_an_item_before_a_long_list_does_not_repeat_it() -> None:
    body = list(range(10, 2_000))
    assert changes([1, *body], [2, 3, *body]) == [[0, 1, 2, 3]]
    assert changes([2, 3, *body], [1, *body]) == [[0, 2, 1]]


def test_items_that_leave_a_list_at_its_start_do_not_repeat_the_rest() -> None:
    body = list(range(10, 2_000))
    assert changes([1, 2, *body], body) == [[0, 2]]
