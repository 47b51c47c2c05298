"""The columns of the scrubber hold each entry once, and a column leads back to an entry of it."""

import pytest
from screens import recorded

from simloop_tui.rows import Axis


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


def test_the_columns_outside_lead_to_the_ends() -> None:
    recording = recorded()
    for by_time in (False, True):
        axis = Axis(recording, 40, by_time=by_time)
        assert axis.place_of(-5) == 0
        assert axis.place_of(99) == axis.place_of(39)
