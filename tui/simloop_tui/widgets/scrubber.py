"""The scrubber: the whole run on one line, with its landmarks above. A click goes there."""

from bisect import bisect_left
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from simloop.cursor.index import Landmark
from simloop.trace import entries as recorded
from simloop.trace.kinds import KINDS
from simloop_tui.rows import Axis
from simloop_tui.session import Session
from simloop_tui.widgets.goto import Goto

_LABEL = 10
_SIGNS = {
    landmark: KINDS[kind].sign
    for landmark, kind in (
        (Landmark.FAULT, recorded.Error),
        (Landmark.STOP, recorded.StopRequested),
        (Landmark.COMPACTION, recorded.Compaction),
        (Landmark.END, recorded.Ended),
        (Landmark.PROMPT, recorded.Prompt),
        (Landmark.TOOL_CALL, recorded.ToolStarted),
        (Landmark.MODEL_CALL, recorded.Request),
    )
}
"""The landmarks that are shown, the most important first, with their signs."""


class Scrubber(Widget):
    """The axis with the cursor, and the landmarks and marks above it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "scrubber--line", "scrubber--cursor", "scrubber--fault", "scrubber--mark",
        "scrubber--sign",
    }  # fmt: skip

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    @property
    def _axis(self) -> Axis:
        session = self._session
        width = self.content_size.width - _LABEL
        return Axis(session.recording, width, by_time=session.player.by_time)

    def render_line(self, y: int) -> Strip:
        axis, session = self._axis, self._session
        width = max(self.content_size.width - _LABEL, 1)
        here = axis.column_of(session.place)
        line = self.get_component_rich_style("scrubber--line")
        if y:
            cursor = self.get_component_rich_style("scrubber--cursor")
            label = "by time" if session.player.by_time else "by entry"
            segments = [
                Segment(f"{label:<{_LABEL}}", line),
                Segment("─" * here, line),
                Segment("●", cursor),
                Segment("─" * (width - here - 1), line),
            ]
        else:
            segments = [Segment(f"{self._status():<{_LABEL}}"[:_LABEL], line)]
            segments += [self._sign(axis, column) for column in range(width)]
        return Strip(segments).adjust_cell_length(self.content_size.width, self.rich_style)

    def _status(self) -> str:
        player = self._session.player
        return f"{'playing' if player.plays else 'paused'} {player.speed:g}x "

    def _sign(self, axis: Axis, column: int) -> Segment:
        """Return the most important landmark of a column."""
        first, end = axis.span(column)
        if _has(self._session.marks, first, end):
            return Segment("b", self.get_component_rich_style("scrubber--mark"))
        landmarks = self._session.recording.index.landmarks
        for landmark, sign in _SIGNS.items():
            if _has(landmarks[landmark], first, end):
                name = "fault" if landmark is Landmark.FAULT else "sign"
                return Segment(sign, self.get_component_rich_style(f"scrubber--{name}"))
        return Segment(" ", self.rich_style)

    def on_click(self, event: events.Click) -> None:
        """Go to the first entry of the column, or to the last entry of all at the right end."""
        column = event.get_content_offset_capture(self).x - _LABEL
        if column >= self.content_size.width - _LABEL - 1:
            self.post_message(Goto(self._session.last))
        elif column >= 0:
            self.post_message(Goto(self._axis.place_of(column)))


def _has(places: list[int], first: int, end: int) -> bool:
    found = bisect_left(places, first)
    return found < len(places) and places[found] < end
