"""Stopping a run: wherever it waits it ends there and then, once, and leaves nothing open."""

from incases import in_cases
from pacing import MS
from situations import PLACES, SITUATIONS, by_the_user, by_the_wall_clock, stopped_in
from stopping import (
    COMPACTS,
    PAD,
    Stop,
    begun_after,
    endings,
    play,
    run_text_matches_last_reply,
    script,
    unanswered,
    unpaired,
)

from simloop import Limits, Outcome, Reply, Scenario
from simloop.messages import Request, ToolMessage
from simloop.runs.run import Simulation
from simloop.trace import entries

everywhere = in_cases(SITUATIONS)
at_every_place = in_cases(PLACES)  # the same holds where the limit strikes instead of the user


@everywhere
def test_an_aborted_run_ends_once_and_at_once_with_every_call_answered(situation: str) -> None:
    stopped = stopped_in(situation)
    result = stopped.result
    assert endings(result.trace) == ["abort-requested"]
    assert begun_after(stopped) == []
    assert unpaired(result.messages) == []
    assert result.text == run_text_matches_last_reply(result.trace)
    assert result.elapsed_ns == stopped.at_ns


@at_every_place
def test_the_wall_clock_ends_a_run_to_the_nanosecond_with_every_call_answered(place: str) -> None:
    stopped = by_the_wall_clock(place)
    result = stopped.result
    assert (result.outcome, result.elapsed_ns) == (Outcome.TIMED_OUT, PLACES[place][0] * MS)
    assert begun_after(stopped) == []
    assert (unpaired(result.messages), unanswered(result.trace)) == ([], {})
    assert result.text == run_text_matches_last_reply(result.trace)


@at_every_place
def test_the_wall_clock_together_with_an_abort_ends_the_run_once(place: str) -> None:
    limits = Limits(max_wall_clock_ms=PLACES[place][0])
    assert len(endings(by_the_user(place, limits=limits).result.trace)) == 1


def test_the_abort_wins_over_a_wall_clock_that_was_set_later() -> None:
    limits = Limits(max_wall_clock_ms=PLACES["in a tool"][0])
    assert by_the_user("in a tool", limits=limits).result.outcome is Outcome.ABORTED


def test_an_abort_in_a_tool_is_told_to_the_model_as_the_result_of_its_call() -> None:
    messages = stopped_in("in the first of two tools").result.messages
    text = "Error: not finished, the request was aborted"
    assert messages[-2:] == (
        ToolMessage("call-1", text, is_error=True),
        ToolMessage("call-2", text, is_error=True),
    )


def test_what_a_tool_returned_before_the_abort_stays_its_result() -> None:
    messages = stopped_in("in the second of two tools").result.messages
    assert messages[-2] == ToolMessage("call-1", "noted")


def test_what_a_tool_returned_counts_although_its_after_hook_is_stopped() -> None:
    messages = stopped_in("after_tool_call is_stopped_while_it_waits").result.messages
    assert messages[2] == ToolMessage("call-1", "noted")


def test_an_aborted_compaction_leaves_the_transcript_as_it_was() -> None:
    messages = stopped_in("between two parts of the summary").result.messages
    assert [type(message).__name__ for message in messages] == [
        "UserMessage", *["AssistantMessage", "ToolMessage"] * 2
    ]  # fmt: skip


def test_a_compaction_whose_model_stops_the_run_is_not_carried_out() -> None:
    stop = Stop()
    rounds = script(*[Reply(say=[PAD], call={"note": {}})] * 2)

    def model(request: Request) -> Reply:
        if request.purpose == "main":
            return rounds(request)
        stop()
        return Reply(say="Two notes.")

    stopped = play(Scenario(prompt="Go.", compaction=COMPACTS), stop, model=model)
    assert not [e for e in stopped.entries if isinstance(e, entries.Compaction)]


def test_a_lost_reply_stays_out_of_the_transcript_of_a_run_that_is_aborted_in_backoff() -> None:
    model = script(Reply(say="Half.", call={"note": {}}, lost="mid-output"))
    stopped = play(Scenario(prompt="Go."), Stop(), at_ns=5 * MS, model=model)
    assert [type(message).__name__ for message in stopped.result.messages] == ["UserMessage"]


def test_an_abort_at_the_very_start_beats_a_model_that_answers_at_once() -> None:
    scenario = Scenario.model_validate({"prompt": "Go.", "abort": {"at": "0s"}})
    result = Simulation(scenario, model=lambda _: "Done.").run()
    assert result.outcome is Outcome.ABORTED
