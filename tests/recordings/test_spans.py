"""Spans of models: those that tracers have written, and each form in which they can come."""

import json
from typing import Any

import pytest
from sessions import lines, played, read, scenario
from written import WRITTEN

from simloop.errors import ScenarioError
from simloop.recordings.recording import ModelCall, ToolRun
from simloop.scenario.writing import content

SILENT = ("without content", "with responses")
ASKED = [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]
SAID = [{"role": "assistant", "parts": [{"type": "text", "content": "Hello."}]}]
CALL = {"type": "tool_call", "id": "c", "name": "look", "arguments": {"at": "x"}}
CALLED = {"role": "assistant", "parts": [CALL]}
ANSWERED = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "y"}]}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
LOOKED = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}


def span(seconds: float, attributes: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """Return a span of a second, as Logfire has it: the same attributes, and times in words."""
    times = {
        "start_timestamp": f"2026-03-04T11:00:{seconds:02.0f}Z",
        "end_timestamp": f"2026-03-04T11:00:{seconds + 1:02.0f}Z",
    }
    return {"trace_id": "t", "attributes": attributes, **times, **keys}


def chat(asked: Any = ASKED, said: Any = SAID, **more: Any) -> dict[str, Any]:
    sides = {"gen_ai.input.messages": json.dumps(asked), "gen_ai.output.messages": json.dumps(said)}
    return CHAT | (sides if said else {"gen_ai.input.messages": json.dumps(asked)}) | more


def imported(*spans: Any) -> dict[str, Any]:
    return content(scenario(read(lines(*spans))))


@pytest.mark.parametrize("name", [each for each in WRITTEN if not each.endswith(SILENT)])
def test_what_a_tracer_has_written_runs_with_the_requests_that_were_recorded(name: str) -> None:
    if name.startswith("inspect-eval"):
        pytest.importorskip("zstandard")
    recording = read(WRITTEN[name])
    result = played(recording)
    asked = [each.request for each in recording.records if isinstance(each, ModelCall)]
    counts = [len(each.messages) for each in asked if each is not None]
    assert [len(each.messages) for each in result.requests] == counts
    assert {each.system_prompt for each in result.requests} == {"Be brief."}


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("openai-v2 without content", "CAPTURE_MESSAGE_CONTENT=true"),
        ("openai-agents with responses", "OpenAIChatCompletionsModel"),
    ],
)
def test_a_recording_without_contents_says_what_captures_them(name: str, why: str) -> None:
    with pytest.raises(ScenarioError, match=why):
        scenario(read(WRITTEN[name]))


@pytest.mark.parametrize("writer", ["openinference", "openai-v2", "pydantic-ai", "langchain"])
def test_the_time_of_a_call_is_that_of_its_span(writer: str) -> None:
    made = scenario(read(WRITTEN[f"{writer} call"]))
    assert [reply.pace.first_part for reply in made.model] == [1_200_000_000, 700_000_000]


def test_spans_may_be_printed_one_after_the_other() -> None:
    printed = [json.dumps(span(2 * at, chat()), indent=4) for at in range(2)]
    recording = read("\n".join(printed))
    assert sum(isinstance(each, ModelCall) for each in recording.records) == 2


def test_spans_in_any_order_are_in_that_of_their_requests() -> None:
    spans = [span(0, chat(said=[CALLED])), span(3, chat([*ASKED, CALLED, ANSWERED]))]
    looked = span(1, LOOKED | {"gen_ai.tool.call.id": "c", "gen_ai.tool.call.result": "y"})
    told = imported(*reversed([spans[0], looked, spans[1]]))
    assert told == imported(spans[0], looked, spans[1])
    assert told["tools"]["look"]["answers"] == [{"returns": "y", "takes": "1s"}]


def test_conversations_at_once_are_parties_with_their_own_replies() -> None:
    other = [{"role": "user", "parts": [{"type": "text", "content": "Look."}]}]
    told = imported(
        span(0, chat()),
        span(0, chat(other, SAID, **{"gen_ai.system_instructions": "You look."})),
        span(2, chat([*ASKED, *SAID, *ASKED])),
    )
    assert [reply["say"] for reply in told["model"]] == ["Hello.", "Hello."]
    assert told["models"]["agent-2"]["when"] == {"conversation": "Look."}


@pytest.mark.parametrize(
    ("failure", "keys"),
    [
        ({"error.type": "429"}, {"http": {"status": 429}}),
        ({"error.type": "overloaded_error"}, {"error": {"code": "overloaded_error"}}),
        ({"error.type": "openai.APIConnectionError"}, {"lost": "before-headers"}),
        ({"error.type": "httpx.ReadTimeout"}, {"lost": "before-headers"}),
    ],
)
def test_a_span_that_failed_is_a_failed_attempt(
    failure: dict[str, str], keys: dict[str, Any]
) -> None:
    failed, again = imported(span(0, chat(said=None) | failure), span(2, chat()))["model"]
    assert {name: failed[name] for name in keys} == keys or (
        failed["error"]["code"] == keys["error"]["code"]
    )
    assert again["say"] == "Hello."


def test_the_status_of_a_failure_may_stand_in_the_text_of_an_exception() -> None:
    words = {"exception.type": "openai.RateLimitError", "exception.message": "Error code: 429 - no"}
    raised = {"name": "exception", "attributes": words}
    told = imported(span(0, chat(said=None), otel_events=[raised]), span(2, chat()))
    assert told["model"][0]["http"] == {"status": 429, "message": "Error code: 429 - no"}


def test_a_call_that_was_cancelled_is_counted_and_left_out() -> None:
    cancelled = span(2, chat(said=None) | {"error.type": "asyncio.CancelledError"})
    recording = read(lines(span(0, chat()), cancelled))
    assert recording.skipped == {"a call of a model that was cancelled": 1}


def test_a_span_around_another_one_is_left_out() -> None:
    recording = read(
        lines(span(0, chat(), span_id="a"), span(0, chat(), span_id="b", parent_span_id="a"))
    )
    assert sum(isinstance(each, ModelCall) for each in recording.records) == 1
    assert recording.skipped == {"a call of a model that is a span around another one": 1}


def test_a_tool_that_failed_raises_what_its_span_says() -> None:
    failed = span(
        1, LOOKED | {"gen_ai.tool.call.id": "c", "error.type": "ValueError"},
        otel_status_message="nothing there",
    )  # fmt: skip
    told = imported(span(0, chat(said=[CALLED])), failed, span(3, chat([*ASKED, CALLED, ANSWERED])))
    assert told["tools"]["look"]["answers"] == [{"raises": "nothing there", "takes": "1s"}]


def test_the_result_of_a_last_call_is_that_of_its_span() -> None:
    looked = span(1, LOOKED | {"gen_ai.tool.call.id": "c", "gen_ai.tool.call.result": "y"})
    recording = read(lines(span(0, chat(said=[CALLED])), looked))
    (last,) = [each for each in recording.records if isinstance(each, ToolRun)]
    assert (last.call_id, last.text, last.took_ns) == ("c", "y", 1_000_000_000)


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Hi",
         "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "Hello."},
        {"gen_ai.prompt": '[{"role": "user", "content": "Hi"}]',
         "gen_ai.completion": '[{"role": "assistant", "content": "Hello."}]', **CHAT},
        {"input.value": '{"messages": [{"role": "user", "content": "Hi"}]}',
         "output.value": '{"choices": [{"message": {"content": "Hello."}}]}',
         "openinference.span.kind": "LLM"},
        {"events": json.dumps([
            {"event.name": "gen_ai.user.message", "content": "Hi"},
            {"event.name": "gen_ai.choice", "message": {"content": "Hello."}}]), **CHAT},
        {"gen_ai.input.messages": ASKED, "gen_ai.output.messages": SAID, **CHAT},
    ],
)  # fmt: skip
def test_each_generation_of_attributes_tells_the_same(attributes: dict[str, Any]) -> None:
    told = imported(span(0, attributes))
    assert told["prompt"] == "Hi"
    assert told["model"][0]["say"] == "Hello."
    assert told["expect"]["sent"][0]["messages"] == [{"user": "Hi"}]


def langfuse(row: dict[str, Any]) -> dict[str, Any]:
    """Return a span of openai-agents as an observation of Langfuse."""
    data = row["span_data"]
    kind = {"generation": "GENERATION", "function": "TOOL"}.get(data["type"], "SPAN")
    error = row["error"] or {}
    return {
        "id": row["id"], "traceId": row["trace_id"], "parentObservationId": row["parent_id"],
        "type": kind, "name": data.get("name"), "startTime": row["started_at"],
        "endTime": row["ended_at"], "input": data.get("input"), "output": data.get("output"),
        "usageDetails": data.get("usage"), "level": "ERROR" if error else "DEFAULT",
        "statusMessage": (error.get("data") or {}).get("error"),
    }  # fmt: skip


@pytest.mark.parametrize("course", ["reply", "call", "parallel", "retry", "fails", "two"])
def test_observations_of_langfuse_are_the_same_spans(course: str) -> None:
    text = WRITTEN[f"openai-agents {course}"]
    rows = [json.loads(line) for line in text.splitlines()]
    observations = [langfuse(row) for row in rows if "span_data" in row]
    recording = read(json.dumps({"id": "t", "observations": observations}))
    assert recording.format == "Langfuse observations"
    played(recording)
    assert content(scenario(recording)) == content(scenario(read(text)))
