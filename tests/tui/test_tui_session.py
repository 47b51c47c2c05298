"""The session moves the cursor, without a terminal."""

import pytest
from screens import recorded, unfolded

from simloop.cursor.index import Landmark
from simloop_tui.keys import ACTIONS, Action
from simloop_tui.rows import TimelineRows
from simloop_tui.session import PAGE, SESSION_ACTIONS, Session


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


def test_a_page_goes_over_twenty_entries_and_back() -> None:
    session = unfolded()
    session.page_forward()
    assert session.place == PAGE
    session.page_back()
    assert session.place == 0


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


def test_a_search_passes_over_hidden_entries() -> None:
    session = Session(recorded())
    session.query = "readme"
    session.hide({"tool-result", "transition"})
    seen = []
    for step in (1, 1, 1, 1, 1, 1, 1, -1):
        session.go_to_match(session.search_again(step))
        seen.append(session.place)
    assert seen == [20, 24, 25, 28, 34, 44, 20, 44]


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
