"""The table of actions is complete, and no key has two meanings."""

from collections import Counter
from typing import Any

import pytest

from simloop.cursor.keys import VIEW_KEYS, FactView
from simloop_tui.comparison import COMPARE_ACTIONS
from simloop_tui.keys import ACTIONS, COMPARE, LIBRARY, Action
from simloop_tui.screens.comparison import CompareScreen
from simloop_tui.screens.keyed import KeyedScreen
from simloop_tui.screens.library import LibraryScreen
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.session import SESSION_ACTIONS

TABLES: dict[tuple[Action, ...], type[KeyedScreen]] = {
    ACTIONS: ReplayScreen,
    COMPARE: CompareScreen,
    LIBRARY: LibraryScreen,
}
OF_SCREEN: dict[type, Any] = {ReplayScreen: SESSION_ACTIONS, CompareScreen: COMPARE_ACTIONS}


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
        assert (
            method in OF_SCREEN[screen]
            if action.of_session
            else hasattr(screen, f"action_{method}")
        ), action
    named = {action.does[0] for action in table if action.of_session}
    # A line of its own asks where to go.
    assert OF_SCREEN.get(screen, {}).keys() - {"goto"} == named


def test_each_view_of_the_facts_has_a_key() -> None:
    assert set(VIEW_KEYS) == set(FactView)
