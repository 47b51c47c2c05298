"""The comparison screen: the pairs of two aligned runs, and the facts of both at the cursor.

Both sides show the same view, and a fact that only one side has is marked. A line of the pairs is
made when it is drawn.
"""

from typing import ClassVar

from rich.cells import set_cell_size
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widgets import Static

from simloop.cursor.keys import FactView
from simloop.cursor.lines import entry_line
from simloop.cursor.recorded_run import RecordedRun
from simloop.escape import escape
from simloop.trace.kinds import clock, lanes_in
from simloop_tui.comparison import COMPARE_ACTIONS, Pair, SideBySide
from simloop_tui.keys import COMPARE
from simloop_tui.screens.keyed import bindings
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.screens.run import RunScreen
from simloop_tui.session import Session
from simloop_tui.widgets.bars import KeyBar, ViewBar, ending
from simloop_tui.widgets.facts import FactsPane, Goto, ToggleFold, scroll_to_row, shortened

_BETWEEN = 3
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
        both = comparison.left.recording, comparison.right.recording
        self._lane = max(len(lane) for each in both for lane in lanes_in(each.entries))

    def on_resize(self, _: events.Resize) -> None:
        self.follow()

    def follow(self) -> None:
        region = self.scrollable_content_region
        self.virtual_size = Size(region.width, len(self._comparison.pairs))
        scroll_to_row(self, self._comparison.place)
        self.refresh()

    def render_line(self, y: int) -> Strip:
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
        shown = f"{lane:<{self._lane}} {sign}" if width >= _ROOMY else sign
        number = f"{place:>{len(str(len(recording.entries) - 1))}}"
        text = f"{number} {clock(recording.entries[place].at_ns):>{_TIME}} {shown} {words}"
        name = "fault" if is_failure else "same" if is_same else "differs"
        style = self.get_component_rich_style(f"pairs--{name}")
        return Segment(set_cell_size(shortened(text, width), width), style)

    def on_click(self, event: events.Click) -> None:
        number = self.scroll_offset.y + event.get_content_offset_capture(self).y
        if 0 <= number < len(self._comparison.pairs):
            self.post_message(Goto(number))


def _sign(pair: Pair) -> str:
    if pair.same:
        return " "
    if pair.left is None or pair.right is None:
        return "<" if pair.right is None else ">"
    return "\N{NOT EQUAL TO}"


_NAME = 200


class SideHeading(Static):
    """The name of one run, its loop and how it ends, and where the cursor is in it."""

    def __init__(self, comparison: SideBySide, *, is_left: bool) -> None:
        super().__init__()
        self._comparison = comparison
        self._is_left = is_left

    def render(self) -> Content:
        comparison, width = self._comparison, self.content_size.width
        session = comparison.left if self._is_left else comparison.right
        header = session.recording.trace.header
        lines = (
            Content.styled(escape(session.name, _NAME), "bold"),
            Content.assemble(f"loop {escape(header.loop, _NAME)} ", ending(session, "ends as ")),
            Content(
                f"seed {header.seed}, entry {session.place} of {session.last} "
                f"at {clock(session.position.at_ns)}"
            ),
        )
        return Content("\n").join([line.truncate(width, ellipsis=True) for line in lines])


class Side(Vertical):
    """The facts of one run. A click in them goes to an entry of that run."""

    class Clicked(Message):
        """An entry of one side was clicked."""

        def __init__(self, place: int, *, is_left: bool) -> None:
            super().__init__()
            self.place = place
            self.is_left = is_left

    def __init__(self, session: Session, *, is_left: bool) -> None:
        super().__init__(id="left" if is_left else "right")
        self.session = session
        self._is_left = is_left

    def compose(self) -> ComposeResult:
        yield FactsPane()

    def on_goto(self, message: Goto) -> None:
        message.stop()
        self.post_message(Side.Clicked(message.place, is_left=self._is_left))


_WIDEST = 400


class CompareScreen(RunScreen):
    """Two runs, with the cursor on one pair of their entries."""

    actions = COMPARE
    BINDINGS: ClassVar = bindings(COMPARE)

    def __init__(self, comparison: SideBySide) -> None:
        super().__init__()
        self.comparison = comparison
        self._chosen = FactView.ENTRY

    def compose(self) -> ComposeResult:
        left, right = self.comparison.left, self.comparison.right
        with Horizontal(id="headings"):
            yield SideHeading(self.comparison, is_left=True)
            yield SideHeading(self.comparison, is_left=False)
        if self.comparison.notice:
            yield Static(Content(escape(self.comparison.notice, _WIDEST)), id="notice")
        yield Pairs(self.comparison)
        yield ViewBar()
        with Horizontal(id="sides"):
            yield Side(left, is_left=True)
            yield Side(right, is_left=False)
        yield KeyBar(self.comparison, COMPARE)

    def on_mount(self) -> None:
        self.query_one(Pairs).focus()
        self.follow()

    def on_screen_resume(self) -> None:
        """Show both runs at the cursor, after one of them was stepped through."""
        said = self.comparison.said
        self.comparison.go(self.comparison.place)
        self.comparison.said = said
        self.follow()

    @property
    def run_here(self) -> Session:
        """Return the session of the chosen side."""
        return self.comparison.side

    @property
    def named_here(self) -> str:
        """Return which side is chosen, and the name of its run."""
        comparison = self.comparison
        return f"the {'left' if comparison.is_left else 'right'} run ({comparison.side.name})"

    def say(self, words: str) -> None:
        """Show the answer to an action in the footer."""
        self.comparison.said = words
        self.query_one(KeyBar).follow()

    def follow(self) -> None:
        both = self.comparison.facts(self._chosen)
        for side, rows in zip(self.query(Side), both, strict=True):
            pane = side.query_one(FactsPane)
            is_chosen = side.session is self.comparison.side
            chosen = "> " if is_chosen else ""
            pane.border_title = f"{chosen}{side.id} run: {self._chosen}"
            pane.set_class(is_chosen, "-chosen")
            pane.show(rows)
        self.query_one(ViewBar).show(self._chosen)
        for heading in self.query(SideHeading):
            heading.refresh()
        self.query_one(KeyBar).follow()
        self.query_one(Pairs).follow()

    # ------------------------------------------------------------------ clicks and keys

    def on_goto(self, message: Goto) -> None:
        self.comparison.go(message.place)
        self.follow()

    def on_side_clicked(self, message: Side.Clicked) -> None:
        """Go to the pair of the entry that was clicked."""
        self.comparison.go_to_entry(message.place, is_left=message.is_left)
        self.follow()

    def on_toggle_fold(self, message: ToggleFold) -> None:
        """Open or close the fold on both sides, where they have it."""
        for session in (self.comparison.left, self.comparison.right):
            session.toggle_fold(message.place)
        self.follow()

    def action_session(self, method: str, *arguments: str) -> None:
        COMPARE_ACTIONS[method](self.comparison, *arguments)
        self.follow()

    def action_view(self, name: str) -> None:
        self._chosen = FactView(name)
        self.follow()

    def action_open(self) -> None:
        """Step through the chosen run, from the entry at the cursor on."""
        self.app.push_screen(ReplayScreen(self.comparison.side))
