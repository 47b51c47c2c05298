"""The list of the runs that can be opened, and the screen that opens them.

Files are read, and scenarios are run, in threads: a screen is painted at once, and keys work
meanwhile. An error ends the program, unless there is a screen to go back to, which then shows it.
"""

from collections.abc import Callable
from dataclasses import replace
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

from simloop.cursor.rows import counted
from simloop.errors import SimloopError
from simloop.escape import escape
from simloop_tui.comparison import SideBySide
from simloop_tui.keys import LEAVING, LIBRARY
from simloop_tui.library import Item, Preview, found, items, seen
from simloop_tui.runs import opened
from simloop_tui.screens.comparison import CompareScreen
from simloop_tui.screens.keyed import KeyedScreen, bindings
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.session import Session
from simloop_tui.widgets.bars import KeyBar
from simloop_tui.widgets.facts import shortened


class LoadingScreen(KeyedScreen):
    """Opens one run, or two, then gives way to their screen."""

    actions = LEAVING
    BINDINGS: ClassVar = bindings(LEAVING)

    def __init__(self, named: str, read: Callable[[], Session | SideBySide]) -> None:
        super().__init__()
        self._named = named
        self._read = read

    def compose(self) -> ComposeResult:
        yield Static(Content(f"Opening {escape(self._named)} (q quits) ..."))

    def on_mount(self) -> None:
        self._open()

    @work(thread=True, exclusive=True)
    def _open(self) -> None:
        try:
            opened = self._read()
            for session in _sessions(opened):
                session.recording.requests  # noqa: B018 - found here, and not at the first key press
        except SimloopError as error:
            self.app.call_from_thread(self._failed, error)
        else:
            self.app.call_from_thread(self._show, opened)

    def _failed(self, error: SimloopError) -> None:
        if not self.is_current:
            return
        if self.is_first:
            self.app.exit(error)
        else:
            before = self.app.screen_stack[-2]
            assert isinstance(before, KeyedScreen)
            self.app.pop_screen()
            before.say(str(error))

    def _show(self, opened: Session | SideBySide) -> None:
        if self.is_current:
            self.app.switch_screen(screen_of(opened))


def screen_of(opened: Session | SideBySide) -> KeyedScreen:
    """Return the screen of one run, or of two."""
    return CompareScreen(opened) if isinstance(opened, SideBySide) else ReplayScreen(opened)


def _sessions(opened: Session | SideBySide) -> tuple[Session, ...]:
    return (opened.left, opened.right) if isinstance(opened, SideBySide) else (opened,)


_NEW = Preview("", "", ())
_NAME = 32
_WIDEST = 200


class LibraryScreen(KeyedScreen):
    """The runs that can be opened from `folder`. `said` is the answer to the newest action."""

    actions = LIBRARY
    # A key is sent to the widget that has the focus when it is typed. The key before the words has
    # priority, so that it moves the focus before the next key is sent: `/q` typed at once quits
    # otherwise.
    BINDINGS: ClassVar = [
        replace(each, priority=each.action == "search()") for each in bindings(LIBRARY)
    ]

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.said = ""
        self._folder = folder
        self._all: tuple[Item, ...] = ()
        self._shown: tuple[Item, ...] = ()
        self._seen: dict[str, Preview] = {}
        self._pointed: Item | None = None  # the run whose line has the sign of the choice

    def compose(self) -> ComposeResult:
        yield Static(id="columns")
        yield OptionList(id="runs")
        with VerticalScroll(id="preview", can_focus=False):
            yield Static()
        yield Input(placeholder="words of a name, a title or a loop", id="words")
        yield KeyBar(self, LIBRARY)

    def on_mount(self) -> None:
        self.query_one("#columns", Static).update(
            Content.styled(_line(" ", "verdict", "name, for simloop step", "loop", "title"), "bold")
        )
        box = self.query_one(OptionList)
        box.border_title = "reading the scenarios ..."
        box.border_subtitle = "a scenario is run, and has a verdict, when it is chosen"
        box.focus()
        self._list()

    def say(self, words: str) -> None:
        """Show the answer to an action in the footer."""
        self.said = words
        self.query_one(KeyBar).follow()

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
        box.border_title = counted(len(self._shown), "run")
        box.highlighted = 0 if self._shown else None
        if not self._shown:
            self.query_one("#preview Static", Static).update(Content("no run has all these words"))

    def _words(self, item: Item) -> Content:
        verdict = "failed test" if item.is_trace else self._seen.get(item.named, _NEW).verdict
        sign = ">" if item is self.chosen else " "  # colour alone says nothing
        return Content(_line(sign, verdict, item.named, item.loop, item.title)).truncate(_WIDEST)

    @property
    def chosen(self) -> Item | None:
        """Return the chosen run, or None if the list is empty."""
        place = self.query_one(OptionList).highlighted
        return None if place is None or place >= len(self._shown) else self._shown[place]

    # ------------------------------------------------------------------ the verdict

    def on_option_list_option_highlighted(self) -> None:
        item, box = self.chosen, self.query_one(OptionList)
        for each in (self._pointed, item):
            if each in self._shown:
                box.replace_option_prompt(each.named, self._words(each))
        self._pointed = item
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
        self.set_focus(self.query_one("#words", Input))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the key of the words to the line of the words, where a name may have it."""
        if action == "search" and isinstance(self.focused, Input):
            return False
        return super().check_action(action, parameters)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._show(event.value)

    def on_input_submitted(self) -> None:
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
        self.action_open()

    def action_open(self) -> None:
        item = self.chosen
        if item is not None:
            self.said = ""
            self.app.push_screen(LoadingScreen(item.named, partial(opened, item.named)))


def _line(sign: str, verdict: str, named: str, loop: str, title: str) -> str:
    name = shortened(escape(named, _WIDEST), _NAME)
    return f"{sign} {verdict:<12} {name:<{_NAME}} {escape(loop, 20):<10} {escape(title, _WIDEST)}"
