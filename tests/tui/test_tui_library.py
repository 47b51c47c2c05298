"""Without an argument, the replayer lists what can be opened, and opens it."""

from pathlib import Path

import pytest
from screens import Driven, drive
from textual.events import Key
from textual.widgets import Input, OptionList

from simloop.check.trial import run_to_the_end
from simloop.scenario.catalog import bundled_names
from simloop.scenario.loader import parse_scenario
from simloop.trace import TRACES
from simloop.trace.codec import write_trace
from simloop_tui.app import StepApp
from simloop_tui.library import found, items
from simloop_tui.screens.library import LibraryScreen
from simloop_tui.screens.replay import ReplayScreen

pytestmark = pytest.mark.slow

PASSES = "title: It answers [@click=app.exit]\nprompt: Hi\nmodel: [{say: Hello.}]\n"
FAILS = f"{PASSES}expect: {{text: Bye.}}\n"


@pytest.fixture(autouse=True)
def _(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(TRACES).mkdir()
    write_trace(run_to_the_end(parse_scenario(PASSES)), Path(TRACES, "a.trace.jsonl"))
    Path("b.simloop.yaml").write_text(FAILS, "utf-8")
    Path("c.simloop.yaml").write_text("prompt: [", "utf-8")


def listing() -> StepApp:
    return StepApp(LibraryScreen(Path()))


def screen(driven: Driven) -> LibraryScreen:
    shown = driven.pilot.app.screen
    assert isinstance(shown, LibraryScreen)
    return shown


def chosen(driven: Driven) -> str:
    item = screen(driven).chosen
    return "" if item is None else item.named


async def words(driven: Driven, text: str) -> None:
    """Show the runs that have some words."""
    await driven.press("slash")
    screen(driven).query_one(Input).value = text
    await driven.press("enter")
    await driven.settled()


def test_failed_traces_come_first_and_the_chosen_run_has_a_verdict_and_a_preview() -> None:
    async def act(driven: Driven) -> None:
        await driven.settled()
        assert "failed test" in driven.lines()[2]
        assert any("ended as completed" in line for line in driven.lines())
        await driven.press("j")
        await driven.settled()
        assert any("b.simloop.yaml: failed" in line for line in driven.lines())
        assert any("expect.text" in line for line in driven.lines())
        assert any("prompt        Hi" in line for line in driven.lines())
        assert "It answers [@click=app.exit]" in driven.lines()[3]
        assert driven.lines()[3].startswith("│ > failed       b.simloop.yaml ")

    drive(listing(), act)


def pointed(driven: Driven) -> list[str]:
    return [line[4:].split(" ─")[0] for line in driven.lines() if line.startswith("│ > ")]


def test_the_chosen_run_has_a_sign_and_each_run_has_its_name_and_its_verdict() -> None:
    async def act(driven: Driven) -> None:
        await driven.settled()
        assert [line.split()[:2] for line in pointed(driven)] == [["failed", "test"]]
        await driven.press("j", "j", "j")
        await driven.settled()
        (line,) = pointed(driven)
        assert line.split()[:3] == ["passed", "abort/after-compaction", "reference"]
        lines = driven.lines()
        assert lines[0].split()[:5] == ["verdict", "name,", "for", "simloop", "step"]
        assert any(line.split()[1:3] == ["abort/at-a-cut", "reference"] for line in lines)
        assert any(
            "a scenario is run, and has a verdict, when it is chosen" in line for line in lines
        )

    drive(listing(), act)


def test_words_that_are_typed_at_once_after_the_key_of_the_search_perform_no_action() -> None:
    async def act(driven: Driven) -> None:
        await driven.settled()
        app = driven.pilot.app
        for key in "/quick/":
            name = {"/": "slash"}.get(key, key)
            app.post_message(Key(name, key).set_sender(app))
        await driven.settled()
        assert app.is_running
        assert screen(driven).query_one(Input).value == "quick/"

    drive(listing(), act)


def test_a_key_moves_the_choice() -> None:
    last = len(bundled_names()) + 2

    async def act(driven: Driven) -> None:
        await driven.settled()
        box = screen(driven).query_one(OptionList)
        for key, place in (
            ("j", 1), ("down", 2), ("k", 1), ("up", 0), ("k", 0), ("ctrl+d", 20), ("ctrl+u", 0),
            ("G", last), ("j", last), ("g", 0), ("end", last), ("home", 0),
        ):  # fmt: skip
            await driven.press(key)
            assert (key, box.highlighted) == (key, place)

    drive(listing(), act)


def test_words_choose_the_runs_that_are_shown_until_escape() -> None:
    async def act(driven: Driven) -> None:
        await driven.settled()
        await words(driven, "backoff abort")
        assert chosen(driven).startswith("abort/")
        count = len(found(items(Path()), "backoff abort"))
        assert 1 < count < len(bundled_names())
        assert f"─ {count} runs ─" in driven.lines()[1]
        await words(driven, "no such words")
        assert (chosen(driven), screen(driven).query_one(OptionList).option_count) == ("", 0)
        await driven.press("enter", "j", "G")
        assert any("no run has all these words" in line for line in driven.lines())
        await driven.press("escape")
        await driven.settled()
        assert chosen(driven) == f"{TRACES}/a.trace.jsonl"
        await driven.press("escape")
        assert "there is no screen before this one" in driven.lines()[-1]

    drive(listing(), act)


@pytest.mark.parametrize("text", ["a.trace", "quickstart"])
def test_enter_opens_the_run_and_escape_comes_back(text: str) -> None:
    async def act(driven: Driven) -> None:
        await driven.settled()
        await words(driven, text)
        await driven.press("enter")
        await driven.settled()
        shown = driven.pilot.app.screen
        assert isinstance(shown, ReplayScreen)
        assert text in shown.session.name
        await driven.press("escape")
        assert text in chosen(driven)

    drive(listing(), act)


def test_a_run_that_cannot_be_opened_says_why() -> None:
    async def act(driven: Driven) -> None:
        await driven.settled()
        await words(driven, "c.simloop")
        assert any("c.simloop.yaml:1" in line for line in driven.lines())
        await driven.press("enter")
        await driven.settled()
        assert chosen(driven) == "c.simloop.yaml"
        assert "c.simloop.yaml:1" in driven.lines()[-1]

    drive(listing(), act)


def test_keys_work_while_the_scenarios_are_read() -> None:
    async def act(driven: Driven) -> None:
        await driven.press("j", "enter", "q")
        assert driven.pilot.app._exit

    drive(listing(), act)
