"""The dialogs: questions, menus and texts above a screen, each with an answer for it."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import ClassVar

from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, SelectionList, Static, TextArea
from textual.widgets.input import Selection
from textual.widgets.option_list import Option
from textual.worker import Worker, WorkerState, get_current_worker

from simloop.cursor.rows import Mark
from simloop.errors import ScenarioError, SimloopError
from simloop.escape import escape
from simloop.trace.kinds import USUAL_LANES, Lane, legend
from simloop_tui.keys import Action
from simloop_tui.runs import Change, shrunk
from simloop_tui.session import Session


class AskScreen(ModalScreen[str | None]):
    """Asks for one line. The answer is None if the user leaves with Escape."""

    BINDINGS: ClassVar = [("escape", "dismiss(None)", "leave")]

    def __init__(self, question: str, text: str = "") -> None:
        super().__init__()
        self._question = question
        self._text = text
        self._ahead: list[events.Key] = []
        self._is_ready = False

    def compose(self) -> ComposeResult:
        yield Static(Content(self._question))
        box = Input(self._text, select_on_focus=False)
        box.cursor_blink = False
        yield box

    def on_mount(self) -> None:
        """Select the text, so that typing replaces it, and take what was typed ahead."""
        self.query_one(Input).selection = Selection(0, len(self._text))
        self._is_ready = True
        for event in self._ahead:
            self.take(event)

    def take(self, event: events.Key) -> None:
        """Take a key that was typed while this screen opened, and that the line did not get."""
        if not self._is_ready:
            self._ahead.append(event)
            return
        line = self.query_one(Input)
        if event.is_printable and event.character:
            line.replace(event.character, *sorted(line.selection))
        elif event.key == "enter" and not line.has_focus:
            self.dismiss(line.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)


class FilterScreen(ModalScreen[frozenset[str]]):
    """Answers the kinds that are hidden. `kinds` has how many entries each kind has."""

    BINDINGS: ClassVar = [
        ("escape,q,f", "leave", "show the chosen kinds"),
        ("a", "all", "choose all"),
    ]

    def __init__(self, kinds: Mapping[str, int], hidden: Collection[str]) -> None:
        super().__init__()
        self._kinds = kinds
        self._hidden = hidden

    def compose(self) -> ComposeResult:
        shown = {kind: kind not in self._hidden for kind in self._kinds}
        lines = ((self._line(kind, is_shown=is_on), kind, is_on) for kind, is_on in shown.items())
        yield SelectionList[str](*lines)

    def _line(self, kind: str, *, is_shown: bool) -> Content:
        """Return the words of a kind, because the box before them differs by its colour alone."""
        word = "shown" if is_shown else "hidden"
        return Content(f"{word:<7} {kind} ({self._kinds[kind]:,})")

    def on_selection_list_selected_changed(self) -> None:
        box = self.query_one(SelectionList)
        chosen = set(box.selected)
        for number, kind in enumerate(self._kinds):
            line = self._line(kind, is_shown=kind in chosen)
            box.replace_option_prompt_at_index(number, line)

    def on_mount(self) -> None:
        box = self.query_one(SelectionList)
        box.border_title = "kinds of entries in the timeline"
        box.border_subtitle = "Space: show or hide, a: show all, Escape: done"
        box.focus()

    def action_leave(self) -> None:
        self.dismiss(frozenset(self._kinds) - set(self.query_one(SelectionList).selected))

    def action_all(self) -> None:
        self.query_one(SelectionList).select_all()


_SCRUBBER = "Above the slider stand the same signs, and b for your marks."
_SCROLLING = "Tab goes to a pane, which the arrow keys then scroll."
_KEYS_WIDTH = 24
_COLUMN = 13


class HelpScreen(ModalScreen[Action | None]):
    """Answers the action that the user chooses, or None."""

    BINDINGS: ClassVar = [("escape,q,question_mark", "dismiss(None)", "leave")]

    def __init__(self, actions: Sequence[Action], lanes: Sequence[Lane]) -> None:
        super().__init__()
        self._actions = actions
        self._lanes = lanes

    def compose(self) -> ComposeResult:
        yield OptionList(*_options(self._actions), *_legend(self._lanes))

    def on_mount(self) -> None:
        box = self.query_one(OptionList)
        box.border_title = "keys: Enter or a click performs the action, Escape leaves"
        box.border_subtitle = "the signs of the entries stand below: End"
        box.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Answer the chosen action; a line of the legend is none."""
        if event.option_id is not None:
            self.dismiss(next(each for each in self._actions if each.name == event.option_id))


def reading(lanes: Sequence[Lane] = USUAL_LANES) -> Iterator[str]:
    """Yield the lines that say how to read the screen: each sign of the timeline and the panes."""
    signs = legend()
    columns = [
        [lane, *(f"{sign} {words}" for sign, words in signs[lane].items())] for lane in lanes
    ]
    for first in range(0, len(columns), len(USUAL_LANES)):  # a small terminal has room for these
        for cells in zip_longest(*columns[first : first + len(USUAL_LANES)], fillvalue=""):
            yield "".join(f"{cell:<{_COLUMN}}" for cell in cells).rstrip()
    yield _SCRUBBER
    yield f"In the panes: {'  '.join(f'{mark} {mark.words}' for mark in Mark if mark.words)}."
    yield _SCROLLING


def _options(actions: Sequence[Action]) -> Iterator[Option]:
    group = ""
    for action in actions:
        if action.group != group:
            group = action.group
            yield Option(Content.styled(group, "bold"), disabled=True)
        yield Option(Content(f"  {action.shown_keys:<{_KEYS_WIDTH}}{action.words}"), id=action.name)


def _legend(lanes: Sequence[Lane]) -> Iterator[Option]:
    yield Option(Content.styled("signs of the entries, by lane", "bold"), disabled=True)
    yield from (Option(Content(line)) for line in reading(lanes))


EDIT = Change("edit the next reply", lambda tree: tree)
"""The choice to write the change by hand."""


class ForkScreen(ModalScreen[Change | None]):
    """Answers the change that the user chooses, EDIT, or None.

    The change that switches a fault off comes before EDIT.
    """

    BINDINGS: ClassVar = [("escape,q,F", "dismiss(None)", "leave")]

    def __init__(self, changes: Sequence[Change]) -> None:
        super().__init__()
        mending = [each for each in changes if each.mends]
        self._changes = (*mending, EDIT, *(each for each in changes if not each.mends))

    def compose(self) -> ComposeResult:
        yield OptionList(*(Option(Content(escape(_words(each)))) for each in self._changes))

    def on_mount(self) -> None:
        box = self.query_one(OptionList)
        box.border_title = "fork here: what happens next?"
        box.border_subtitle = "Enter runs on, Escape leaves"
        box.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._changes[event.option_index])


def _words(change: Change) -> str:
    return f"without this fault: {change.name}" if change.mends else change.name


class EditScreen(ModalScreen[Change | None]):
    """Answers the change that `parse` makes of the text, or None if the user leaves."""

    BINDINGS: ClassVar = [
        Binding("ctrl+s,f2", "done", "run on", priority=True),
        Binding("escape", "dismiss(None)", "leave", priority=True),
    ]

    def __init__(self, text: str, parse: Callable[[str], Change]) -> None:
        super().__init__()
        self._text = text
        self._parse = parse

    def compose(self) -> ComposeResult:
        with Vertical():
            yield TextArea(self._text, show_line_numbers=True, tab_behavior="indent")
            yield Static(id="mistake")

    def on_mount(self) -> None:
        box = self.query_one(TextArea)
        box.cursor_blink = False
        box.border_title = "the next reply, as in a scenario file"
        box.border_subtitle = "Ctrl-S or F2 runs on with it, Escape leaves"
        box.focus()

    def action_done(self) -> None:
        box = self.query_one(TextArea)
        try:
            change = self._parse(box.text)
        except ScenarioError as error:
            self.query_one("#mistake", Static).update(Content(str(error)))
            if error.line is not None:
                box.move_cursor((error.line - 1, max((error.column or 1) - 1, 0)))
        else:
            self.dismiss(change)


class ShrinkScreen(ModalScreen[Session | str]):
    """Answers the smallest run that fails as the given one, or in words why there is none."""

    BINDINGS: ClassVar = [("escape,enter,q", "stop", "stop, with the smallest run so far")]

    class Advanced(Message):
        """A smaller run was found."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._is_stopped = False

    def compose(self) -> ComposeResult:
        yield Static(Content("runs the scenario ..."))

    def on_mount(self) -> None:
        box = self.query_one(Static)
        box.border_title = "shrinks the failing run"
        box.border_subtitle = "Escape takes the smallest run so far"
        self._shrink()

    @work(thread=True, exclusive=True)
    def _shrink(self) -> Session | str:
        worker = get_current_worker()
        try:
            return shrunk(
                self._session,
                self._say,
                lambda: self._is_stopped or worker.is_cancelled,
            )
        except SimloopError as error:
            return str(error)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Close when the thread has ended: a screen that closes before cancels it."""
        if event.state is WorkerState.SUCCESS:
            self.dismiss(event.worker.result)

    def _say(self, words: str) -> None:
        self.post_message(ShrinkScreen.Advanced(words))  # without a wait for the other thread

    def on_shrink_screen_advanced(self, message: Advanced) -> None:
        self.query_one(Static).update(Content(message.words))

    def action_stop(self) -> None:
        """Stop after the run that is being made."""
        self._is_stopped = True
        self.query_one(Static).update(Content("stops ..."))


class TextScreen(ModalScreen[None]):
    """Shows a text."""

    BINDINGS: ClassVar = [Binding("escape,q,enter", "dismiss(None)", "leave", priority=True)]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        yield TextArea(self._text, read_only=True, soft_wrap=True)

    def on_mount(self) -> None:
        box = self.query_one(TextArea)
        box.border_title = "copied to the clipboard, if the terminal allows it"
        box.border_subtitle = "Escape leaves"
        box.focus()
