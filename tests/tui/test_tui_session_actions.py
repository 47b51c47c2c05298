"""What the session finds, marks, hides, folds and plays, without a terminal."""

import pytest
from agents import of_shop
from screens import recorded, unfolded

from simloop.cursor.index import Watched
from simloop.cursor.keys import FactView
from simloop.cursor.rows import Mark
from simloop_tui.session import Session


@pytest.mark.parametrize(
    ("named", "place"),
    [("12", 12), (" 5.2s ", 10), ("5s", 10), ("0", 0), ("600ms", 7), ("9s", 55)],
)
def test_goto_takes_a_number_or_a_virtual_time(named: str, place: int) -> None:
    session = Session(recorded())
    session.goto(named)
    assert (session.place, session.said) == (place, "")


@pytest.mark.parametrize("named", ["56", "-1", "soon", "1e3", "9" * 5000])
def test_goto_stays_and_says_why_if_there_is_no_such_entry(named: str) -> None:
    session = Session(recorded())
    session.goto(named)
    assert session.place == 0
    assert "no such entry" in session.said or "is no entry" in session.said


def test_the_changes_of_the_watched_value_are_found_in_both_directions() -> None:
    session = Session(recorded())
    session.watch_another()
    assert session.watched is Watched.ERROR_COUNT
    session.next_change()
    session.next_change()
    assert session.place == 6
    session.next_change()
    assert (session.place, session.said) == (6, "error_count does not change any more")
    session.last_change()
    assert session.place == 1
    session.last_change()
    assert session.said == "error_count has not changed before"


def test_a_search_goes_round_and_ignores_case() -> None:
    session = Session(recorded())
    session.query = "readme"
    found = []
    for _ in range(8):
        session.go_to_match(session.search_again(1))
        found.append(session.place)
    assert found == [19, 20, 24, 25, 28, 34, 44, 19]
    session.go_to_match(session.search_again(-1))
    assert session.place == 44


def test_a_search_without_a_match_stays_and_says_so() -> None:
    session = Session(recorded())
    session.query = "nowhere"
    session.go_to_match(session.search_again(1))
    assert (session.place, session.said) == (0, "no entry contains 'nowhere'")


def test_a_search_stops_when_it_is_no_longer_wanted() -> None:
    session = Session(recorded())
    session.query = "It tests"
    assert session.search_again(1, lambda: False) is None
    assert session.search_again(1) is not None


def test_marks_are_set_removed_and_found() -> None:
    session = Session(recorded())
    for place in (30, 10, 20):
        session.go(place)
        session.mark()
    assert session.marks == [10, 20, 30]
    session.go(25)
    session.previous_mark()
    assert session.place == 20
    session.mark()
    assert session.marks == [10, 30]
    session.next_mark()
    assert session.place == 30
    session.next_mark()
    assert session.said == "there is no later mark: b sets one"
    session.start()
    session.previous_mark()
    assert session.said == "there is no earlier mark: b sets one"


def test_the_kinds_are_counted_and_moves_skip_hidden_ones() -> None:
    session = unfolded()
    kinds = session.kinds()
    assert sum(kinds.values()) == len(session.recording.entries)
    assert kinds["transition"] == 17
    session.hide({"transition"})
    session.forward()
    assert (session.place, len(session.rows)) == (3, 56 - 17 + 1)
    session.hide(())
    assert (session.said, len(session.rows)) == ("all entries are shown", 57)


def test_a_fold_hides_what_a_compaction_removed_until_it_is_opened() -> None:
    session = Session(recorded())
    session.end()
    closed = session.facts(FactView.CONTEXT)
    assert not [row for row in closed if row.mark is Mark.REMOVED]
    (fold,) = [row for row in closed if row.mark is Mark.FOLD]
    assert fold.goes_to is not None
    session.toggle_fold(fold.goes_to)
    opened = session.facts(FactView.CONTEXT)
    assert [row for row in opened if row.mark is Mark.REMOVED]
    session.fold()
    assert session.facts(FactView.CONTEXT) == closed
    session.fold()
    assert session.facts(FactView.CONTEXT) == opened


def test_an_even_pace_takes_as_long_for_each_entry() -> None:
    session = unfolded()
    session.change_pace()
    session.play()
    places = []
    for _ in range(4):
        session.advance(0.5)
        places.append(session.place)
    assert places == [2, 4, 6, 8]
    session.faster()
    session.advance(0.5)
    assert session.place == 12


def test_virtual_time_passes_as_it_did_and_a_long_wait_takes_a_second() -> None:
    session = unfolded()
    session.play()
    session.advance(0.0)
    assert session.place == 7
    session.advance(0.9)
    assert session.place == 7
    session.advance(0.1)
    assert session.place == 10
    session.advance(0.6)
    assert session.position.at_ns == 5_600_000_000


def test_playing_stops_at_the_end_and_pauses() -> None:
    session = Session(recorded())
    session.play()
    session.play()
    session.advance(10)
    assert session.place == 0
    session.play()
    for _ in range(20):
        session.advance(1)
    assert session.place == session.last
    assert not session.player.plays
    session.play()
    assert session.said == "the run is over: g goes to its start"


def test_a_text_has_one_row_until_a_key_shows_its_words() -> None:
    session = Session(of_shop())
    (text, *_) = session.recording.index.texts
    session.go(text[0])
    assert session.place == text[-1]
    assert session.rows.words(session.place).startswith("text Let me look that order up.")
    session.fold_words()
    assert session.said == "the words one by one"
    session.back()
    assert session.place == text[-2]
    assert session.rows.words(session.place) == "text  order"
    session.fold_words()
    assert (session.place, session.said) == (text[-1], "each text on one line")


def test_an_entry_that_is_named_is_shown_even_if_it_is_a_piece_of_a_text() -> None:
    session = Session(of_shop())
    (text, *_) = session.recording.index.texts
    session.goto(str(text[1]))
    assert (session.place, session.said) == (text[1], "")
    assert not session.folds_words


def test_a_search_finds_words_of_several_pieces() -> None:
    session = Session(of_shop())
    session.query = "look that order"
    session.go_to_match(session.search_again(1))
    assert session.place == session.recording.index.texts[0][-1]


def test_a_result_that_a_request_shows_has_a_row_before_it() -> None:
    session = Session(of_shop())
    ((place, _),) = session.recording.index.answers.items()
    row = session.rows.row_of(place)
    result = session.rows[row - 1]
    assert (result.place, result.answer, result.is_gap) == (place, 0, False)
    assert session.rows.line(result).words.startswith("lookup")
    assert (session.rows[row].place, session.rows[row].answer) == (place, None)
    session.hide({"request"})
    assert all(session.rows[n].answer is None for n in range(len(session.rows)))
