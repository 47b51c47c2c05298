"""A run of simloop as an ATIF trajectory: its replies, and the results of tools."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from simloop.messages import AssistantMessage, json_value
from simloop.recordings import otel
from simloop.recordings.files import RecordingFile, mapping
from simloop.recordings.recording import ModelCall, Prompt, Record, Recording, ToolRun
from simloop.trace import entries
from simloop.trace.looptrace import LoopTrace
from simloop.trace.otel import definition
from simloop.trace.otel import otel as spans


def records_of(trace: LoopTrace) -> list[Record]:
    """Return the records of a trace, read from its spans; none if no call of a model has ended."""
    recording = Recording("", "")
    otel.read(RecordingFile("", json.dumps(spans(trace)).encode()), recording)
    return recording.records


def trajectory(trace: LoopTrace) -> str:
    """Return the trajectory of a trace; those of further parties are inside it."""
    parties: dict[str, list[Record]] = {"": []}
    for record in records_of(trace):
        parties.setdefault(getattr(record, "party", ""), []).append(record)
    whole, *inner = (_trajectory(trace.header.loop, *each) for each in parties.items())
    asked = sum(isinstance(each, entries.Request) for each in trace.entries)
    steps = [step for each in (whole, *inner) for step in each["steps"]]
    failed = asked - sum(step["source"] == "agent" for step in steps)
    whole |= {"subagent_trajectories": inner} if inner else {}
    whole |= {"notes": f"Left out: {failed} calls of the model that failed."} if failed > 0 else {}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def _trajectory(loop: str, party: str, records: Sequence[Record]) -> dict[str, Any]:
    asked = [each.request for each in records if isinstance(each, ModelCall) and each.request]
    steps, last = list[dict[str, Any]](), dict[str, Any]()
    if asked and asked[0].system_prompt:
        steps.append({"source": "system", "message": asked[0].system_prompt})
    for record in records:
        match record:
            case Prompt(text=text):
                steps.append({"source": "user", "message": text})
            case ModelCall(message=AssistantMessage() as said):
                steps.append(last := _step(said, record.reply))
            case ToolRun():
                results = last.setdefault("observation", {"results": []})["results"]
                results.append({"source_call_id": record.call_id, "content": record.text})
    tools = [*map(definition, asked[0].tools)] if asked else []
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
    agent = {"name": loop, "version": "0", "tool_definitions": tools}
    known = {"schema_version": "ATIF-v1.7", "trajectory_id": party or "main"}
    return {**known, "agent": agent, "steps": numbered}


def _step(message: AssistantMessage, reply: Mapping[str, Any]) -> dict[str, Any]:
    usage = mapping(reply, "usage")
    calls = [
        {"tool_call_id": each.id, "function_name": each.name,
         "arguments": mapping(json_value(each.arguments))}
        for each in message.calls
    ]  # fmt: skip
    counts = {"prompt_tokens": usage.get("input"), "completion_tokens": usage.get("output")}
    more: dict[str, Any] = {"reasoning_content": message.reasoning, "tool_calls": calls}
    more["metrics"] = counts if usage else {}
    said = {"source": "agent", "message": message.text, "model_name": "scripted"}
    return said | {name: value for name, value in more.items() if value}
