"""Each invariant on the calls of a reply is violated by an engine that is broken in one line."""

import pytest
from faultyparts import DONE, Part, faulty, part, scenario, violated

from simloop import Scenario

CALLS = "engine.tool_calls:ToolCalls"
PAY = {"pay": {"parameters": {"sum": "integer"}, "returns": "paid"}}
PAID = {"call": {"pay": {"sum": 1}}}
ENDS = {"done": {"returns": "ok", "terminate": True}, "look": {"returns": "seen"}}
SLOW = {"look": {"takes": "5s", "sequential": True}}

CASES = [
    (
        "arguments-match-schema",
        part(f"{CALLS}._guard", "self._rules.check_changed", "False"),
        scenario(
            PAID,
            DONE,
            tools=PAY,
            hooks=[{"at": "before_tool_call", "arguments": {"sum": "much"}}],
        ),
        "reference",
    ),
    (
        "arguments-match-schema",
        part("world.arguments:_complaint", "if wrong else", "if False else"),
        scenario({"call": {"pay": {}}}, DONE, tools=PAY),
        "reference",
    ),
    (
        "every-call-runs",
        part(f"{CALLS}._read", "if tool is None:", "if index:"),
        scenario({"call": [{"pay": {"sum": 1}}, {"pay": {"sum": 1}}]}, DONE, tools=PAY),
        "reference",
    ),
    (
        "every-call-runs",
        part(f"{CALLS}._guard", "if self._is_stopped():", "if self._cancellation.aborted:"),
        scenario({"call": [{"look": {}}] * 3}, abort={"at": "1s"}, tools=SLOW),
        "pi@0.73.1",
    ),
    (
        "terminate-signal-matches-results",
        part(f"{CALLS}.terminated", "self._ending.issuperset(given)", "True"),
        scenario({"call": [{"done": {}}, {"look": {}}]}, DONE, tools=ENDS),
        "pi@0.87.1",
    ),
    (
        "terminate-signal-matches-results",
        part(f"{CALLS}._put", "if result.terminate:", "if False:"),
        scenario({"call": [{"done": {}}, {"done": {}}]}, DONE, tools=ENDS),
        "pi@0.87.1",
    ),
    (
        "no-call-starts-after-abort",
        part(f"{CALLS}._may_begin", "if number and self._is_stopped():", "if False:"),
        scenario(
            {"call": [{"look": {}}] * 2},
            abort={"at": "1s"},
            tools=SLOW,
        ),
        "pi@0.87.1",
    ),
    (
        "call-ids-not-empty",
        part("engine.model_calls:ModelCalls._unique", "not unique or", "False or"),
        scenario({"call": {"pay": {"sum": 1}}, "ids": [""]}, DONE, tools=PAY),
        "reference",
    ),
]


@pytest.mark.parametrize(("name", "broken", "played", "loop"), CASES)
def test_a_broken_call_is_found(name: str, broken: Part, played: Scenario, loop: str) -> None:
    assert not violated(played, loop=loop)
    with faulty(broken):
        assert name in violated(played, loop=loop)


@pytest.mark.parametrize("loop", ["pi@0.87.1", "pi@0.73.1", "reference"])
def test_results_that_ask_for_the_end_are_no_alarm(loop: str) -> None:
    for calls in (["done"], ["done", "done"], ["done", "look"], ["done", "nobody"]):
        played = scenario({"call": [{name: {}} for name in calls]}, DONE, DONE, tools=ENDS)
        assert not violated(played, loop=loop)
