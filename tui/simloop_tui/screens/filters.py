"""The filter: which kinds of entries the timeline shows."""

from collections.abc import Collection, Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import SelectionList


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
        """Yield a line for each kind."""
        yield SelectionList[str](
            *(
                (Content(f"{kind} ({count:,})"), kind, kind not in self._hidden)
                for kind, count in self._kinds.items()
            )
        )

    def on_mount(self) -> None:
        """Say what the keys do."""
        box = self.query_one(SelectionList)
        box.border_title = "kinds of entries that are shown"
        box.border_subtitle = "Space chooses, a: all, Escape: done"
        box.focus()

    def action_leave(self) -> None:
        """Answer the kinds that are not chosen."""
        self.dismiss(frozenset(self._kinds) - set(self.query_one(SelectionList).selected))

    def action_all(self) -> None:
        """Choose all kinds."""
        self.query_one(SelectionList).select_all()
