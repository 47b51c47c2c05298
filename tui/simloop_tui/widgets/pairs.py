"""The pairs of two aligned runs: one line for each, with a sign between them where they differ.

A line is made when it is drawn. Colour says nothing alone.
"""

from typing import ClassVar

from rich.cells import set_cell_size
from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from simloop.cursor.lines import entry_line
from simloop.cursor.recorded_run import RecordedRun
from simloop.trace.kinds import clock
from simloop_tui.aligning import Pair
from simloop_tui.comparing import SideBySide
from simloop_tui.widgets.goto import Goto, scroll_to_row
from simloop_tui.widgets.wrapping import shortened

_BETWEEN = 3
_LANE = 6
_TIME = 7
_ROOMY = 54


class Pairs(ScrollView, can_focus=True, inherit_bindings=False):
    """The pairs of a comparison. A click goes to a pair."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "pairs--same", "pairs--differs", "pairs--fault", "pairs--sign", "pairs--cursor",
    }  # fmt: skip

    def __init__(self, comparison: SideBySide) -> None:
        super().__init__()
        self._comparison = comparison

    def on_resize(self, _: events.Resize) -> None:
        """Keep the cursor visible."""
        self.follow()

    def follow(self) -> None:
        """Draw the comparison as it is now, with the cursor in view."""
        region = self.scrollable_content_region
        self.virtual_size = Size(region.width, len(self._comparison.pairs))
        scroll_to_row(self, self._comparison.place)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return one line of the screen."""
        number = self.scroll_offset.y + y
        width = self.scrollable_content_region.width
        if number >= len(self._comparison.pairs):
            return Strip.blank(width, self.rich_style)
        is_here = number == self._comparison.place
        segments = [Segment(">" if is_here else " ", self.rich_style)]
        segments += self._segments(self._comparison.pairs[number], (width - 1 - _BETWEEN) // 2)
        if is_here:
            style = self.get_component_rich_style("pairs--cursor")
            segments = [Segment(text, (own or style) + style) for text, own, _ in segments]
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _segments(self, pair: Pair, width: int) -> list[Segment]:
        sign = self.get_component_rich_style("pairs--sign")
        return [
            self._entry(self._comparison.left.recording, pair.left, width, is_same=pair.same),
            Segment(f" {_sign(pair)} ", sign),
            self._entry(self._comparison.right.recording, pair.right, width, is_same=pair.same),
        ]

    def _entry(
        self, recording: RecordedRun, place: int | None, width: int, *, is_same: bool
    ) -> Segment:
        if place is None:
            return Segment(" " * width, self.rich_style)
        lane, sign, words, is_failure = entry_line(recording, (place,))
        shown = f"{lane:<{_LANE}} {sign}" if width >= _ROOMY else sign
        number = f"{place:>{len(str(len(recording.entries) - 1))}}"
        text = f"{number} {clock(recording.entries[place].at_ns):>{_TIME}} {shown} {words}"
        name = "fault" if is_failure else "same" if is_same else "differs"
        style = self.get_component_rich_style(f"pairs--{name}")
        return Segment(set_cell_size(shortened(text, width), width), style)

    def on_click(self, event: events.Click) -> None:
        """Go to the pair."""
        number = self.scroll_offset.y + event.get_content_offset_capture(self).y
        if 0 <= number < len(self._comparison.pairs):
            self.post_message(Goto(number))


def _sign(pair: Pair) -> str:
    """Return the sign between two entries: `<` and `>` point to the only one."""
    if pair.same:
        return " "
    if pair.left is None or pair.right is None:
        return "<" if pair.right is None else ">"
    return "\N{NOT EQUAL TO}"
