"""The actions in the command palette."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from textual.command import DiscoveryHit, Hit, Hits, Provider

from simloop_tui.keys import Action


class Actions(Provider):
    """Offers each action of the screen by its words, with its keys as help."""

    def _offers(self) -> Iterator[tuple[Action, Any]]:
        for action in getattr(self.screen, "actions", ()):
            if action.does != ("palette",):
                yield action, partial(self.screen.run_action, action.call)

    async def discover(self) -> Hits:
        """Yield all actions."""
        for action, perform in self._offers():
            yield DiscoveryHit(action.words, perform, help=_key_of(action))

    async def search(self, query: str) -> Hits:
        """Yield the actions whose words match."""
        matcher = self.matcher(query)
        for action, perform in self._offers():
            score = matcher.match(action.words)
            if score > 0:
                yield Hit(score, matcher.highlight(action.words), perform, help=_key_of(action))


def _key_of(action: Action) -> str:
    return f"key: {action.shown_keys}" if action.keys else ""
