"""The bars of one line: the heading, the choice of a view, and the footer with its keys.

Each label that names a key can be clicked, and does what the key does. Markup is made of simloop's
own words alone; a text of a trace is no markup.
"""

from collections.abc import Sequence
from typing import Protocol

from rich.cells import cell_len
from textual.content import Content
from textual.markup import escape as escape_markup
from textual.widgets import Static

from simloop.cursor.keys import VIEW_KEYS, FactView
from simloop.escape import escape
from simloop.trace.kinds import clock
from simloop_tui.keys import ACTIONS, Action
from simloop_tui.session import Session


class Answering(Protocol):
    """An object that answers actions, such as a session."""

    said: str


_WIDEST = 200
_LONGEST = 800


class Heading(Static):
    """The title and the loop of the run, where the cursor is, and how the run ends."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def render(self) -> Content:
        session = self._session
        trace = session.recording.trace
        end = Content.assemble("run ", ending(session, "ends: "))
        where = (
            f"entry {session.place} of {session.last}, "
            f"{clock(session.position.at_ns)} of {clock(trace.elapsed_ns)}"
        )
        title = Content.styled(escape(trace.header.title or session.name, _WIDEST), "bold")
        loop = Content(f"loop {escape(trace.header.loop, _WIDEST)}, seed {trace.header.seed}")
        return Content("\n").join([self._spread(title, Content(where)), self._spread(loop, end)])

    def _spread(self, left: Content, right: Content) -> Content:
        room = max(self.content_size.width - right.cell_length - 2, 0)
        return Content.assemble(left.truncate(room, ellipsis=True, pad=True), "  ", right)


def ending(session: Session, verb: str) -> Content:
    """Return the verb with the outcome of the run, and what is wrong with the run."""
    words, wrong, is_good = session.recording.ending
    end = Content.styled(words, "$text-success" if is_good else "$text-error")
    verb = verb if session.recording.trace.outcomes else ""
    return Content.assemble(verb, end, Content.styled(f", {wrong}" if wrong else "", "$text-error"))


_VIEWS = {each: f"{key}:{each}" for each, key in VIEW_KEYS.items()}


class ViewBar(Static):
    """The names of the views; the chosen one stands out, and each can be clicked."""

    _chosen: FactView | None = None

    def show(self, chosen: FactView) -> None:
        """Mark the chosen view."""
        if chosen is self._chosen:
            return  # an update would lay out the whole screen
        self._chosen = chosen
        labels = [
            Content.from_markup(
                f"[@click=screen.view('{each}')]"
                + (f"[b reverse]{words}[/][/]" if each is chosen else f"{words}[/]")
            )
            for each, words in _VIEWS.items()
        ]
        self.update(Content(" ").join(labels))


class KeyBar(Static):
    """The answer to the newest action, then the keys that are used most; each can be clicked.

    An answer that is longer than the line is wrapped, without the keys.
    """

    def __init__(self, holder: Answering, actions: Sequence[Action] = ACTIONS) -> None:
        super().__init__()
        self._holder = holder
        self._actions = actions

    def follow(self) -> None:
        """Show the newest answer; the height changes only where an answer is long."""
        said = escape(self._holder.said, _LONGEST)
        is_long = cell_len(said) > self.content_size.width > 0
        if is_long or self.has_class("-long"):
            self.set_class(is_long, "-long")
            self.refresh(layout=True)
        else:
            self.refresh()

    def render(self) -> Content:
        if self.has_class("-long"):
            return Content(escape(self._holder.said, _LONGEST))
        offered = [action for action in self._actions if action.brief]
        offered.sort(key=_is_of_a_run)  # help and quit stay visible in a narrow terminal
        keys = Content("  ").join(map(_label, offered))
        said = escape(self._holder.said, _WIDEST)
        return (
            Content.assemble(Content.styled(f" {said} ", "reverse"), "  ", keys) if said else keys
        )


def _is_of_a_run(action: Action) -> bool:
    return action.does[0] not in {"help", "quit"}


def _label(action: Action) -> Content:
    key = escape_markup(action.shown_keys.partition(" or ")[0])
    return Content.from_markup(f"[@click=screen.{action.call}][b]{key}[/b] {action.brief}[/]")
