"""A key has one action on a page, and those of a run are the actions of the terminal."""

from simloop.cursor.keys import MOVES, VIEW_KEYS, FactView
from simloop.page.page import KEYS
from simloop_tui.keys import ACTIONS


def test_no_key_has_two_actions() -> None:
    keys = [key for each in KEYS for key in each.keys]
    assert len(keys) == len(set(keys))


def test_each_view_has_a_key() -> None:
    assert set(VIEW_KEYS) == set(FactView)


def test_the_page_and_the_terminal_have_the_same_keys_words_and_actions() -> None:
    in_terminal = {
        (key, action.words, action.does)
        for action in ACTIONS
        for key in action.shown_keys.split(" or ")
    }
    on_page = {(key, each.words, each.does) for each in KEYS for key in each.keys}
    assert len(on_page) > len(MOVES)
    assert on_page <= in_terminal


def test_no_key_of_the_page_is_one_that_the_browser_keeps() -> None:
    assert [key for each in KEYS for key in each.keys if key.startswith("Ctrl-")] == []
