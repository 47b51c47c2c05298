"""Each invariant on the calls of a reply is violated by the record of a wrong engine."""

from typing import Any

import pytest
from faultyruns import DONE, Edit, changed, dropped, scenario, violated

from simloop import Scenario
from simloop.kernel import signals
from simloop.trace.entries import Answered, CallBegun, StopRequested, ToolResult, ToolStarted

PAY = {"pay": {"parameters": {"sum": "integer"}, "returns": "paid"}}
PAID = {"call": {"pay": {"sum": 1}}}
ENDS = {"done": {"returns": "ok", "terminate": True}, "look": {"returns": "seen"}}
SLOW = {"look": {"takes": "5s", "sequential": True}}


def without_the_second_tool(record: list[Any]) -> list[Any]:
    for edit in (dropped(ToolStarted, 1), dropped(ToolResult, 1)):
        record = edit(record)
    return changed(Answered, 1, ran=False, is_error=True, text="Error: no")(record)


def with_a_tool_after_the_stop(record: list[Any]) -> list[Any]:
    at = next(at for at, each in enumerate(record) if type(each) is StopRequested)
    now_ns = record[at].at_ns
    begun = [CallBegun(0, now_ns, "call-2"), ToolStarted(0, now_ns, "call-2", "look", "{}")]
    return [*record[: at + 1], *begun, *record[at + 1 :]]


CASES = [
    ("arguments-match-schema", changed(ToolStarted, arguments='{"sum":"much"}'),
     scenario(PAID, DONE, tools=PAY), "reference"),
    ("arguments-match-schema", changed(ToolStarted, arguments="{}"),
     scenario(PAID, DONE, tools=PAY), "reference"),
    ("every-call-runs", without_the_second_tool,
     scenario({"call": [{"pay": {"sum": 1}}, {"pay": {"sum": 1}}]}, DONE, tools=PAY), "reference"),
    ("terminate-signal-matches-results", changed(signals.ToolsReturned, terminate=True),
     scenario({"call": [{"done": {}}, {"look": {}}]}, DONE, tools=ENDS), "pi@0.87.1"),
    ("terminate-signal-matches-results", changed(signals.ToolsReturned, terminate=False),
     scenario({"call": [{"done": {}}, {"done": {}}]}, DONE, tools=ENDS), "pi@0.87.1"),
    ("no-call-starts-after-abort", with_a_tool_after_the_stop,
     scenario({"call": [{"look": {}}] * 2}, abort={"at": "1s"}, tools=SLOW), "pi@0.87.1"),
    ("call-ids-not-empty", changed(ToolStarted, call_id=""), scenario(PAID, DONE, tools=PAY),
     "reference"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "edit", "played", "loop"), CASES)
def test_a_wrong_call_is_found(name: str, edit: Edit, played: Scenario, loop: str) -> None:
    assert not violated(played, loop=loop)
    assert name in violated(played, edit, loop=loop)


@pytest.mark.parametrize("loop", ["pi@0.87.1", "reference"])
def test_results_that_ask_for_the_end_are_no_alarm(loop: str) -> None:
    for calls in (["done"], ["done", "done"], ["done", "look"], ["done", "nobody"]):
        played = scenario({"call": [{name: {}} for name in calls]}, DONE, DONE, tools=ENDS)
        assert not violated(played, loop=loop)
