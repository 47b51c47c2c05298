"""A key means on the page what it means in the terminal."""

from simloop.cursor.views import FactView
from simloop.page.keys import KEYS, MATRIX_KEYS, VIEW_KEYS
from simloop_tui.keys import ACTIONS


def test_no_key_has_two_actions() -> None:
    for table in (KEYS, MATRIX_KEYS):
        keys = [key for each in table for key in each.keys]
        assert len(keys) == len(set(keys))


def test_each_view_has_a_key() -> None:
    assert set(VIEW_KEYS) == set(FactView)


def test_a_key_that_the_terminal_has_too_does_the_same_there() -> None:
    in_terminal = {
        key: action.does for action in ACTIONS for key in action.shown_keys.split(" or ")
    }
    shared = [(key, each.does) for each in KEYS for key in each.keys if key in in_terminal]
    assert len(shared) > 30
    assert [(key, does) for key, does in shared if in_terminal[key] != does] == []
