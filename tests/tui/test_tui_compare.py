"""Two runs side by side: by keys and by clicks, for traces, scenarios and loops."""

import pytest
from builders import TRACES
from screens import Driven, drive

from simloop_tui.app import StepApp
from simloop_tui.keys import COMPARE
from simloop_tui.runs import opened_against, opened_pair
from simloop_tui.screens.comparison import CompareScreen
from simloop_tui.screens.library import LoadingScreen
from simloop_tui.screens.replay import ReplayScreen

pytestmark = pytest.mark.slow

TRACE = str(TRACES / "start.quickstart.trace.jsonl")


def on_two_loops() -> StepApp:
    return StepApp(
        LoadingScreen("quickstart", lambda: opened_against("quickstart", "opencode", {}))
    )


def screen(driven: Driven) -> CompareScreen:
    shown = driven.pilot.app.screen
    assert isinstance(shown, CompareScreen)
    return shown


async def at_the_first_difference(driven: Driven) -> None:
    await driven.settled()
    await driven.press("g", "n")


def test_a_scenario_on_two_loops_stands_at_the_first_different_effect() -> None:
    async def act(driven: Driven) -> None:
        await driven.settled()
        line = next(line for line in driven.lines() if line.startswith("│>"))
        assert "> 14  5.680s tools  ( tool list_files" in line  # opencode starts a tool at once
        await at_the_first_difference(driven)
        assert screen(driven).comparison.place == 1
        line = next(line for line in driven.lines() if "-> measuring on began" in line)
        assert "\N{NOT EQUAL TO}" in line

    drive(on_two_loops(), act)


@pytest.mark.parametrize("width", [80, 120])
def test_the_headings_tell_the_runs_apart_and_a_run_without_an_end_has_its_whole_reason(
    width: int,
) -> None:
    async def act(driven: Driven) -> None:
        await driven.settled()
        names, loops, *lines = driven.lines()
        assert names.split("  ")[0].strip() == "quickstart"
        assert names.endswith("quickstart on opencode")
        assert "loop reference ends as completed" in loops
        assert "loop opencode did not end" in loops
        reason = "summaries: the script has no reply for request 6: the run used 1 ordered reply"
        assert f"the right run did not end: {reason} (add a" in " ".join(map(str.strip, lines[1:3]))
        assert " ? help" in lines[-1]

    drive(on_two_loops(), act, (width, 24))


def test_a_pair_has_the_numbers_of_its_entries_and_words_that_end_in_an_ellipsis() -> None:
    async def act(driven: Driven) -> None:
        await at_the_first_difference(driven)
        line = next(line for line in driven.lines() if "request #1" in line)
        assert line.startswith("\N{BOX DRAWINGS LIGHT VERTICAL}  3  0.000s ^ request #1")
        assert "  2  0.000s ^ request #1" in line
        assert line.count("\N{HORIZONTAL ELLIPSIS}") == 2

    drive(on_two_loops(), act, (80, 24))


def test_a_trace_beside_a_scenario_that_does_not_differ_says_so() -> None:
    app = StepApp(LoadingScreen("two", lambda: opened_pair(TRACE, "quickstart", {})))

    async def act(driven: Driven) -> None:
        await driven.settled()
        assert "the runs do not differ" in driven.lines()[-1]

    drive(app, act)


MOVES = (
    ("j", 2), ("down", 3), ("k", 2), ("up", 1), ("n", 2), ("N", 1), ("pagedown", 21),
    ("pageup", 1), ("ctrl+d", 21), ("ctrl+u", 1), ("g", 0), ("end", 60), ("home", 0), ("G", 60),
    ("tab", 60), ("tab", 60),
)  # fmt: skip


def test_a_key_moves_both_runs() -> None:
    async def act(driven: Driven) -> None:
        await at_the_first_difference(driven)
        places = []
        for key, _ in MOVES:
            await driven.press(key)
            places.append((key, screen(driven).comparison.place))
        assert places == list(MOVES)

        await driven.press("g", "n", "2")
        lines = driven.lines()
        assert any(" left run: state " in line and " > right run: state " in line for line in lines)
        assert any("\N{NOT EQUAL TO} state: measuring" in line for line in lines)
        assert any("\N{NOT EQUAL TO} state: calling-model" in line for line in lines)

    drive(on_two_loops(), act)
    moving = {key for action in COMPARE if action.of_session for key in action.keys}
    assert moving == {key for key, _ in MOVES}


def test_enter_steps_through_the_chosen_run_and_escape_comes_back() -> None:
    async def act(driven: Driven) -> None:
        await at_the_first_difference(driven)
        for loop in ("opencode", "reference"):
            await driven.press("enter")
            replay = driven.pilot.app.screen
            assert isinstance(replay, ReplayScreen)
            assert replay.session.recording.trace.header.loop == loop
            assert replay.session.place == 1
            await driven.press("G", "escape")
            assert screen(driven).comparison.side.place == 1
            await driven.press("tab")

    drive(on_two_loops(), act)


def test_pairs_facts_and_help_can_be_clicked() -> None:
    async def act(driven: Driven) -> None:
        await at_the_first_difference(driven)
        await driven.click_on("error 429 Too Many")
        here = screen(driven).comparison
        assert here.pairs[here.place][:2] == (4, 3)
        await driven.press("G", "3")
        await driven.click_on("error_count")
        assert here.left.place == 6
        await driven.press("g", "n", "question_mark")
        await driven.click_on("next difference")
        assert here.place == 2
        await driven.press("escape")
        assert "there is no screen before this one" in driven.lines()[-1]

    drive(on_two_loops(), act)
