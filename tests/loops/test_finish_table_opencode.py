"""The finish-reason table of opencode, as `documented-loops.md` 4.7 prints it.

Each row was seen there with 1.18.33; 1.18.34 does the same.
"""

import pytest
from incases import in_cases

from simloop import Http, Outcome, Reply, RunawayRun, Scenario, ScriptedTool, run
from simloop.messages import ToolMessage
from simloop.runs.run import Simulation
from simloop.trace.requests import requests

VERSION = "opencode@1.18.34"
TOOLS = {"t": ScriptedTool(returns="ok"), "strict": ScriptedTool(parameters={"path": "string"})}
DONE = Reply(say="Done.")
COMPLETED = Outcome.COMPLETED
# The replies; then the outcome, the message to the user, the requests, and the tools that ran.
ROWS: dict[str, tuple[list[Reply], tuple[Outcome, str, int, list[str]]]] = {
    "stop, text": ([DONE], (COMPLETED, "Done.", 1, [])),
    "stop, nothing": ([Reply(finish="stop")], (COMPLETED, "", 1, [])),
    "stop, call": ([Reply(call={"t": {}}, finish="stop"), DONE], (COMPLETED, "Done.", 2, ["t"])),
    "length, text": ([Reply(say="Half", finish="length")], (COMPLETED, "Half", 1, [])),
    "length, call": (
        [Reply(call={"t": {}}, finish="length"), DONE],
        (COMPLETED, "Done.", 2, ["t"]),
    ),
    "filter": (
        [Reply(say="Half", finish="content_filter")],
        (Outcome.CONTENT_FILTERED, "Content filtered.", 1, []),
    ),
    "no JSON": ([Reply(call={"t": "{oops"}), DONE], (COMPLETED, "Done.", 2, [])),
    "unknown tool": ([Reply(call={"nobody": {}}), DONE], (COMPLETED, "Done.", 2, [])),
    "against the schema": ([Reply(call={"strict": {}}), DONE], (COMPLETED, "Done.", 2, [])),
    "name in capitals": ([Reply(call={"T": {}}), DONE], (COMPLETED, "Done.", 2, ["t"])),
    "401": ([Reply(http=Http(status=401))], (Outcome.FAILED, "Error: 401 Unauthorized", 1, [])),
    "501": ([Reply(http=Http(status=501)), DONE], (COMPLETED, "Done.", 2, [])),
}


@in_cases(ROWS)
def test_1_18_34_does_what_its_row_says(row: str) -> None:
    replies, expected = ROWS[row]
    result = run(Scenario(prompt="Go.", tools=TOOLS, model=replies), loop=VERSION)
    ran = [call.name for call in result.calls]
    assert (result.outcome, result.message, len(result.requests), ran) == expected


@pytest.mark.parametrize("finish", ["tool_calls", "weird_reason"])
def test_1_18_34_a_finish_that_promises_more_loops_for_ever(finish: str) -> None:
    reply = Reply(say="Hm.", finish=finish, times="always")
    scenario = Scenario(prompt="Go.", tools=TOOLS, model=[reply], max_transitions=200)
    simulation = Simulation(scenario, loop=VERSION)
    with pytest.raises(RunawayRun):
        simulation.run()
    assert len(list(requests(simulation.trace.entries))) > 55


def test_1_18_34_a_stream_that_breaks_off_is_retried_and_keeps_the_call_that_ran() -> None:
    """Section 4.3: a call runs as its part comes, and 4.5: the message keeps its parts."""
    broken = Reply(say="I look.", call={"t": {}}, lost="mid-output")
    result = run(Scenario(prompt="Go.", tools=TOOLS, model=[broken, DONE, DONE]), loop=VERSION)
    assert [call.name for call in result.calls] == ["t"]
    assert [message.text for message in result.messages] == ["Go.", "", "ok", "Done.", "Done."]
    assert [m.is_error for m in result.messages if isinstance(m, ToolMessage)] == [False]
    assert result.elapsed_s == 2
