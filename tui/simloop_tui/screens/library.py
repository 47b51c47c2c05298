"""The list of the runs that can be opened, with the verdict and the beginning of the chosen one.

Not here: the list itself (library.py). The rule to keep: files are read, and scenarios are run, in
threads, so that keys always work.
"""

from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from simloop.escape import escape
from simloop_tui.keys import LIBRARY
from simloop_tui.library import Item, Preview, found, items, seen
from simloop_tui.opening import opened
from simloop_tui.screens.keyed import KeyedScreen, bindings
from simloop_tui.screens.loading import LoadingScreen
from simloop_tui.widgets.bars import KeyBar

_NEW = Preview("", "", ())
_WIDEST = 200


class LibraryScreen(KeyedScreen):
    """The runs that can be opened from `folder`. `said` is the answer to the newest action."""

    actions = LIBRARY
    BINDINGS: ClassVar = bindings(LIBRARY)

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.said = ""
        self._folder = folder
        self._all: tuple[Item, ...] = ()
        self._shown: tuple[Item, ...] = ()
        self._seen: dict[str, Preview] = {}

    def compose(self) -> ComposeResult:
        """Yield the list and the preview."""
        yield Static(id="columns")
        yield OptionList(id="runs")
        with VerticalScroll(id="preview", can_focus=False):
            yield Static()
        yield Input(placeholder="words of a title, a theme or a loop", id="words")
        yield KeyBar(self, LIBRARY)

    def on_mount(self) -> None:
        """Start to list the runs."""
        self.query_one("#columns", Static).update(
            Content.styled(_line("verdict", "theme", "loop", "title"), "bold")
        )
        self.query_one(OptionList).border_title = "reading the scenarios ..."
        self.query_one(OptionList).focus()
        self._list()

    def say(self, words: str) -> None:
        """Show the answer to an action in the footer."""
        self.said = words
        self.query_one(KeyBar).refresh()

    # ------------------------------------------------------------------ the list

    @work(thread=True, exclusive=True, group="list")
    def _list(self) -> None:
        listed = items(self._folder)
        self.app.call_from_thread(self._listed, listed)

    def _listed(self, listed: tuple[Item, ...]) -> None:
        self._all = listed
        self._show("")

    def _show(self, words: str) -> None:
        self._shown = found(self._all, words)
        box = self.query_one(OptionList)
        box.clear_options()
        box.add_options([Option(self._words(item), id=item.named) for item in self._shown])
        box.border_title = f"{len(self._shown)} of {len(self._all)} runs"
        box.highlighted = 0 if self._shown else None
        if not self._shown:
            self.query_one("#preview Static", Static).update(Content("no run has all these words"))

    def _words(self, item: Item) -> Content:
        verdict = "failed test" if item.is_trace else self._seen.get(item.named, _NEW).verdict
        line = _line(verdict or "-", item.theme, item.loop, item.title)
        return Content(line).truncate(_WIDEST)

    @property
    def chosen(self) -> Item | None:
        """Return the chosen run, or None if the list is empty."""
        place = self.query_one(OptionList).highlighted
        return None if place is None or place >= len(self._shown) else self._shown[place]

    # ------------------------------------------------------------------ the verdict

    def on_option_list_option_highlighted(self) -> None:
        """Show the verdict on the chosen run."""
        item = self.chosen
        if item is not None and item.named in self._seen:
            self._show_seen(item, self._seen[item.named])
        elif item is not None:
            self._look(item)

    @work(thread=True, exclusive=True, group="look")
    def _look(self, item: Item) -> None:
        worker = get_current_worker()
        looked_at = seen(item)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._looked, item, looked_at)

    def _looked(self, item: Item, looked_at: Preview) -> None:
        self._seen[item.named] = looked_at
        if item in self._shown:
            box = self.query_one(OptionList)
            box.replace_option_prompt(item.named, self._words(item))
        if item is self.chosen:
            self._show_seen(item, looked_at)

    def _show_seen(self, item: Item, looked_at: Preview) -> None:
        head = f"{escape(item.named, _WIDEST)}: {looked_at.verdict}"
        reason = [Content(line) for line in looked_at.reason.splitlines()]
        lines = (Content(escape(line, _WIDEST)) for line in looked_at.preview)
        self.query_one("#preview Static", Static).update(
            Content("\n").join([Content.styled(head, "bold"), *reason, Content(""), *lines])
        )
        self.query_one("#preview").scroll_home(animate=False)

    # ------------------------------------------------------------------ keys

    def action_move(self, to: str) -> None:
        """Move the choice by a number of runs, or to the first or the last one."""
        box, last = self.query_one(OptionList), len(self._shown) - 1
        here = box.highlighted or 0
        ends = {"first": 0, "last": last}
        box.highlighted = max(0, min(ends[to] if to in ends else here + int(to), last))

    def action_search(self) -> None:
        """Go to the line of the words."""
        self.set_focus(self.query_one("#words", Input))  # at once, for those who type quickly

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the runs that have the words."""
        self._show(event.value)

    def on_input_submitted(self) -> None:
        """Go back to the list."""
        self.query_one(OptionList).focus()

    def action_leave(self) -> None:
        """Go from the words to the list, then show all runs, then the screen before this one."""
        words = self.query_one("#words", Input)
        if words.has_focus:
            self.query_one(OptionList).focus()
        elif words.value:
            words.value = ""
        else:
            super().action_leave()

    def on_option_list_option_selected(self) -> None:
        """Open the run that was clicked, or chosen with Enter."""
        self.action_open()

    def action_open(self) -> None:
        """Step through the chosen run."""
        item = self.chosen
        if item is not None:
            self.said = ""
            self.app.push_screen(LoadingScreen(item.named, partial(opened, item.named)))


def _line(verdict: str, theme: str, loop: str, title: str) -> str:
    return f"{verdict:<12} {escape(theme):<16} {escape(loop, 20):<12} {escape(title, _WIDEST)}"
