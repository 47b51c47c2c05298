"""A recorded run is judged when it is opened, so that a failed test shows where it went wrong."""

import pytest

from simloop import Http, ModelCallFailed, Reply, Scenario, UserMessage, World, run
from simloop.cursor import recorded_run
from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.why import why
from simloop.page.page import page
from simloop.trace import entries
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
