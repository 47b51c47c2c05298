"""The history of document 003, with roles and parts, as the document pushes it."""

from typing import Any

import pytest

from simloop import Outcome, Reply, Result, Scenario, ScriptedTool, run
from simloop.loops.react import ReactOptions
from simloop.scenario.designs import LoopOptions
from simloop.trace.exports.react_history import history

CALL, DONE = Reply(call={"t": {}}), Reply(say="Done.")
TOOLS = {
    "t": ScriptedTool(),
    "strict": ScriptedTool(parameters={"path": "string"}),
    "broken": ScriptedTool(raises="no such file"),
}


def go(*model: Reply, all_calls: bool = False) -> Result:
    options = LoopOptions(react=ReactOptions(all_calls=all_calls))
    return run(Scenario(prompt="Go.", loop="react", loops=options, tools=TOOLS, model=list(model)))


def call_part(call_id: str, name: str, args: Any) -> dict[str, Any]:
    return {"functionCall": {"id": call_id, "name": name, "args": args}}


def answered(call_id: str, name: str, response: dict[str, str]) -> dict[str, Any]:
    part = {"functionResponse": {"id": call_id, "name": name, "response": response}}
    return {"role": "tool", "parts": [part]}


def test_it_has_the_documents_roles_and_parts() -> None:
    result = go(Reply(say="I look.", call={"strict": {"path": "a"}}), DONE)
    assert history(result.messages) == [
        {"role": "user", "parts": [{"text": "Go."}]},
        {
            "role": "model",
            "parts": [{"text": "I look."}, call_part("call-1", "strict", {"path": "a"})],
        },
        answered("call-1", "strict", {"output": ""}),
        {"role": "model", "parts": [{"text": "Done."}]},
    ]


def test_the_results_of_all_calls_of_a_reply_are_one_entry() -> None:
    two = Reply(call=[{"t": {}}, {"strict": {"path": "a"}}])
    told = history(go(two, CALL, DONE, all_calls=True).messages)
    assert [entry["role"] for entry in told] == ["user", "model", "tool", "model", "tool", "model"]
    assert [part["functionResponse"]["name"] for part in told[2]["parts"]] == ["t", "strict"]


def test_a_call_without_words_is_the_only_part() -> None:
    assert history(go(CALL, DONE).messages)[1]["parts"] == [call_part("call-1", "t", {})]


@pytest.mark.parametrize("text", ["{oops", "[" * 100_000], ids=["broken", "too-deep"])
def test_arguments_that_are_no_json_stay_as_the_model_wrote_them(text: str) -> None:
    kept = history(go(Reply(call={"t": text}), DONE).messages)
    assert kept[1]["parts"] == [call_part("call-1", "t", text)]
    complaint = "Error: Invalid parameters\narguments: not valid JSON"
    assert kept[2] == answered("call-1", "t", {"error": complaint})


def test_an_empty_reply_is_an_empty_text_and_ends_the_run() -> None:
    result = go(Reply(finish="stop"))
    assert (result.outcome, result.text) == (Outcome.COMPLETED, "")
    assert history(result.messages)[-1] == {"role": "model", "parts": [{"text": ""}]}


@pytest.mark.parametrize(
    ("name", "told"),
    [("broken", "Error: no such file"), ("nobody", "Error: tool nobody not found")],
)
def test_a_tool_that_fails_responds_with_an_error_and_the_run_goes_on(name: str, told: str) -> None:
    result = go(Reply(call={name: {}}), DONE)
    assert result.outcome is Outcome.COMPLETED
    assert history(result.messages)[2] == answered("call-1", name, {"error": told})
