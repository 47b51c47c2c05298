"""The table of actions is complete, and no key has two meanings."""

from collections import Counter

from simloop.cursor.views import FactView
from simloop_tui.keys import ACTIONS, VIEW_KEYS
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.session import Session


def test_no_key_has_two_actions() -> None:
    counts = Counter(key for action in ACTIONS for key in action.keys)
    assert [key for key, count in counts.items() if count > 1] == []


def test_no_two_actions_share_a_name_or_their_words() -> None:
    assert len({action.name for action in ACTIONS}) == len(ACTIONS)
    assert len({action.words for action in ACTIONS}) == len(ACTIONS)


def test_each_action_is_a_method_of_the_session_or_an_action_of_the_screen() -> None:
    for action in ACTIONS:
        method = action.does[0]
        assert (
            hasattr(Session, method)
            if action.of_session
            else hasattr(ReplayScreen, f"action_{method}")
        ), action


def test_each_view_of_the_facts_has_a_key() -> None:
    assert set(VIEW_KEYS) == set(FactView)
