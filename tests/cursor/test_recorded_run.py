"""A run is opened by its name, and every interface takes its verdict and its findings from it."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import structs
from msgspec.structs import replace

from simloop import Http, ModelCallFailed, Reply, Scenario
from simloop.cli import main
from simloop.cursor import recorded_run
from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun, is_trace, opened_run
from simloop.cursor.why import why
from simloop.errors import ScenarioError
from simloop.messages import Outcome, UserMessage
from simloop.page.page import page
from simloop.runs.fixtures import OF_A_TEST
from simloop.runs.run import run
from simloop.scenario.loader import parse_scenario
from simloop.trace import entries
from simloop.trace.codec import write_trace
from simloop.world.world import World
from simloop_tui.session import Session
from simloop_tui.widgets.bars import ending

BUSY = Http(status=503, retry_after="5s")
TWICE = Scenario(prompt="Hi", model=[Reply(http=BUSY), Reply(say="Hello.")])
BROKEN = "retry-after-respected"


async def hasty(prompt: str, world: World) -> str:
    """Try again at once, whatever the provider asks for."""
    while True:
        try:
            return (await world.model.reply([UserMessage(prompt)])).message.text
        except ModelCallFailed:
            continue


def recorded(scenario: Scenario = TWICE) -> RecordedRun:
    return RecordedRun.of_trace(run(scenario, loop=hasty).trace)


def test_a_run_that_completes_and_violates_an_invariant_says_where() -> None:
    recording = recorded()
    (found,) = recording.violations
    assert found.name == BROKEN
    assert isinstance(recording.entries[found.seq], entries.Request)
    here = list(why(Position(recording, found.seq)))
    assert here[0].startswith(f"The run violates `{BROKEN}` here: request 2 is sent 0 ms after")
    last = list(why(Position(recording, len(recording.entries) - 1)))
    assert last[0].startswith(f"The run violates `{BROKEN}` at entry {found.seq}: ")


def test_the_replayer_begins_at_the_violation_and_names_it_beside_the_outcome() -> None:
    recording = recorded()
    session = Session(recording)
    assert session.place == recording.violations[0].seq
    shown = str(ending(session, "ends: "))
    assert shown == f"ends: completed, violates {BROKEN} at entry {session.place}"


def test_the_page_names_it_and_calls_the_run_bad() -> None:
    shown = page(recorded())
    assert f"completed, violates {BROKEN} at entry 3" in shown
    assert 'class="bad"' in shown


def test_a_run_that_violates_nothing_begins_at_its_start() -> None:
    recording = RecordedRun.of_trace(run(TWICE).trace)
    assert recording.violations == ()
    assert Session(recording).place == 0
    assert str(ending(Session(recording), "ends: ")) == "ends: completed"


def test_a_violation_that_the_scenario_expects_is_none() -> None:
    expected = TWICE.model_copy(
        update={"expect": TWICE.expect.model_copy(update={"violates": {BROKEN: "by design"}})}
    )
    assert recorded(expected).violations == ()


def test_a_very_long_trace_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = recorded()
    monkeypatch.setattr(recorded_run, "MOST_JUDGED", len(recording.entries) - 1)
    assert recording.violations == ()


TRACES = Path(__file__).parents[2] / "scenarios" / "__snapshots__"
GREETING = "prompt: Hi\nmodel: [{say: Hello.}]\n"


def test_a_trace_is_known_by_its_name_or_by_its_first_line(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    write_trace(run(parse_scenario(GREETING)).trace, path)
    assert is_trace(str(path))
    assert is_trace("nowhere.jsonl")
    for other in ("quickstart", "a\0b", str(tmp_path)):
        assert not is_trace(other)
    assert len(opened_run(str(path)).entries) == len(run(parse_scenario(GREETING)).trace.entries)


def test_a_scenario_is_run_with_the_loop_and_the_seed_that_are_given(tmp_path: Path) -> None:
    path = tmp_path / "a.simloop.yaml"
    path.write_text(GREETING)
    header = opened_run(str(path), loop="pi", seed=7).trace.header
    assert (header.loop, header.seed) == ("pi", 7)
    assert opened_run("quickstart").machine is not None


def test_a_run_that_has_no_outcome_opens_as_far_as_it_went(tmp_path: Path) -> None:
    path = tmp_path / "a.simloop.yaml"
    path.write_text("prompt: Hi\nmodel: [{http: {status: 429}}]\n")
    recording = opened_run(str(path))
    assert recording.entries
    assert recording.trace.footer is None


def test_a_name_is_run_and_has_the_entries_of_its_recorded_trace() -> None:
    run_again = opened_run("quickstart")
    read = opened_run(str(TRACES / "start.quickstart.trace.jsonl"))
    assert run_again.entries == read.entries
    assert read.scenario is not None


def test_a_trace_without_entries_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    recorded = (TRACES / "start.quickstart.trace.jsonl").read_bytes()
    path.write_bytes(recorded.splitlines(keepends=True)[0])
    with pytest.raises(ScenarioError, match="no entries"):
        opened_run(str(path))


async def my_agent(_: str) -> str:
    return "Done."


def test_a_trace_of_an_agent_of_the_users_own_needs_it_until_it_is_given() -> None:
    trace = run(parse_scenario("prompt: Hi\nmodel: []\n"), loop=my_agent).trace
    stranger = RecordedRun.of_trace(trace)
    assert stranger.unknown
    assert stranger.needs_loop
    assert not RecordedRun.of_trace(trace, trace.header.loop).needs_loop
    header = structs.replace(trace.header, python=(OF_A_TEST,))
    assert not RecordedRun.of_trace(structs.replace(trace, header=header)).needs_loop


def test_a_name_of_nothing_is_an_error_that_names_it(tmp_path: Path) -> None:
    for name in ("nowhere", str(tmp_path / "nowhere.jsonl")):
        with pytest.raises(ScenarioError, match="nowhere"):
            opened_run(name)


WRONG = "expect.text: expected 'Bye.', got 'Hello.'"
GREETS = "prompt: Hi\nmodel: [{say: Hello.}]\n"


async def agent(prompt: str, world: World) -> str:
    return (await world.model.reply([UserMessage(prompt)])).message.text


def of_agent(*, replies: int = 1, **expect: object) -> RecordedRun:
    """The trace of an agent, as a file has it: its code is not known."""
    scenario = Scenario.model_validate(
        {"prompt": "Hi", "model": [{"say": "Hello."}] * replies, "expect": expect}
    )
    return RecordedRun.of_trace(run(scenario, loop=agent).trace)


def headings(recording: RecordedRun) -> list[str]:
    """The ending in the heading of the terminal and of the page, and whether each is good."""
    shown = page(recording)
    words = shown.split('<strong class="')[1].split("</strong>")[0]
    in_terminal = ending(Session(recording), "")
    styles = {str(span.style) for span in in_terminal.spans}
    return [words, f'{"bad" if "$text-error" in styles else "good"}">{in_terminal}']


def last_reasons(recording: RecordedRun) -> list[str]:
    return list(why(Position(recording, len(recording.entries) - 1)))


def test_an_expectation_that_fails_stands_in_the_heading_and_in_why() -> None:
    recording = of_agent(text="Bye.")
    assert headings(recording) == ['bad">completed, expect.text does not hold'] * 2
    assert last_reasons(recording)[0] == WRONG
    assert Session(recording).place == len(recording.entries) - 1


def test_a_run_opens_at_the_entry_that_first_shows_a_failed_expectation() -> None:
    recording = of_agent(text="Bye.", requests=0)
    place = Session(recording).place
    assert isinstance(recording.entries[place], entries.Request)
    words = f"completed, expect.requests does not hold at entry {place}"
    assert headings(recording) == [f'bad">{words}, and 1 more'] * 2
    (here,) = why(Position(recording, place))
    assert here == "expect.requests here: expected 0, got 1"
    assert last_reasons(recording)[:2] == [
        f"expect.requests at entry {place}: expected 0, got 1",
        WRONG,
    ]


def test_the_first_prompt_that_ends_otherwise_is_where_the_run_differs() -> None:
    scenario = Scenario.model_validate(
        {
            "prompt": "Hi",
            "then": ["And?", "So?"],
            "model": [{"say": "Hello."}, {"http": {"status": 400}}, {"say": "Bye."}],
            "expect": {"outcomes": ["completed"] * 3},
        }
    )
    recording = RecordedRun.of_trace(run(scenario).trace)
    assert recording.first_place == recording.index.places[entries.Ended][1]


def test_show_states_it_below_its_heading_at_each_entry(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    write_trace(of_agent(text="Bye.").trace, file)
    for options in ([], ["--at", "0"], ["--view", "entry"]):
        shown = CliRunner().invoke(main, ["show", str(file), *options]).stdout
        assert f"FAILED: {WRONG}\n\n" in shown
    good = tmp_path / "b.jsonl"
    write_trace(of_agent(text="Hello.").trace, good)
    assert "FAILED" not in CliRunner().invoke(main, ["show", str(good)]).stdout


def test_a_run_that_ends_as_its_scenario_states_is_good_however_that_is() -> None:
    broken = Scenario.model_validate(
        {"prompt": "Hi", "model": [{"http": {"status": 400}}], "expect": {"outcome": "failed"}}
    )
    recording = RecordedRun.of_trace(run(broken).trace)
    assert headings(recording) == ['good">failed'] * 2
    assert recording.first_place == 0


def test_a_run_that_fails_where_the_scenario_is_silent_opens_at_its_end() -> None:
    silent = Scenario.model_validate({"prompt": "Hi", "model": [{"http": {"status": 400}}]})
    recording = RecordedRun.of_trace(run(silent).trace)
    assert headings(recording) == ['bad">failed, expect.outcome does not hold'] * 2
    assert recording.first_place == len(recording.entries) - 1


def test_the_expectations_of_a_run_with_tools_in_python_are_known() -> None:
    scenario = Scenario.model_validate(
        {"prompt": "Hi", "model": [{"call": {"look": {}}}, {"say": "Hello."}],
         "expect": {"text": "Bye."}}
    )  # fmt: skip
    trace = run(scenario, tools={"look": lambda: "rain"}).trace
    assert (
        headings(RecordedRun.of_trace(trace)) == ['bad">completed, expect.text does not hold'] * 2
    )


def test_what_a_scenario_expects_of_its_own_loop_says_nothing_about_an_agent() -> None:
    assert of_agent(counters={"total_steps": 1}, messages="user assistant").findings == ()


def test_a_failed_test_opens_at_its_end_and_expects_nothing_but_its_code() -> None:
    trace = of_agent().trace
    trace.header = replace(trace.header, python=(OF_A_TEST,))
    recording = RecordedRun.of_trace(trace)
    assert recording.findings == ()
    trace.entries[-1] = replace(trace.entries[-1], outcome=Outcome.FAILED)
    assert headings(recording) == ['bad">failed'] * 2
    assert recording.first_place == len(recording.entries) - 1


def test_a_part_of_a_trace_is_not_compared_with_what_is_expected_of_the_whole() -> None:
    recording = of_agent(text="Bye.")
    recording.trace.footer = None
    assert RecordedRun.of_trace(recording.trace).findings == ()
    recording = of_agent(outcome="completed")
    recording.trace.footer = None
    recording.trace.entries.pop()
    assert headings(RecordedRun.of_trace(recording.trace)) == ['bad">did not end'] * 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_scenario_that_is_run_shows_what_a_trace_does_not_hold(folder: Path) -> None:
    file = folder / "a.simloop.yaml"
    file.write_text(f"{GREETS}expect: {{messages: user}}\n")
    assert headings(opened_run(str(file)))[0] == 'bad">completed, expect.messages does not hold'


def test_an_error_of_the_script_is_a_finding(folder: Path) -> None:
    file = folder / "a.simloop.yaml"
    file.write_text("prompt: Hi\nmodel: [{say: Hello.}, {say: More.}]\n")
    recording = opened_run(str(file))
    assert headings(recording) == ['bad">completed, ScriptUnused'] * 2
    assert last_reasons(recording)[0].startswith("ScriptUnused: ")
