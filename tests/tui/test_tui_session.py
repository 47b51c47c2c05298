"""The session moves the cursor, without a terminal."""

import pytest
from screens import recorded

from simloop.cursor.index import Landmark
from simloop_tui.rows import TimelineRows
from simloop_tui.session import PAGE, Session


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
    session = Session(recorded())
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
