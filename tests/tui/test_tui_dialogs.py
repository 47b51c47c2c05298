"""Going to a place, searching, filtering and help: by keys and by clicks."""

import pytest
from screens import Driven, drive, stepping
from textual.widgets import Input, OptionList

from simloop.cursor.rows import Mark
from simloop.trace.kinds import USUAL_LANES, legend
from simloop_tui.keys import ACTIONS
from simloop_tui.screens.dialogs import HelpScreen, reading

pytestmark = pytest.mark.slow


def test_the_colon_goes_to_an_entry_and_to_a_time() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("colon", "1", "2", "enter")
        assert driven.place == 12
        await driven.press("colon", *"5s", "enter")
        assert driven.place == 10
        await driven.press("colon", *"99", "enter")
        assert driven.place == 10
        assert "there is no such entry; the last one is 55" in driven.lines()[-1]
        await driven.press("colon", "7", "escape")
        assert driven.place == 10

    drive(stepping(), act)


def test_what_is_typed_ahead_of_the_question_is_not_lost() -> None:
    async def act(driven: Driven) -> None:
        app = driven.pilot.app
        for key in ("slash", "4", "2", "9", "enter"):
            app.simulate_key(key)
        await driven.settled()
        await driven.settled()
        assert driven.screen.session.query == "429"
        assert driven.place == 4

    drive(stepping(), act)


def test_a_search_and_its_next_and_previous_match() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("n")
        await driven.settled()
        assert "search with / first" in driven.lines()[-1]
        for keys, place in ((["slash", *"readme", "enter"], 19), (["n"], 20), (["N"], 19)):
            await driven.press(*keys)
            await driven.settled()
            assert driven.place == place
        await driven.press("slash")
        assert driven.pilot.app.screen.query_one(Input).value == "readme"
        await driven.press(*"zzz", "enter")
        await driven.settled()
        assert driven.place == 19
        assert "no entry contains 'zzz'" in driven.lines()[-1]

    drive(stepping(), act)


def test_the_filter_hides_kinds_and_shows_them_again() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("f", "down", "space")
        await driven.settled()
        lines = "\n".join(driven.lines())
        assert "shown   prompt (1)" in lines
        assert "hidden  transition (17)" in lines
        await driven.press("q")
        assert driven.screen.session.hidden == {"transition"}
        assert not any("-> measuring" in line for line in driven.lines())
        await driven.press("j")
        assert driven.place == 3
        await driven.press("f")
        await driven.click_on("transition (17)")
        await driven.press("escape")
        assert driven.screen.session.hidden == frozenset()
        await driven.press("f", "space", "a", "f")
        assert driven.screen.session.hidden == frozenset()
        assert any("-> measuring" in line for line in driven.lines())

    drive(stepping(), act)


def test_the_help_lists_each_action_with_its_keys_and_performs_the_chosen_one() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("question_mark")
        options = driven.pilot.app.screen.query_one(OptionList).options
        listed = [" ".join(str(option.prompt).split()) for option in options]
        for action in ACTIONS:
            assert f"{action.shown_keys} {action.words}".strip() in listed
        await driven.click_on("last entry")
        assert driven.place == 55
        await driven.press("question_mark", "down", "enter")
        assert driven.place == 54
        await driven.press("question_mark", "escape")
        assert not isinstance(driven.pilot.app.screen, HelpScreen)

    drive(stepping(), act)


def test_the_help_fills_a_small_terminal_with_keys_and_has_all_signs_below_them() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("question_mark")
        shown = "\n".join(driven.lines())
        assert sum(action.words in shown for action in ACTIONS) >= 18
        assert "the signs of the entries stand below: End" in shown
        await driven.press("end")
        await driven.settled()
        shown = "\n".join(driven.lines())
        for lane in USUAL_LANES:
            for sign, meaning in legend()[lane].items():
                assert f"{sign} {meaning}" in shown
        *_, marks, last = reading()
        assert all(f"{mark} {mark.words}" in marks for mark in Mark if mark.words)
        assert last in shown
        await driven.press("enter")
        assert isinstance(driven.pilot.app.screen, HelpScreen)

    drive(stepping(), act, (80, 24))


def test_a_run_plays_and_pauses_at_a_speed() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("i", "plus", "equals_sign", "minus", "space")
        assert driven.screen.session.player.speed == 2
        assert driven.lines()[-3].startswith(" playing 2x")
        await driven.pilot.pause(0.6)
        await driven.press("space")
        place = driven.place
        assert place > 0
        await driven.pilot.pause(0.3)
        assert driven.place == place
        assert driven.lines()[-3].startswith(" paused 2x")

    drive(stepping(), act)


def test_the_scrubber_is_clicked_folds_open_and_the_theme_changes() -> None:
    async def act(driven: Driven) -> None:
        signs, line = driven.lines()[-3:-1]
        assert (signs[11], signs[-1], line[11]) == ("!", "=", "●")
        await driven.pilot.click(offset=(len(signs) - 1, 37))
        assert driven.place == 55
        await driven.press("9", "z")
        assert [line for line in driven.pane("chosen") if line.startswith("-")]
        await driven.click_on("normal compaction: 1 message")
        assert not [line for line in driven.pane("chosen") if line.startswith("-")]
        assert driven.place == 55
        await driven.press("b", "i")
        signs, line = driven.lines()[-3:-1]
        assert (signs[-1], line[-1]) == ("b", "●")
        assert line.startswith(" by entry")
        await driven.pilot.click(offset=(11 + 40, 38))
        assert 18 <= driven.place <= 22
        await driven.press("L")
        assert not driven.pilot.app.current_theme.dark
        await driven.press("q")
        assert driven.pilot.app._exit
        assert driven.pilot.app.return_code == 0

    drive(stepping(), act)
