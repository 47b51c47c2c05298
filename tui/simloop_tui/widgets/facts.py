"""A pane that shows the rows of one view of the facts, and how any widget cuts and follows lines.

A row has its mark as a character, so that colour says nothing alone. Only the lines that are
visible are drawn.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from simloop.cursor.rows import FactRow, Mark

_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def shortened(text: str, width: int) -> str:
    """Return `text` if it has at most `width` cells, or its beginning with an ellipsis after it."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1) + _ELLIPSIS if width > 0 else ""


def wrapped(text: str, width: int) -> Iterator[str]:
    """Yield the lines of `text`, each at most `width` cells; a line breaks at a space if it can."""
    width = max(width, 1)
    while cell_len(text) > width:
        line = chop_cells(text, width)[0] or text[:1]
        space = line.rfind(" ")
        if space > width // 4 and text[len(line)] != " ":
            line = line[:space]
        yield line
        text = text[len(line) :].lstrip(" ")
    yield text


def scroll_to_row(view: ScrollView, row: int) -> None:
    """Scroll as little as possible to a row and a few rows around it."""
    height = max(view.scrollable_content_region.height, 1)
    margin = min(3, (height - 1) // 2)
    top = view.scroll_offset.y
    if row - margin < top:
        view.scroll_to(y=max(row - margin, 0), animate=False)
    elif row + margin >= top + height:
        view.scroll_to(y=row + margin - height + 1, animate=False)


class Goto(Message):
    """The cursor is to go to the entry, or the pair of entries, `place`."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place


class ToggleFold(Message):
    """The fold of the compaction at `place` is to open, or to close."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place


_CLASSES = {mark: f"facts--{mark.name.lower()}" for mark in Mark}
_INDENT = 4
_BELOW = 3
"""The lines from the end of the current row on that are made visible: the ways out of a state."""


class FactsPane(ScrollView, can_focus=True):
    """The rows of a view, wrapped at the width of the pane. A click goes to the entry of a row."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*_CLASSES.values(), "facts--label"}

    def __init__(self, title: str = "", *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._rows: Sequence[FactRow] = ()
        self._lines: list[tuple[int, str]] = []
        self.border_title = title

    def show(self, rows: Sequence[FactRow]) -> None:
        """Show rows, from the first one on if it is another one than before.

        The newest current row, if there is one, is visible then.
        """
        if rows != self._rows:
            grows = rows[:1] == self._rows[:1]  # an open fold, or a reply that goes on
            self._rows = rows
            self._fold()
            if not grows:
                self.scroll_home(animate=False, immediate=True)
        self._reveal()

    def _reveal(self) -> None:
        """Scroll as little as possible to the last row that is marked as the current one."""
        found = [n for n, row in enumerate(self._rows) if row.mark is Mark.CURRENT][-1:]
        lines = [at for at, (number, _) in enumerate(self._lines) if number in found]
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if lines and not top <= lines[0] <= lines[-1] < top + height:
            self.scroll_to(y=max(lines[-1] + _BELOW - height, 0), animate=False, immediate=True)

    def on_resize(self, _: events.Resize) -> None:
        self._fold()

    def _fold(self) -> None:
        width = self.scrollable_content_region.width
        self._lines = [
            (number, line)
            for number, row in enumerate(self._rows)
            for line in _lines_of(row, width)
        ]
        # A change of the size lays out the whole screen, so rows that fit in never change it.
        fits = len(self._lines) <= self.scrollable_content_region.height
        self.virtual_size = Size(0, 0) if fits else Size(width, len(self._lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        place = self.scroll_offset.y + y
        width = self.scrollable_content_region.width
        if place >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        number, line = self._lines[place]
        row = self._rows[number]
        style = self.get_component_rich_style(_CLASSES[row.mark])
        segments = self._segments(row, line, style, is_first=self._is_first(place))
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _is_first(self, place: int) -> bool:
        return place == 0 or self._lines[place - 1][0] != self._lines[place][0]

    def _segments(self, row: FactRow, line: str, style: Style, *, is_first: bool) -> list[Segment]:
        label = f"{row.mark} {row.label}"
        if not is_first or not row.label or not line.startswith(label):
            return [Segment(line, style)]
        bold = style + self.get_component_rich_style("facts--label", partial=True)
        return [Segment(label, bold), Segment(line[len(label) :], style)]

    def on_click(self, event: events.Click) -> None:
        place = self.scroll_offset.y + event.get_content_offset_capture(self).y
        if 0 <= place < len(self._lines):
            row = self._rows[self._lines[place][0]]
            if row.goes_to is not None:
                is_fold = row.mark is Mark.FOLD
                self.post_message(ToggleFold(row.goes_to) if is_fold else Goto(row.goes_to))


def _lines_of(row: FactRow, width: int) -> Sequence[str]:
    first, *rest = wrapped(str(row), width)
    if not rest:
        return (first,)
    indented = wrapped(str(row)[len(first) :].lstrip(" "), width - _INDENT)
    return (first, *(f"{'':{_INDENT}}{line}" for line in indented))
