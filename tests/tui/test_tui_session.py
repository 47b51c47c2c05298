"""The session moves the cursor, searches, marks, hides, folds and plays, without a terminal."""

import pytest
from agents import of_shop
from builders import recorded
from screens import unfolded

from simloop.cursor.index import Landmark, Watched
from simloop.cursor.keys import FactView
from simloop.cursor.rows import Mark
from simloop_tui.keys import ACTIONS, Action
from simloop_tui.rows import Axis, TimelineRows
from simloop_tui.session import SESSION_ACTIONS, Session


def test_the_cursor_starts_at_the_first_entry_and_stays_inside_the_trace() -> None:
    session = Session(recorded())
    assert session.place == 0
    session.back()
    assert (session.place, session.said) == (0, "this is the first entry")
    session.end()
    session.forward()
    assert (session.place, session.said) == (session.last, "this is the last entry")
    session.back()
    assert (session.place, session.said) == (session.last - 1, "")


@pytest.mark.parametrize("landmark", Landmark)
def test_next_and_previous_visit_the_same_landmarks(landmark: Landmark) -> None:
    session = Session(recorded())
    wanted = [each for each in session.recording.index.landmarks[landmark] if each > 0]
    session.start()
    found = []
    while not session.said:
        session.next(landmark)
        found.append(session.place)
    assert found[:-1] == wanted
    assert session.said == f"there is no later {landmark}"
    session.end()
    session.previous(landmark)
    assert session.place == next((each for each in reversed(wanted) if each < session.last), 0) or (
        session.said == f"there is no earlier {landmark}"
    )


def test_a_gap_is_a_row_before_the_entry_that_ends_it() -> None:
    rows = TimelineRows(recorded())
    (gap,) = [number for number in range(len(rows)) if rows[number].is_gap]
    assert (rows[gap].place, rows[gap + 1].place) == (8, 8)
    assert rows.row_of(8) == gap + 1


def test_hidden_kinds_have_no_rows_and_moves_skip_them() -> None:
    recording = recorded()
    rows = TimelineRows(recording, {"transition", "text-delta"})
    shown = [rows[number].place for number in range(len(rows)) if not rows[number].is_gap]
    assert shown == [
        place
        for place, entry in enumerate(recording.entries)
        if type(entry).__name__ not in {"Transition", "TextDelta"}
    ]
    assert rows.moved(0, 1) == shown[1] == 3
    assert rows.moved(3, -1) == 0
    assert rows.moved(1, -1) == 0
    assert rows.moved(2, 1) == 3
    assert not rows.shows(1)
    assert rows.moved(shown[-1], 1) is None
    assert rows.moved(0, 10_000) == shown[-1]


HIDDEN = frozenset({"transition", "text-delta", "request", "tool-started", "prompt", "ended"})


def filtered() -> Session:
    """The quickstart with landmarks, changes, matches and both ends hidden, and with two marks."""
    session = Session(recorded())
    for place in (1, 4, 40):
        session.go(place)
        session.mark()
    session.hide(HIDDEN)
    return session


@pytest.mark.parametrize(
    "action", [each for each in ACTIONS if each.of_session], ids=lambda action: action.name
)
def test_no_action_moves_to_a_hidden_entry(action: Action) -> None:
    method, *arguments = action.does
    session = filtered()
    for start in range(session.last + 1):
        session.go(start)
        SESSION_ACTIONS[method](session, *arguments)
        assert session.rows.shows(session.place), start
        assert "is the nearest" not in session.said
        session.player.plays = True
        session.advance(0.3)
        assert session.rows.shows(session.place), start
        assert "is the nearest" not in session.said


def test_a_jump_to_a_hidden_entry_ends_at_the_nearest_one_and_says_so() -> None:
    session = filtered()
    session.goto("1")
    assert (session.place, session.said) == (4, "entry 1 is hidden; 4 is the nearest")
    session.goto("4")
    assert (session.place, session.said) == (4, "")
    session.start()
    assert (session.place, session.said) == (4, "")


def test_a_move_passes_over_a_hidden_landmark_and_names_the_filter_if_none_is_left() -> None:
    session = Session(recorded())
    first, second, *_ = session.recording.index.landmarks[Landmark.TOOL_CALL]
    session.next("tool call")
    assert session.place == first
    session.hide({"tool-started"})
    session.start()
    session.next("tool call")
    assert session.said == "there is no later tool call; the filter hides some entries"
    session.hide(())
    session.next("tool call")
    session.next("tool call")
    assert session.place == second


def test_a_filter_moves_the_cursor_off_a_hidden_entry_and_says_so() -> None:
    session = Session(recorded())
    session.go(9)
    session.hide({"transition"})
    assert session.place == 10
    assert session.said == "1 kind of entries hidden; entry 9 is hidden; 10 is the nearest"


def test_a_filter_cannot_hide_all_entries() -> None:
    session = Session(recorded())
    session.hide(session.kinds())
    assert session.hidden == frozenset()
    assert session.said == "a filter that hides all entries is not used"


def test_a_run_with_a_filter_plays_to_the_last_entry_that_is_shown() -> None:
    for by_time in (True, False):
        session = filtered()
        session.player.by_time = by_time
        session.play()
        for _ in range(60):
            session.advance(0.5)
        assert session.place == session.rows.last < session.last
        assert not session.player.plays


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


@pytest.mark.parametrize("name", ["start.quickstart", "abort.at-the-start", "chance.storm"])
@pytest.mark.parametrize("width", [1, 2, 17, 56, 300])
@pytest.mark.parametrize("by_time", [False, True])
def test_the_spans_of_the_columns_hold_each_entry_once(
    name: str, width: int, *, by_time: bool
) -> None:
    recording = recorded(name)
    axis = Axis(recording, width, by_time=by_time)
    spans = [axis.span(column) for column in range(width)]
    held = [place for first, end in spans for place in range(first, end)]
    assert held == list(range(len(recording.entries)))
    for column, (first, end) in enumerate(spans):
        assert all(axis.column_of(place) == column for place in range(first, end))
