"""Rollouts of Codex: items, the events beside them, and the runs that they become."""

from typing import Any

import pytest
from sessions import FILES, at, conversation, lines, played, read, scenario

from simloop.scenario.writing import content

META = {"timestamp": at(0), "type": "session_meta", "payload": {"id": "r1", "cwd": "/shop"}}


def item(seconds: float, kind: str, **keys: Any) -> dict[str, Any]:
    payload = {"type": kind, **keys}
    return {"timestamp": at(seconds), "type": "response_item", "payload": payload}


def event(seconds: float, kind: str, **keys: Any) -> dict[str, Any]:
    return {"timestamp": at(seconds), "type": "event_msg", "payload": {"type": kind, **keys}}


def said(seconds: float, text: str, role: str = "assistant") -> dict[str, Any]:
    return item(seconds, "message", role=role, content=[{"type": "output_text", "text": text}])


def call(seconds: float, name: str, arguments: str, call_id: str) -> dict[str, Any]:
    return item(seconds, "function_call", name=name, arguments=arguments, call_id=call_id)


def output(seconds: float, call_id: str, given: Any) -> dict[str, Any]:
    return item(seconds, "function_call_output", call_id=call_id, output=given)


def count(seconds: float, sent: int, said: int) -> dict[str, Any]:
    usage = {"last_token_usage": {"input_tokens": sent, "output_tokens": said}}
    return event(seconds, "token_count", info=usage)


def prompt(seconds: float, text: str) -> dict[str, Any]:
    return event(seconds, "user_message", message=text)


def test_a_rollout_of_the_program_runs_as_it_went() -> None:
    recording = read((FILES / "codex.jsonl").read_text())
    calls = 'shell_command {"command":"echo one"} exec_command {"cmd":"echo two; exit 3"}'
    wall = "Chunk ID: 026358\nWall time: 0.0000 seconds\nProcess exited with code 3\n"
    assert conversation(played(recording)) == [
        "user: Look around.",
        f"assistant: I look. {calls}",
        "tool: unsupported call: shell_command",
        f"tool: {wall}Original token count: 1\nOutput:\ntwo\n",
        "assistant: All done.",
    ]
    found = content(scenario(recording))
    assert [one["usage"] for one in found["model"]] == [{"input": 100, "output": 7}] * 2
    assert [one["pace"]["first_part"] for one in found["model"]] == ["277ms", "433ms"]


def test_items_up_to_the_count_of_tokens_are_one_reply() -> None:
    summary = [{"type": "summary_text", "text": "Hm."}]
    recording = read(lines(
        META, prompt(1, "Look."), said(1, "Look.", "user"), event(2, "agent_message", message="I"),
        item(2, "reasoning", summary=summary, encrypted_content="x"), said(3, "I look."),
        call(4, "ls", '{"at": 1}', "c1"), call(4, "ls", '{"at": 2}', "c2"), count(5, 9, 4),
        output(6, "c2", [{"type": "input_text", "text": "b"}]), output(8, "c1", {"content": "a"}),
        said(10, "Done."), count(10, 20, 2), event(11, "task_complete"),
    ))  # fmt: skip
    result = played(recording)
    assert conversation(result) == [
        "user: Look.", 'assistant: I look. ls {"at":1} ls {"at":2}', "tool: a", "tool: b",
        "assistant: Done.",
    ]  # fmt: skip
    first, second = content(scenario(recording))["model"]
    assert (first["think"], first["usage"]) == ("Hm.", {"input": 9, "output": 4})
    assert (first["pace"], second["pace"]) == ({"first_part": "3s"}, {"first_part": "2s"})


def test_calls_of_other_kinds_are_calls_too() -> None:
    recording = read(lines(
        META, prompt(1, "Mend."),
        item(2, "custom_tool_call", name="patch", input="+a", call_id="c"),
        item(3, "custom_tool_call_output", call_id="c", output="Done!"),
        item(4, "local_shell_call", call_id="d", action={"command": ["ls"]}),
        item(5, "local_shell_call_output", call_id="d", output={"success": False, "content": "no"}),
        item(5, "web_search_call", action={}), said(6, "Mended."), {"type": "new"}, "[]",
    ))  # fmt: skip
    assert conversation(played(recording)) == [
        "user: Mend.", 'assistant:  patch {"input":"+a"}', "tool: Done!",
        'assistant:  local_shell {"command":["ls"]}', "tool: no", "assistant: Mended.",
    ]  # fmt: skip
    assert recording.skipped == {
        "a line of the type session_meta": 1, "an item of the type web_search_call": 1,
        "a line of the type new": 1, "a line that is no JSON object": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "reply"),
    [
        ({"message": "Reconnecting... 1/5"}, {"lost": "before-headers"}),
        (
            {"message": "x", "codex_error_info": {"response_lost": {"http_status_code": 502}}},
            {"http": {"status": 502, "message": "x"}},
        ),
    ],
)  # fmt: skip
def test_a_stream_that_failed_is_a_failed_attempt(keys: Any, reply: Any) -> None:
    recording = read(lines(
        META, prompt(1, "Hi"), event(3, "stream_error", **keys), said(6, "Hello."), count(6, 1, 1)
    ))  # fmt: skip
    found = content(scenario(recording))
    assert found["model"][0] == {**reply, "pace": {"first_part": "2s"}}
    assert conversation(played(recording)) == ["user: Hi", "assistant: Hello."]


def test_an_aborted_turn_and_one_that_failed_end_their_runs() -> None:
    recording = read(lines(
        META, prompt(1, "One"), call(2, "ls", "{}", "c1"), count(2, 1, 1),
        event(3, "turn_aborted", reason="interrupted"), output(3, "c1", "aborted by user"),
        prompt(9, "Two"), event(10, "error", message="It is over."), event(10, "task_complete"),
        prompt(12, "Two"), event(14, "task_complete", error={"message": "unexpected status"}),
        prompt(19, "Three"), said(20, "Yes."), count(20, 1, 1),
    ))  # fmt: skip
    result = played(recording)
    assert [each.name for each in result.outcomes] == ["ABORTED", "FAILED", "FAILED", "COMPLETED"]
    assert result.text == "Yes."


def test_a_compaction_has_its_summary() -> None:
    long = "much " * 400
    compacted = {"timestamp": at(4), "type": "compacted", "payload": {"message": "They looked."}}
    recording = read(lines(
        META, prompt(1, "Look."), call(2, "ls", "{}", "c1"), output(3, "c1", long),
        call(3, "ls", "{}", "c2"), output(3, "c2", long), compacted, said(6, "Done."),
    ))  # fmt: skip
    assert "summary: They looked." in conversation(played(recording))
