"""The finish-reason table of opencode, as `documented-loops.md` 4.7 prints it.

Each row was seen there with 1.18.33; 1.18.34 does the same.
"""

from typing import Any

import pytest

from simloop import Http, Outcome, Reply, Result, RunawayRun, Scenario, ScriptedTool, run
from simloop.messages import ToolMessage
from simloop.runs.run import Simulation
from simloop.trace.requests import requests

VERSION = "opencode@1.18.34"
TOOLS = {"t": ScriptedTool(returns="ok"), "strict": ScriptedTool(parameters={"path": "string"})}
DONE = Reply(say="Done.")


def go(*model: Reply, loop: str = VERSION) -> Result:
    return run(Scenario(prompt="Go.", tools=TOOLS, model=list(model)), loop=loop)


def ran(result: Result) -> list[str]:
    return [call.name for call in result.calls]


def results_of(result: Result) -> list[ToolMessage]:
    return [message for message in result.messages if isinstance(message, ToolMessage)]


def requests_of_a_runaway(reply: Reply) -> int:
    """How many requests a run makes that nothing ends."""
    scenario = Scenario(prompt="Go.", tools=TOOLS, model=[reply], max_transitions=200)
    simulation = Simulation(scenario, loop=VERSION)
    with pytest.raises(RunawayRun):
        simulation.run()
    return len(list(requests(simulation.trace.entries)))


def test_1_18_34_stop_with_text_exits() -> None:
    result = go(DONE)
    assert (result.outcome, result.text, len(result.requests)) == (Outcome.COMPLETED, "Done.", 1)


def test_1_18_34_stop_with_empty_text_exits_empty() -> None:
    result = go(Reply(finish="stop"))
    assert (result.outcome, result.text, len(result.requests)) == (Outcome.COMPLETED, "", 1)


STOP_WITH_CALL = Reply(call={"t": {}}, finish="stop")


def test_1_18_34_stop_with_a_call_runs_the_tool_and_takes_the_next_step() -> None:
    result = go(STOP_WITH_CALL, DONE)
    assert (result.outcome, ran(result), len(result.requests)) == (Outcome.COMPLETED, ["t"], 2)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(say="Hm.", finish="tool_calls", times="always"),
        Reply(say="Hm.", finish="weird_reason", times="always"),
    ],
    ids=["tool-calls-without-a-call", "an-unknown-word"],
)
def test_1_18_34_a_finish_that_promises_more_loops_for_ever(reply: Reply) -> None:
    assert requests_of_a_runaway(reply) > 55


def test_1_18_34_length_with_text_exits_without_notice() -> None:
    result = go(Reply(say="Half", finish="length"))
    assert (result.outcome, result.message, len(result.requests)) == (Outcome.COMPLETED, "Half", 1)


def test_1_18_34_length_with_a_call_executes_it_and_goes_on() -> None:
    result = go(Reply(call={"t": {}}, finish="length"), DONE)
    assert (result.outcome, ran(result), len(result.requests)) == (Outcome.COMPLETED, ["t"], 2)


def test_1_18_34_a_content_filter_is_an_error() -> None:
    result = go(Reply(say="Half", finish="content_filter"))
    assert (result.outcome, len(result.requests)) == (Outcome.CONTENT_FILTERED, 1)


def test_1_18_34_a_reset_in_mid_text_is_retried_and_the_second_text_is_kept() -> None:
    result = go(Reply(say="Half a", lost="mid-output"), DONE)
    assert (result.outcome, result.text, len(result.requests)) == (Outcome.COMPLETED, "Done.", 2)
    assert [message.text for message in result.messages] == ["Go.", "", "Done."]
    assert result.elapsed_s == 2


@pytest.mark.parametrize(
    "call", [{"t": "{oops"}, {"nobody": {}}, {"strict": {}}], ids=["no-json", "unknown", "schema"]
)
def test_1_18_34_a_call_that_cannot_be_made_is_told_to_the_model_which_goes_on(
    call: dict[str, Any],
) -> None:
    result = go(Reply(call=call), DONE)
    assert (result.outcome, ran(result), len(result.requests)) == (Outcome.COMPLETED, [], 2)


def test_1_18_34_an_unknown_tool_is_repaired_by_its_lower_case_name() -> None:
    result = go(Reply(call={"T": {}}), DONE)
    assert (ran(result), results_of(result)[0].text) == (["t"], "ok")


def test_1_18_34_a_401_stops_with_an_error() -> None:
    result = go(Reply(http=Http(status=401)))
    assert (result.outcome, result.message) == (Outcome.FAILED, "Error: 401 Unauthorized")
    assert len(result.requests) == 1


def test_1_18_34_a_stream_that_breaks_off_has_run_its_tool_and_keeps_the_call() -> None:
    """Section 4.3: a call runs as its part comes, and 4.5: the message keeps its parts."""
    result = go(Reply(say="I look.", call={"t": {}}, lost="mid-output"), DONE, DONE)
    assert ran(result) == ["t"]
    assert [message.text for message in result.messages] == ["Go.", "", "ok", "Done.", "Done."]
