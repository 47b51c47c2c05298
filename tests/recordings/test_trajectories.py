"""Trajectories: of mini-swe-agent in both versions, of SWE-agent, and in ATIF."""

import json
from typing import Any

import pytest
from sessions import conversation, played, read, scenario

from simloop.errors import ScenarioError
from simloop.scenario.writing import content

SYSTEM = {"role": "system", "content": "One command each time."}
TASK = {"role": "user", "content": "Mend it."}
COMMAND = {"role": "assistant", "content": "```mswea_bash_command\nls\n```"}
OUTPUT = {"role": "user", "content": "<returncode>0</returncode>\n<output>\na.py\n</output>"}
CALL = {"id": "c", "type": "function", "function": {"name": "bash", "arguments": '{"c": "ls"}'}}
CALLS = {"role": "assistant", "content": "I look.", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "a.py"}
END = {"role": "assistant", "content": "Done."}
BARE = [SYSTEM, TASK, COMMAND, OUTPUT, END]
WITH_CALLS = [SYSTEM, TASK, CALLS, RESULT, END]
RESPONSE = {
    "choices": [{"message": END, "finish_reason": "length"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2},
}


def second_version(listed: list[Any]) -> dict[str, Any]:
    return {"info": {"mini_version": "2.0"}, "messages": listed}


def of_swe_agent(listed: list[Any]) -> dict[str, Any]:
    steps = [{"action": "ls", "observation": "a.py", "execution_time": 0.25}]
    return {"environment": "shop", "trajectory": steps, "history": listed}


def step(source: str, message: str, **keys: Any) -> dict[str, Any]:
    return {"source": source, "message": message, **keys}


ATIF_CALL = {"tool_call_id": "c", "function_name": "bash", "arguments": {"c": "ls"}}
LOOKS = step(
    "agent", "I look.", tool_calls=[ATIF_CALL],
    observation={"results": [{"source_call_id": "c", "content": "a.py"}]},
    metrics={"prompt_tokens": 7, "completion_tokens": 2},
)  # fmt: skip


def atif(*steps: Any, version: str = "1.7", **keys: Any) -> str:
    listed = [{"step_id": at, **each} for at, each in enumerate(steps, 1)]
    return json.dumps({"schema_version": f"ATIF-v{version}", "agent": {}, "steps": listed, **keys})


@pytest.mark.parametrize("listed", [BARE, WITH_CALLS])
@pytest.mark.parametrize("form", [list, second_version, of_swe_agent])
def test_a_trajectory_runs_with_the_requests_that_its_messages_make(
    form: Any, listed: list[Any]
) -> None:
    result = played(read(json.dumps(form(listed))))
    assert [len(each.messages) for each in result.requests] == [1, 3]
    assert result.requests[0].system_prompt == SYSTEM["content"]
    assert result.requests[1].messages[-1].text == listed[3]["content"]


def test_what_mini_swe_agent_keeps_of_a_response_is_used() -> None:
    listed = [SYSTEM, TASK, {**END, "extra": {"response": RESPONSE}}]
    (reply,) = content(scenario(read(json.dumps(second_version(listed)))))["model"]
    assert reply["finish"] == "length"
    assert reply["usage"] == {"input": 7, "output": 2}


def test_the_times_of_swe_agent_are_those_of_its_tools() -> None:
    made = scenario(read(json.dumps(of_swe_agent(WITH_CALLS))))
    assert made.tools["bash"].answers[0].takes == 250_000_000


def test_a_message_of_another_role_is_counted() -> None:
    recording = read(json.dumps([*BARE, {"role": "exit", "content": "submitted"}]))
    assert recording.skipped == {"a message of the role exit": 1}


def test_a_trajectory_without_a_reply_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"no call of a model, but .*agent has written it"):
        scenario(read(json.dumps([SYSTEM, TASK])))


@pytest.mark.parametrize("version", ["1.0", "1.4", "1.6", "1.7", "1.8"])
def test_each_version_of_atif_runs_as_it_went(version: str) -> None:
    text = atif(step("user", "Mend it."), LOOKS, step("agent", "Done."), version=version)
    assert conversation(played(read(text))) == [
        "user: Mend it.",
        'assistant: I look. bash {"c":"ls"}',
        "tool: a.py",
        "assistant: Done.",
    ]


def test_versions_of_atif_are_compared_as_numbers() -> None:
    steps = (step("user", "Hi"), step("agent", "Done."))
    assert read(atif(*steps, version="1.10")).skipped == {"what is new in ATIF 1.10, after 1.8": 1}
    with pytest.raises(ScenarioError, match="version 2 of ATIF"):
        read(atif(*steps, version="2.0"))


def test_what_is_no_call_of_a_model_is_counted() -> None:
    recording = read(
        atif(
            step("system", "Be brief."),
            step("user", "Old.", is_copied_context=True),
            step("user", "Hi"),
            step("agent", "By a rule.", llm_call_count=0),
            step("agent", "Hello."),
        )
    )
    assert scenario(recording).system_prompt == "Be brief."
    assert recording.skipped == {
        "a step that is copied from another trajectory": 1,
        "a step that is no call of a model": 1,
    }


def test_a_trajectory_inside_another_one_is_a_party() -> None:
    inner = json.loads(atif(step("user", "Look at b."), step("agent", "It is fine.")))
    recording = read(
        atif(step("user", "Hi"), step("agent", "All fine."), subagent_trajectories=[inner])
    )
    made = content(scenario(recording))
    assert made["models"]["agent-2"]["when"] == {"conversation": "Look at b."}
    assert made["models"]["agent-2"]["replies"] == [{"say": "It is fine."}]
