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
def test_an_aborted_run_ends_once(situation: str) -> None:
    assert endings(stopped_in(situation).result.trace) == ["abort-requested"]


@everywhere
def test_after_an_abort_no_model_call_and_no_tool_begins(situation: str) -> None:
    assert begun_after(stopped_in(situation)) == []


@everywhere
def test_after_an_abort_every_call_in_the_transcript_has_its_result(situation: str) -> None:
    assert unpaired(stopped_in(situation).result.messages) == []


@everywhere
def test_an_aborted_run_keeps_the_text_so_far(situation: str) -> None:
    result = stopped_in(situation).result
    assert result.text == run_text_matches_last_reply(result.trace)


@everywhere
def test_an_aborted_run_ends_in_the_instant_of_the_abort(situation: str) -> None:
    stopped = stopped_in(situation)
    assert stopped.result.elapsed_ns == stopped.at_ns


@at_every_place
def test_the_wall_clock_ends_the_run_as_timed_out(place: str) -> None:
    assert by_the_wall_clock(place).result.outcome is Outcome.TIMED_OUT


@at_every_place
def test_the_wall_clock_lets_no_model_call_and_no_tool_begin(place: str) -> None:
    assert begun_after(by_the_wall_clock(place)) == []


@at_every_place
def test_the_wall_clock_gives_every_call_its_result(place: str) -> None:
    stopped = by_the_wall_clock(place)
    assert (unpaired(stopped.result.messages), unanswered(stopped.result.trace)) == ([], {})


@at_every_place
def test_the_wall_clock_keeps_the_text_so_far(place: str) -> None:
    result = by_the_wall_clock(place).result
    assert result.text == run_text_matches_last_reply(result.trace)


@at_every_place
def test_the_wall_clock_ends_the_run_to_the_nanosecond(place: str) -> None:
    assert by_the_wall_clock(place).result.elapsed_ns == PLACES[place][0] * MS


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
