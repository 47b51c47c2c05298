"""The OpenTelemetry spans of a run: names, attributes, times and ids, from entries alone."""

import json
import subprocess
from pathlib import Path
from typing import Any

from services import ORDERS, asked, sent

from simloop.runs.run import run
from simloop.scenario.programs import Program
from simloop.scenario.replies import Http, Reply
from simloop.scenario.schema import Scenario
from simloop.trace.codec import read_trace
from simloop.trace.looptrace import LoopTrace
from simloop.trace.otel import otel

TRACES = Path(__file__).parents[2] / "scenarios" / "__snapshots__"
REQUIRED = {
    "invoke_agent": {"gen_ai.provider.name", "gen_ai.agent.name", "gen_ai.conversation.id"},
    "chat": {"gen_ai.provider.name", "gen_ai.request.model"},
    "execute_tool": {"gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.tool.type"},
}
"""By operation: attributes that the conventions demand or recommend, and a run always has."""
KINDS = {"invoke_agent": 1, "chat": 3, "execute_tool": 1}


def value(given: dict[str, Any]) -> Any:
    ((kind, held),) = given.items()
    if kind == "arrayValue":
        return [value(each) for each in held["values"]]
    return int(held) if kind == "intValue" else held


def attributes(given: dict[str, Any]) -> dict[str, Any]:
    names = [each["key"] for each in given["attributes"]]
    assert len(names) == len(set(names))
    return {each["key"]: value(each["value"]) for each in given["attributes"]}


def spans(trace: LoopTrace) -> list[dict[str, Any]]:
    (resource,) = otel(trace)["resourceSpans"]
    assert attributes(resource["resource"]) == {"service.name": "simloop"}
    (scope,) = resource["scopeSpans"]
    found: list[dict[str, Any]] = scope["spans"]
    return found


def recorded(name: str) -> list[dict[str, Any]]:
    return spans(read_trace(TRACES / f"{name}.trace.jsonl"))


def seconds(span: dict[str, Any]) -> tuple[float, float]:
    return int(span["startTimeUnixNano"]) / 1e9, int(span["endTimeUnixNano"]) / 1e9


def events(span: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [attributes(each) for each in span["events"] if each["name"] == name]


def test_a_run_is_a_span_of_its_agent_with_spans_of_its_model_calls_and_its_tools() -> None:
    found = recorded("start.quickstart")
    assert [span["name"] for span in found] == [
        "invoke_agent reference",
        "chat scripted",
        "chat scripted",
        "execute_tool list_files",
        "chat scripted",
        "execute_tool read_file",
        "chat scripted",
        "chat scripted",
    ]
    root, *others = found
    assert "parentSpanId" not in root
    assert {span["parentSpanId"] for span in others} == {root["spanId"]}
    assert seconds(root) == (0.0, 7.49)
    assert attributes(found[3])["gen_ai.tool.call.arguments"] == "{}"
    assert seconds(found[3]) == (5.7, 5.73)


def test_each_request_is_a_span_and_the_waits_between_them_are_events_of_the_agent() -> None:
    root, failed, again, *_ = recorded("start.quickstart")
    assert [attributes(each)["simloop.request"] for each in (failed, again)] == [1, 2]
    assert attributes(failed)["error.type"] == "429"
    assert failed["status"]["code"] == 2
    assert events(root, "simloop.backoff")[0] == {"simloop.backoff.delay_s": 5.0}
    assert seconds(again) == (5.0, 5.7)
    shown = attributes(again)
    assert shown["gen_ai.response.finish_reasons"] == ["tool-calls"]
    assert shown["gen_ai.response.time_to_first_chunk"] == 0.6
    assert again["status"] == {}
    (message,) = json.loads(shown["gen_ai.output.messages"])
    assert [part["type"] for part in message["parts"]] == ["text", "tool_call"]
    assert message["parts"][0]["content"] == "I will look around."


def test_a_call_that_an_abort_cuts_off_ends_with_the_run() -> None:
    root, *others = recorded("abort.mid-stream")
    assert attributes(others[-1])["error.type"] == "aborted"
    assert seconds(others[-1])[1] == seconds(root)[1]
    assert events(root, "simloop.stop")


def test_spans_of_all_recorded_runs_are_as_the_conventions_demand() -> None:
    for path in sorted(TRACES.glob("*.jsonl"))[::5]:
        trace = read_trace(path)
        found = spans(trace)
        by_id = {span["spanId"]: span for span in found}
        assert len(by_id) == len(found)
        for span in found:
            shown = attributes(span)
            operation = shown["gen_ai.operation.name"]
            assert shown.keys() >= REQUIRED[operation], path.name
            assert span["kind"] == KINDS[operation]
            assert span["name"].startswith(f"{operation} ")
            assert (len(span["traceId"]), len(span["spanId"])) == (32, 16)
            int(span["traceId"], 16)
            assert seconds(span)[0] <= seconds(span)[1]
            assert ("error.type" in shown) == (span["status"] != {})
            parent = by_id[span.get("parentSpanId", span["spanId"])]
            assert parent["traceId"] == span["traceId"]
            assert seconds(parent)[0] <= seconds(span)[0]
        kinds = [type(entry).__name__ for entry in trace.entries]
        sent = [attributes(span).get("simloop.request") for span in found]
        assert sorted(filter(None, sent)) == list(range(1, kinds.count("Request") + 1)), path.name
        operations = [attributes(span)["gen_ai.operation.name"] for span in found]
        assert operations.count("execute_tool") == kinds.count("ToolStarted")
        assert operations.count("invoke_agent") == kinds.count("Prompt")


def test_equal_runs_have_equal_spans_and_other_runs_other_ids() -> None:
    scenario = Scenario(prompt="Hi", model=[Reply(http=Http(status=429)), Reply(say="Hello.")])
    one, same, other = (otel(run(scenario, seed=seed).trace) for seed in (1, 1, 2))
    assert one == same
    ids = [made["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for made in (one, other)]
    assert ids[0]["traceId"] != ids[1]["traceId"]


def test_usage_is_that_of_the_provider() -> None:
    reply = Reply(say="Hello.", usage={"input": 12, "output": 3})
    _, call = spans(run(Scenario(prompt="Hi", model=[reply])).trace)
    shown = attributes(call)
    assert shown["gen_ai.usage.input_tokens"] == 12
    assert shown["gen_ai.usage.output_tokens"] == 3


def test_a_truncated_trace_has_spans_that_end_with_it() -> None:
    trace = read_trace(TRACES / "start.quickstart.trace.jsonl")
    del trace.entries[15:]
    trace.footer = None
    root, _, call = spans(trace)
    assert attributes(root)["error.type"] == attributes(call)["error.type"] == "unfinished"
    assert seconds(root)[1] == seconds(call)[1] == 5.66


def test_a_request_to_a_service_is_a_span_with_its_status_or_its_failure() -> None:
    routes = [{"get": "/a", "status": 503, "takes": "1s"}, {"get": "/b", "lost": "before-headers"}]
    _, result = asked(routes, sent("GET /a?q=1"), sent("GET /b"))
    _, status, lost = spans(result.trace)
    assert (status["name"], status["kind"], seconds(status)) == ("GET", 3, (0.0, 1.0))
    assert attributes(status) == {
        "http.request.method": "GET",
        "url.full": f"{ORDERS}/a?q=1",
        "http.response.status_code": 503,
        "error.type": "503",
    }
    assert attributes(lost)["error.type"] == "lost"


def test_a_program_is_a_span_with_its_command_line_and_its_exit_status() -> None:
    def agent(prompt: str) -> None:
        for args in (["git", "log", "a b"], ["/bin/false"]):
            subprocess.call(args)

    programs = {"git": Program(takes="2s"), "false": Program(exit=1)}
    _, git, false = spans(run(Scenario(prompt="Go.", programs=programs), loop=agent).trace)
    assert (git["name"], git["kind"], seconds(git)) == ("git", 1, (0.0, 2.0))
    assert attributes(git) == {
        "process.executable.name": "git",
        "process.command_line": "git log 'a b'",
        "process.exit.code": 0,
    }
    assert (false["name"], attributes(false)["error.type"]) == ("false", "1")
