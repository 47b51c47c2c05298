"""The table of actions is complete, and no key has two meanings."""

from collections import Counter

import pytest

from simloop.cursor.keys import VIEW_KEYS
from simloop.cursor.views import FactView
from simloop_tui.comparing import SideBySide
from simloop_tui.keys import ACTIONS, COMPARE, LIBRARY, Action
from simloop_tui.screens.compare import CompareScreen
from simloop_tui.screens.keyed import KeyedScreen
from simloop_tui.screens.library import LibraryScreen
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.session import Session

TABLES: dict[tuple[Action, ...], type[KeyedScreen]] = {
    ACTIONS: ReplayScreen,
    COMPARE: CompareScreen,
    LIBRARY: LibraryScreen,
}
HOLDERS: dict[type, type] = {ReplayScreen: Session, CompareScreen: SideBySide}


@pytest.mark.parametrize("table", TABLES)
def test_no_key_has_two_actions(table: tuple[Action, ...]) -> None:
    counts = Counter(key for action in table for key in action.keys)
    assert [key for key, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("table", TABLES)
def test_no_two_actions_share_a_name_or_their_words(table: tuple[Action, ...]) -> None:
    assert len({action.name for action in table}) == len(table)
    assert len({action.words for action in table}) == len(table)


@pytest.mark.parametrize("table", TABLES)
def test_each_action_is_a_method_of_the_session_or_an_action_of_the_screen(
    table: tuple[Action, ...],
) -> None:
    screen = TABLES[table]
    assert screen.actions is table
    for action in table:
        method = action.does[0]
        holder = HOLDERS.get(screen)
        assert (
            hasattr(holder, method) if action.of_session else hasattr(screen, f"action_{method}")
        ), action


def test_each_view_of_the_facts_has_a_key() -> None:
    assert set(VIEW_KEYS) == set(FactView)
