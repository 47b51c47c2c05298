"""The ways of a cursor: the messages that a widget sends after a click, and the scrolling to it."""

from textual.message import Message
from textual.scroll_view import ScrollView


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
