"""Sessions of opencode: exports and lines, and the runs on its loop that they become."""

import json
from typing import Any

from sessions import FILES, conversation, lines, played, read, scenario

from simloop.scenario.writing import content

CALLS = (
    'assistant: I look.  bash {"command":"echo one","description":"Echo"} '
    'read {"filePath":"/home/ada/shop/nofile.txt"}'
)
RESULTS = ["tool: one\n", "tool: File not found: /home/ada/shop/nofile.txt"]


def test_an_export_of_the_program_runs_on_its_loop_as_it_went() -> None:
    recording = read((FILES / "opencode-export.json").read_text())
    found = scenario(recording)
    assert found.loop == "opencode@1.18.34"
    assert conversation(played(recording)) == [
        'user: "Look around."', CALLS, *RESULTS, "assistant: All done. ", 'user: "And again?"',
        "assistant: It is done again. ",
    ]  # fmt: skip
    answers = {name: content(found)["tools"][name]["answers"][0] for name in found.tools}
    assert (answers["bash"]["takes"], answers["read"]["takes"]) == ("834ms", "159ms")


def test_lines_of_the_program_have_their_calls_in_order_and_no_prompt() -> None:
    recording = read((FILES / "opencode-run.jsonl").read_text())
    assert conversation(played(recording)) == [
        "user: (the recording has no prompt)", CALLS, *RESULTS, "assistant: All done. ",
    ]  # fmt: skip


def part(kind: str, at_ms: int, **keys: Any) -> dict[str, Any]:
    made = {"type": kind.replace("_", "-"), **keys}
    return {"type": kind, "timestamp": at_ms, "sessionID": "s1", "part": made}


def error(at_ms: int, **data: Any) -> dict[str, Any]:
    failure = {"name": "APIError", "data": {"message": "Busy", **data}}
    return {"type": "error", "timestamp": at_ms, "sessionID": "s1", "error": failure}


def test_each_step_is_a_reply_with_its_times() -> None:
    tokens = {"input": 8, "output": 3, "cache": {}}
    recording = read(lines(
        part("step_start", 1_000), part("reasoning", 1_400, text="Hm."),
        part("text", 1_500, text="It is."), "4",
        part("step_finish", 1_750, reason="stop", tokens=tokens), part("snapshot", 1_800),
    ))  # fmt: skip
    assert content(scenario(recording))["model"] == [{
        "think": "Hm.", "say": "It is.", "usage": {"input": 8, "output": 3},
        "pace": {"first_part": "750ms"},
    }]  # fmt: skip
    assert recording.skipped == {
        "a line that is no JSON object": 1, "a part of the type snapshot": 1
    }  # fmt: skip


def test_an_error_ends_the_run_and_has_its_status() -> None:
    recording = read(lines(part("step_start", 1_000), error(2_000, statusCode=400)))
    assert content(scenario(recording))["model"][0]["http"] == {"status": 400, "message": "Busy"}
    assert played(recording).outcome == "failed"


def message(role: str, *parts: Any, **info: Any) -> dict[str, Any]:
    return {"info": {"role": role, "sessionID": "s1", **info}, "parts": [*parts]}


def text(said: str, **keys: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **keys}


def export(*messages: Any) -> str:
    return json.dumps({"info": {"id": "s1"}, "messages": [*messages]}, indent=2)


def test_a_retry_is_a_failed_attempt_and_an_aborted_message_ends_its_run() -> None:
    busy = {"name": "APIError", "data": {"message": "Busy", "statusCode": 503}}
    aborted = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
    start = {"type": "step-start"}
    recording = read(export(
        message("user", text("One"), time={"created": 1_000}),
        message("assistant", start, text("Beg"), error=aborted, time={"created": 1_100}),
        message("user", text("Two"), text("hidden", synthetic=True), time={"created": 2_000}),
        message("assistant", {"type": "retry", "error": busy, "time": {"created": 3_000}}, start,
                text("Yes."), {"type": "step-finish", "reason": "stop"},
                time={"created": 2_100, "completed": 9_000}),
        message("user", text("hidden", synthetic=True)),
        message("user", text("Three"), {"type": "file", "url": "a"}),
        message("assistant", start, {"type": "tool", "tool": "ls", "state": {"status": "running"}}),
    ))  # fmt: skip
    result = played(recording)
    assert [each.name for each in result.outcomes] == ["ABORTED", "COMPLETED", "ABORTED"]
    assert conversation(result)[2] == "assistant: Yes."
    assert len(result.requests) == 5
    assert recording.skipped == {
        "a message of the user that the program has written": 1,
        "a part of the type file": 1,
        "the end of a run amid its calls: a reply fails there as `aborted`": 1,
        "the result of a call of ls, which the recording does not have": 1,
    }


def test_a_summary_is_a_compaction_which_the_reference_loop_makes() -> None:
    state = {"status": "completed", "input": {}, "output": "much " * 400}
    tool = {"type": "tool", "tool": "ls", "state": state}
    end = {"type": "step-finish", "reason": "tool-calls"}
    recording = read(export(
        message("user", text("Look. " * 400)),
        message("assistant", {**tool, "callID": "c1"}, end),
        message("assistant", {**tool, "callID": "c2"}, end),
        message("assistant", text("They look."), summary=True),
        message("assistant", text("Done."), {"type": "step-finish", "reason": "stop"}),
    ))  # fmt: skip
    assert scenario(recording).loop == "reference"
    assert "summary: They look." in conversation(played(recording))
