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
                (
                    self._line(kind, is_shown=kind not in self._hidden),
                    kind,
                    kind not in self._hidden,
                )
                for kind in self._kinds
            )
        )

    def _line(self, kind: str, *, is_shown: bool) -> Content:
        """Return the words of a kind, because the box before them differs by its colour alone."""
        word = "shown" if is_shown else "hidden"
        return Content(f"{word:<7} {kind} ({self._kinds[kind]:,})")

    def on_selection_list_selected_changed(self) -> None:
        """Say which kinds are shown."""
        box = self.query_one(SelectionList)
        chosen = set(box.selected)
        for number, kind in enumerate(self._kinds):
            line = self._line(kind, is_shown=kind in chosen)
            box.replace_option_prompt_at_index(number, line)

    def on_mount(self) -> None:
        """Say what the keys do."""
        box = self.query_one(SelectionList)
        box.border_title = "kinds of entries in the timeline"
        box.border_subtitle = "Space: show or hide, a: show all, Escape: done"
        box.focus()

    def action_leave(self) -> None:
        """Answer the kinds that are not chosen."""
        self.dismiss(frozenset(self._kinds) - set(self.query_one(SelectionList).selected))

    def action_all(self) -> None:
        """Choose all kinds."""
        self.query_one(SelectionList).select_all()
