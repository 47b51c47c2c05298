"""The timeline, one line for each of the session's rows, and the scrubber, the whole run on a line.

A line is made when it is drawn, so that a long trace opens as fast as a short one.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from simloop.cursor.index import Landmark
from simloop.cursor.lines import gap_words
from simloop.trace import entries as recorded
from simloop.trace.kinds import KINDS, Lane, clock, lanes_in
from simloop_tui.rows import Axis
from simloop_tui.session import Session
from simloop_tui.widgets.facts import Goto, scroll_to_row, shortened

_CLASSES = {lane: f"timeline--{lane}" for lane in Lane}
_NS_PER_MS = 1_000_000
_ROOMY, _WIDE = 50, 80
"""The widths from which on the name of the lane is shown, and a column for each lane."""


class Timeline(ScrollView, can_focus=True, inherit_bindings=False):
    """The entries of the session. A click goes to an entry."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        *_CLASSES.values(), "timeline--fault", "timeline--gap", "timeline--cursor",
        "timeline--time",
    }  # fmt: skip

    def __init__(self, session: Session, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self.session = session
        self._row = 0  # of the cursor, as it is drawn
        self._drawn: tuple[object, ...] = ()

    def on_mount(self) -> None:
        self.follow()

    def on_resize(self, _: events.Resize) -> None:
        lane = "lane, " if self.scrollable_content_region.width >= _ROOMY else ""
        self.border_title = f"entries: number, time, {lane}sign, words"
        self.follow()

    def follow(self) -> None:
        """Draw the session as it is now, with the cursor in view.

        Where nothing but the cursor has moved, the two lines of the cursor are drawn alone.
        """
        session = self.session
        width = self.scrollable_content_region.width
        row, drawn = session.rows.row_of(session.place), (session.rows, tuple(session.marks))
        self.virtual_size = Size(width, len(session.rows))
        top = self.scroll_offset.y
        scroll_to_row(self, row)
        if drawn != self._drawn or top != self.scroll_offset.y:
            self.refresh()
        elif row != self._row:
            self.refresh_lines(self._row)
            self.refresh_lines(row)
        self._row, self._drawn = row, drawn

    def render_line(self, y: int) -> Strip:
        number = self.scroll_offset.y + y
        width = self.scrollable_content_region.width
        if number >= len(self.session.rows):
            return Strip.blank(width, self.rich_style)
        if self.session.rows[number].is_gap:
            segments = self._gap(number, width)
        else:
            segments = self._entry(number, width, is_first=not y)
        style = self.rich_style
        if number == self.session.rows.row_of(self.session.place):
            style = self.get_component_rich_style("timeline--cursor")
            segments = [Segment(text, (own or style) + style) for text, own, _ in segments]
        return Strip(segments).adjust_cell_length(width, style)

    def on_click(self, event: events.Click) -> None:
        """Go to the entry, or to the one after the wait."""
        number = self.scroll_offset.y + event.get_content_offset_capture(self).y
        if 0 <= number < len(self.session.rows):
            self.post_message(Goto(self.session.rows[number].place))

    @cached_property
    def _widths(self) -> tuple[int, int]:
        last = self.session.last
        return len(str(last)), len(_time(self.session.recording.entries[last].at_ns))

    def _gap(self, number: int, width: int) -> list[Segment]:
        words = gap_words(self.session.recording, self.session.rows[number].place)
        indent = f"{'':{self._widths[0] + 3}}"
        style = self.get_component_rich_style("timeline--gap")
        return [Segment(shortened(f"{indent}~ {words} ~", width), style)]

    def _entry(self, number: int, width: int, *, is_first: bool) -> list[Segment]:
        """Return the pointer, the number, the time, the lane with its sign, and the words.

        A result that a request shows has no number: it is no entry.
        """
        session = self.session
        row = session.rows[number]
        place, is_here = row.place, number == session.rows.row_of(session.place)
        lane, sign, words, is_failure = session.rows.line(row)
        style = self.get_component_rich_style("timeline--fault" if is_failure else _CLASSES[lane])
        digits, time_width = self._widths
        mark = "b" if row.answer is None and place in session.marks else " "
        shown = place if row.answer is None else ""
        at_ns = session.recording.entries[place].at_ns
        time = _time(at_ns) if is_first or self._has_own_time(number) else ""
        beside = f"{'>' if is_here else ' '}{mark}{shown:>{digits}} {time:>{time_width}} "
        lanes = _lane(lane, sign, self._lanes, width)
        room = width - len(beside) - len(lanes)
        return [
            Segment(beside, self.get_component_rich_style("timeline--time")),
            Segment(lanes, style),
            Segment(shortened(words, room), style),
        ]

    @cached_property
    def _lanes(self) -> tuple[Lane, ...]:
        return lanes_in(self.session.recording.entries)

    def _has_own_time(self, number: int) -> bool:
        """Return whether a line shows its time: it is another one than that of the line above."""
        rows, record = self.session.rows, self.session.recording.entries
        place = rows[number].place
        if not number or number == rows.row_of(self.session.place) or rows[number - 1].is_gap:
            return True
        return record[rows[number - 1].place].at_ns != record[place].at_ns


def _time(at_ns: int) -> str:
    """Return a time without finer digits, so that all have one width; the heading shows them."""
    return clock(at_ns - at_ns % _NS_PER_MS)


def _lane(lane: Lane, sign: str, lanes: Sequence[Lane], width: int) -> str:
    """Return the sign, with the name of the lane and in a column of its own where there is room."""
    if width < _ROOMY:
        return f"{sign} "
    name = f"{lane:<{max(map(len, lanes))}}"
    if width < _WIDE:
        return f"{name} {sign} "
    signs = [f"{sign if lane is each else '.'} " for each in lanes]
    return f"{''.join(signs)}{name} "


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
