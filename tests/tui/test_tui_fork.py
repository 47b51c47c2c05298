"""A fork is chosen from a menu or written by hand, and shown beside the run that it left."""

import pytest
from builders import recorded
from screens import Driven, drive, stepping
from textual.widgets import OptionList, TextArea

from simloop.cursor.recorded_run import RecordedRun
from simloop_tui.app import StepApp
from simloop_tui.screens.comparison import CompareScreen
from simloop_tui.screens.dialogs import EditScreen, ForkScreen
from simloop_tui.screens.replay import ReplayScreen
from simloop_tui.session import Session

pytestmark = pytest.mark.slow


def compare(driven: Driven) -> CompareScreen:
    shown = driven.pilot.app.screen
    assert isinstance(shown, CompareScreen)
    return shown


async def edited(driven: Driven, old: str, new: str) -> TextArea:
    """Open the editor of the next reply, and replace a part of its text."""
    await driven.press("F", "enter")
    box = driven.pilot.app.screen.query_one(TextArea)
    assert old in box.text
    box.text = box.text.replace(old, new)
    await driven.press("ctrl+s")
    await driven.settled()
    return box


def test_a_change_from_the_menu_runs_on_and_shows_both_branches() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("e", "F")
        await driven.settled()
        options = driven.pilot.app.screen.query_one(OptionList).options
        first, second, *_ = (str(each.prompt) for each in options)
        assert first == "without this fault: request #1 does not fail"
        assert second == "edit the next reply"
        await driven.click_on("a server error (500) for request #2")
        await driven.settled()
        comparison = compare(driven).comparison
        assert comparison.place == comparison.differences[0] == 11
        assert any("error 500" in line for line in driven.lines())
        assert any("a fork of start.quickstart at entry 4" in line for line in driven.lines())
        await driven.press("escape")
        assert driven.place == 4

    drive(StepApp(ReplayScreen(Session(recorded(), "start.quickstart"))), act)


def test_the_menu_can_be_left_and_used_by_keys() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("F", "escape")
        assert isinstance(driven.pilot.app.screen, ReplayScreen)
        await driven.press("F")
        assert isinstance(driven.pilot.app.screen, ForkScreen)
        options = driven.pilot.app.screen.query_one(OptionList).options
        assert str(options[0].prompt) == "edit the next reply"
        await driven.press("down", "enter")
        await driven.settled()
        assert compare(driven).comparison.differences

    drive(stepping(), act)


def test_the_next_reply_is_edited_as_text() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("e", "j")
        await edited(driven, "I will look around.", "I will wait.")
        assert any("text  wait." in line for line in driven.lines())

    drive(stepping(), act)


def test_a_text_with_a_mistake_stays_with_its_mistake_below_it() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("e", "j")
        box = await edited(driven, "say:", "sey:")
        assert isinstance(driven.pilot.app.screen, EditScreen)
        assert "sey:" in box.text
        assert any("reply:1:6: " in line and "sey" in line for line in driven.lines())
        assert box.cursor_location == (0, 5)
        await driven.press("escape")
        assert isinstance(driven.pilot.app.screen, ReplayScreen)

    drive(stepping(), act)


def test_a_fork_that_changes_nothing_or_does_not_end_says_so() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("e", "j")
        await edited(driven, "", "")
        assert "the change has no effect" in driven.lines()[3]
        await driven.press("escape")
        await driven.press("G", "M", "k")
        await edited(driven, "say:", "call: {list_files: {}}\n    say:")
        assert "the fork did not end: " in driven.lines()[3]

    drive(stepping(), act)


def test_the_fault_at_the_cursor_is_switched_off() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("e", "F", "enter")
        await driven.settled()
        right = compare(driven).comparison.right
        assert "request #1 does not fail" in right.comment
        assert right.recording.trace.elapsed_ns < 5 * 10**9
        await driven.press("F", "down", "enter")
        await driven.settled()
        assert compare(driven).comparison.left.name.startswith("a fork of ")

    drive(stepping(), act)


def test_a_run_that_cannot_be_repeated_says_why() -> None:
    stranger = RecordedRun(trace=recorded().trace, unknown="this run was of the loop `x:y`")

    async def act(driven: Driven) -> None:
        await driven.press("F")
        assert "this run cannot be repeated: this run was of the loop" in driven.lines()[-1]

    drive(StepApp(ReplayScreen(Session(stranger))), act)


def test_a_run_of_an_agent_says_first_how_it_is_forked_and_then_the_whole_reason() -> None:
    reason = "this run was of the loop `x:y` " + "and so on " * 12 + "to its end"
    stranger = RecordedRun(trace=recorded().trace, unknown=reason, needs_loop=True)

    async def act(driven: Driven) -> None:
        await driven.press("F")
        await driven.settled()
        shown = " ".join(line.strip() for line in driven.lines())
        start = "To fork, start with: simloop step FILE --loop MODULE:ATTRIBUTE. Reason: "
        assert f"{start}this run cannot be repeated without its code: {reason}" in shown
        await driven.press("j")
        await driven.settled()
        assert "To fork" not in "".join(driven.lines())
        assert " ? help" in driven.lines()[-1]

    drive(StepApp(ReplayScreen(Session(stranger))), act, (80, 24))
