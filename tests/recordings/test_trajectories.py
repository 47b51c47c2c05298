"""Trajectories in ATIF: each version, and what is left out."""

import json
from typing import Any

import pytest
from sessions import conversation, played, read, scenario

from simloop.errors import ScenarioError
from simloop.scenario.writing import content


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
