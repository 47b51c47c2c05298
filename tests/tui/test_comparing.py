"""A comparison moves both runs, and marks the facts that only one of them has."""

import pytest
from test_aligning import CALL, DONE, ERROR, recorded

from simloop.cursor.keys import FactView
from simloop.trace import entries
from simloop_tui.comparison import DIFFERS, SideBySide
from simloop_tui.runs import opened_against
from simloop_tui.session import Session


def comparison(left: tuple[str, ...], right: tuple[str, ...]) -> SideBySide:
    return SideBySide(Session(recorded(*left)), Session(recorded(*right)))


@pytest.fixture
def compared() -> SideBySide:
    return comparison((CALL, DONE), (CALL, ERROR, DONE))


def test_it_begins_at_the_first_different_effect(compared: SideBySide) -> None:
    entry = compared.right.recording.entries[compared.right.place]
    assert isinstance(entry, entries.Error)
    assert compared.said == ""


def test_differences_of_design_before_the_first_different_effect_are_passed_over() -> None:
    both = opened_against("limits/errors", "opencode", {})
    names = [type(side.recording.entries[side.place]).__name__ for side in (both.left, both.right)]
    assert set(names) - {"Transition", "Classified", "Notice"}
    assert both.differences[0] < both.place
    both.previous_difference()
    assert both.place in both.differences


def test_runs_that_differ_in_their_designs_alone_begin_at_the_first_difference() -> None:
    both = opened_against("finish-reasons/stop", "opencode", {})
    assert both.place == both.differences[0]
    assert both.said == "the runs do not differ in their effects"


def test_equal_runs_begin_at_their_start_and_say_so() -> None:
    equal = comparison((CALL, DONE), (CALL, DONE))
    assert (equal.place, equal.said) == (0, "the runs do not differ")


def test_both_sides_stand_on_their_entries_or_on_the_newest_before(compared: SideBySide) -> None:
    compared.start()
    before = [0, 0]
    for pair in compared.pairs:
        before = [old if new is None else new for old, new in zip(before, pair[:2], strict=True)]
        assert [compared.left.place, compared.right.place] == before
        compared.move("1")
    assert compared.said == "this is the last pair"


def test_the_moves_go_by_pairs_and_stop_at_the_ends(compared: SideBySide) -> None:
    compared.end()
    assert compared.place == compared.last == len(compared.pairs) - 1
    compared.move("-1")
    assert compared.place == compared.last - 1
    compared.move("-20")
    assert compared.place == compared.last - 21
    compared.start()
    compared.move("-20")
    assert (compared.place, compared.said) == (0, "this is the first pair")
    compared.move("20")
    assert compared.place == 20


def test_all_differences_are_found_forwards_and_backwards(compared: SideBySide) -> None:
    compared.start()
    found = []
    for _ in compared.differences:
        compared.next_difference()
        found.append(compared.place)
    assert found == compared.differences
    compared.next_difference()
    assert compared.said == "there is no later difference"
    for place in reversed(found[:-1]):
        compared.previous_difference()
        assert compared.place == place
    compared.previous_difference()
    assert compared.said == "there is no earlier difference"


def test_an_entry_of_one_side_is_found(compared: SideBySide) -> None:
    for is_left in (True, False):
        for place in range(len(compared.left.recording.entries)):
            compared.go_to_entry(place, is_left=is_left)
            assert compared.pair[0 if is_left else 1] == place


def test_the_other_side_is_chosen(compared: SideBySide) -> None:
    assert compared.side is compared.right
    compared.other_side()
    assert compared.side is compared.left
    assert compared.said == "the left run is chosen"


def test_a_fact_that_the_other_side_does_not_have_is_marked(compared: SideBySide) -> None:
    compared.end()
    left, right = compared.facts(FactView.COUNTERS)
    marked = [str(row) for row in right if DIFFERS in str(row)]
    assert any("error_count: 1" in line for line in marked)
    equal = [row for row in left if DIFFERS not in str(row)]
    assert equal
    assert all(row[:3] in [each[:3] for each in right] for row in equal)
