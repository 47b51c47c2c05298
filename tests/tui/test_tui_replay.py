"""The replay screen: keys and clicks move the cursor, and the panes show the facts there."""

from typing import Any

import pytest
from agents import of_shop
from builders import recorded
from screens import Driven, drive, stepping, unfolded

from simloop.cursor.keys import VIEW_KEYS, FactView
from simloop.cursor.position import Position
from simloop.cursor.rows import FactRow, Mark
from simloop.cursor.views import view
from simloop.trace import entries
from simloop_tui.app import StepApp
from simloop_tui.keys import ACTIONS
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.session import SESSION_ACTIONS, Session
from simloop_tui.widgets.facts import FactsPane
from simloop_tui.widgets.timeline import Timeline


def rows(place: int, name: str) -> list[str]:
    shown = [str(row) for row in view(FactView(name), Position(recorded(), place))]
    return [f"{line} (click, or z, closes it)" if line[0] == "%" else line for line in shown]


pytestmark = pytest.mark.slow

MOVES = (
    ("j", 1), ("down", 2), ("right", 3), ("k", 2), ("up", 1), ("left", 0),
    ("G", 55), ("g", 0), ("end", 55), ("home", 0),
    ("pagedown", 20), ("pageup", 0), ("ctrl+d", 20), ("ctrl+u", 0),
    ("full_stop", 1), ("full_stop", 2), ("comma", 1), ("s", 3), ("s", 10), ("S", 3), ("e", 4),
    ("r", 10), ("R", 10), ("m", 24), ("M", 10), ("t", 18), ("t", 28), ("T", 18),
    ("c", 41), ("G", 55), ("C", 41), ("E", 4), ("P", 0), ("p", 0), ("a", 0), ("A", 0),
    ("w", 1), ("w", 2), ("x", 2), ("w", 6), ("W", 1), ("b", 1), ("G", 55), ("b", 55),
    ("left_square_bracket", 1), ("right_square_bracket", 55), ("g", 0),
)  # fmt: skip
"""Keys, pressed one after the other, and where the cursor then is in the recorded quickstart."""


def test_a_key_moves_the_cursor() -> None:
    session = unfolded()  # a row for each entry
    method = {key: each.does for each in ACTIONS if each.of_session for key in each.keys}
    places = []
    for key, _ in MOVES:
        name, *arguments = method[key]
        SESSION_ACTIONS[name](session, *arguments)
        places.append((key, session.place))
    assert places == list(MOVES)


def test_each_key_that_moves_is_pressed_above() -> None:
    elsewhere = {"u", "space", "plus", "equals_sign", "minus", "i", "z"}
    moving = {key for action in ACTIONS if action.of_session for key in action.keys}
    assert moving - elsewhere == {key for key, _ in MOVES}


def test_the_panes_show_the_facts_at_the_cursor() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("e", "j", "j", "j")
        for name in ("state", "counters", "timers", "why"):
            assert driven.pane(name) == rows(7, name)
        assert any("Failure 1 of 3: the wait is 5.000s" in line for line in driven.lines())
        assert any("entry 7 of 55" in line for line in driven.lines())

    drive(stepping(), act)


def test_each_view_has_a_key_and_a_place_to_click() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("G")
        await driven.press("z")  # the context is then that of the view
        for name, key in VIEW_KEYS.items():
            await driven.press(key)
            assert driven.pane("chosen") == rows(55, name)
        await driven.click_on("2:state")
        assert driven.pane("chosen") == rows(55, FactView.STATE)

    drive(stepping(), act, (80, 24))


def test_a_view_that_has_its_own_pane_is_not_shown_twice() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("9", "1")
        assert sum("─ why ─" in line for line in driven.lines()) == 1
        assert driven.screen.query_one("#chosen", FactsPane).border_title == "context"
        assert driven.screen.query_one("#why").has_class("-chosen")
        assert "why is shown in its own pane" in driven.lines()[-1]
        await driven.press("7")
        assert not driven.screen.query_one("#why").has_class("-chosen")
        assert driven.screen.query_one("#chosen", FactsPane).border_title == "calls"

    drive(stepping(), act)


def test_the_current_state_is_visible_wherever_the_cursor_moves() -> None:
    async def act(driven: Driven) -> None:
        state = driven.screen.query_one("#state", FactsPane)
        for number in range(20):
            leave = state.scroll_end if number % 2 else state.scroll_home  # as the user may
            leave(animate=False, immediate=True)
            await driven.press("j")
            top, bottom = state.scroll_offset.y, state.scroll_offset.y + state.size.height
            shown = {state._rows[number] for number, _ in state._lines[top:bottom]}
            on_the_map = FactRow(Mark.CURRENT, "", state._rows[0].text)
            assert on_the_map in shown

    drive(stepping(), act, (120, 36))


def test_a_narrow_terminal_shows_most_of_each_line_and_no_view_twice_when_it_grows() -> None:
    async def act(driven: Driven) -> None:
        lines = driven.lines()
        assert lines[3].startswith("│>  0 0.000s > prompt What does this proj…")
        assert lines[7].startswith("│   4        ! error 429 Too Many Requests ")
        assert lines[12].startswith("│   8 5.000s * -> measuring on backoff-el…")
        room = driven.screen.query_one(Timeline).scrollable_content_region.width
        line = next(line for line in lines if "prompt" in line)
        assert room - line.index("prompt") + 1 >= room * 2 // 3
        assert any("~ 5.000s of waiting: backoff ~" in line for line in lines)
        await driven.press("1")
        assert driven.screen.query_one("#chosen", FactsPane).border_title == "why"
        await driven.pilot.resize_terminal(120, 40)
        await driven.pilot.pause()
        assert driven.screen.query_one("#chosen", FactsPane).border_title == "request"

    drive(stepping(), act, (80, 24))


def test_a_narrow_terminal_shows_one_view_and_a_wide_one_more() -> None:
    seen = {}

    async def act(driven: Driven) -> None:
        assert "? help  q quit" in driven.lines()[-1]
        panes = driven.screen.query("FactsPane")
        seen[driven.pilot.app.size.width] = sum(pane.is_on_screen for pane in panes)

    for size in ((60, 20), (200, 50)):
        drive(stepping(), act, size)
    assert seen == {60: 1, 200: 6}


@pytest.mark.parametrize(("size", "name"), [((80, 24), "why"), ((120, 40), "request")])
def test_a_pane_for_all_views_begins_with_the_reasons_or_the_request_if_they_have_a_pane(
    size: tuple[int, int], name: str
) -> None:
    async def act(driven: Driven) -> None:
        await driven.press("m")
        assert driven.pane("chosen") == rows(3, name)

    drive(stepping(), act, size)


def test_a_click_on_the_timeline_and_on_a_fact_goes_to_its_entry() -> None:
    async def act(driven: Driven) -> None:
        await driven.click_on("of waiting")
        assert driven.place == 8
        await driven.click_on("429 Too Many")
        assert driven.place == 4
        await driven.press("G")
        await driven.click_on("error_count")
        assert driven.place == 6

    drive(stepping(), act)


def test_the_footer_names_keys_that_can_be_clicked_and_says_what_was_not_found() -> None:
    async def act(driven: Driven) -> None:
        await driven.click_on("e fault")
        assert driven.place == 4
        await driven.press("e")
        assert "there is no later fault" in driven.lines()[-1]
        await driven.press("j")
        assert "there is no later fault" not in driven.lines()[-1]
        await driven.press("e", "tab")
        state = driven.screen.query_one("#state", FactsPane)
        assert state.has_focus
        place = driven.place
        await driven.press("down", "down")
        assert (state.scroll_offset.y, driven.place) == (2, place)

    drive(stepping(), act)


def agents_app(**expect: Any) -> StepApp:
    recording = of_shop({"http": {"status": 503}}, **expect)
    return StepApp(ReplayScreen(Session(recording, "shop")))


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
def test_the_room_of_an_agent_is_for_its_request_and_its_reply(size: tuple[int, int]) -> None:
    async def act(driven: Driven) -> None:
        recording = driven.screen.session.recording
        (text, *_) = recording.index.texts
        driven.screen.session.go(text[-1])
        driven.screen.follow()
        await driven.pilot.pause()
        assert driven.pane("chosen")[0].startswith("# request: #2")
        assert driven.pane("reply")[1].startswith("  text: Let me look that order up.")
        panes = (driven.screen.query_one(f"#{each}") for each in ("chosen", "reply"))
        request, reply = (pane.region for pane in panes)
        assert request.width == reply.width
        assert request.bottom <= reply.y
        for empty in ("state", "counters"):
            assert not driven.screen.query_one(f"#{empty}").display

    drive(agents_app(), act, size)


def test_a_narrow_screen_shows_the_reasons_where_there_are_some() -> None:
    async def act(driven: Driven) -> None:
        sleep = driven.screen.session.recording.index.places[entries.Sleep][0]
        for place, title in ((0, "request"), (sleep, "why"), (sleep + 1, "request")):
            driven.screen.session.go(place)
            driven.screen.follow()
            assert driven.screen.query_one("#chosen", FactsPane).border_title == title

    drive(agents_app(), act, (80, 24))


def test_a_failed_expectation_is_in_the_heading_and_the_cursor_is_where_it_fails() -> None:
    async def act(driven: Driven) -> None:
        session = driven.screen.session
        assert isinstance(session.position.entry, entries.Request)
        _, second, *_ = driven.lines()
        wrong = f"expect.requests does not hold at entry {session.place}"
        assert f"run ends: completed, {wrong}" in second
        assert driven.pane("why") == ["  expect.requests here: expected 2, got 3"]
        await driven.press("G")
        assert driven.pane("why")[0].startswith("  expect.requests at entry")

    drive(agents_app(requests=2), act)
