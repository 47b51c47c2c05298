"""The timeline: one line for each entry and for each long wait, drawn where it is visible.

Not here: which rows there are (rows.py) and their words (simloop.cursor.lanes). The rule to keep: a
line is made when it is drawn, so that a long trace opens as fast as a short one.
"""

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from simloop.cursor.gaps import gap_words
from simloop.cursor.lanes import Lane, is_failure, sign_of, words_of
from simloop.trace.timeline import clock
from simloop_tui.session import Session
from simloop_tui.widgets.goto import Goto

_CLASSES = {lane: f"timeline--{lane}" for lane in Lane}
_LANE_WIDTH = max(map(len, Lane))
_TIME_WIDTH = 10
_WIDE = 80


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
        """Take the size of the session's rows."""
        self.follow()

    def on_resize(self, _: events.Resize) -> None:
        """Keep the cursor visible."""
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
        self._scroll_to_row(row)
        if drawn != self._drawn or top != self.scroll_offset.y:
            self.refresh()
        elif row != self._row:
            self.refresh_lines(self._row)
            self.refresh_lines(row)
        self._row, self._drawn = row, drawn

    def _scroll_to_row(self, row: int) -> None:
        height = max(self.scrollable_content_region.height, 1)
        margin = min(3, (height - 1) // 2)
        top = self.scroll_offset.y
        if row - margin < top:
            self.scroll_to(y=max(row - margin, 0), animate=False)
        elif row + margin >= top + height:
            self.scroll_to(y=row + margin - height + 1, animate=False)

    def render_line(self, y: int) -> Strip:
        """Return one line of the screen."""
        number = self.scroll_offset.y + y
        width = self.scrollable_content_region.width
        if number >= len(self.session.rows):
            return Strip.blank(width, self.rich_style)
        place, is_gap = self.session.rows[number]
        segments = self._gap(place) if is_gap else self._entry(place, width)
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

    def _gap(self, place: int) -> list[Segment]:
        words = gap_words(self.session.recording, place)
        style = self.get_component_rich_style("timeline--gap")
        return [Segment(f"{'':{_TIME_WIDTH + 3}}~ {words} ~", style)]

    def _entry(self, place: int, width: int) -> list[Segment]:
        """Return the pointer, the time, the lane with its sign, and the words."""
        session = self.session
        entry = session.recording.entries[place]
        lane, sign = sign_of(entry)
        name = "timeline--fault" if is_failure(entry) else _CLASSES[lane]
        style = self.get_component_rich_style(name)
        time = self.get_component_rich_style("timeline--time")
        pointer = ">" if place == session.place else " "
        mark = "b" if place in session.marks else " "
        at = f"{pointer}{mark}{clock(entry.at_ns):>{_TIME_WIDTH}} "
        return [
            Segment(at, time),
            *_lane(lane, sign, width, style),
            Segment(words_of(entry), style),
        ]


def _lane(lane: Lane, sign: str, width: int, style: Style) -> list[Segment]:
    """Return the sign and the name of the lane; the sign in a column, where there is room."""
    if width < _WIDE:
        return [Segment(f"{lane:<{_LANE_WIDTH}} {sign} ", style)]
    signs = [Segment(f"{sign if lane is each else '.'} ", style) for each in Lane]
    return [*signs, Segment(f"{lane:<{_LANE_WIDTH}} ", style)]
