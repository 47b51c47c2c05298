"""One conversation in the format of each recorder, made by hand from the formats' descriptions."""

import base64
import gzip
import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import yaml

Json = dict[str, Any]
PROMPT, THOUGHT, ANSWER = "Is it warm in Rome?", "I look it up.", "It is warm."
RESULT = "31 degrees"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CITY = {"city": "Rome"}
CHAT_URL = "https://api.openai.com/v1/chat/completions"
LIMIT = {"error": {"message": "Slow down.", "type": "requests", "code": "rate_limit_exceeded"}}
CHAT_TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
CHAT_CALL: Json = {
    "role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function",
         "function": {"name": "weather", "arguments": json.dumps(CITY)}},
    ],
}  # fmt: skip
CHAT_RESULT = {"role": "tool", "tool_call_id": "c1", "content": RESULT}


class Exchange(NamedTuple):
    """A request with its answer, as any recorder over HTTP sees them: JSON, or a stream."""

    sent: Json
    answer: Any
    status: int = 200
    url: str = CHAT_URL
    method: str = "POST"

    @property
    def text(self) -> str:
        return self.answer if isinstance(self.answer, str) else json.dumps(self.answer)

    @property
    def kind(self) -> str:
        return "text/event-stream" if isinstance(self.answer, str) else "application/json"


def asks(*messages: Json, **keys: Any) -> Json:
    return {"model": "gpt-5", "messages": [*messages], "tools": CHAT_TOOLS, **keys}


def user(text: str = PROMPT) -> Json:
    return {"role": "user", "content": text}


def completion(message: Json, finish: str = "stop") -> Json:
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "r1", "object": "chat.completion", "choices": [choice], "usage": usage}


def chunks(*texts: str, finish: str | None = "stop") -> str:
    """Return a stream of the chat format; one without a finish is cut."""
    choices: list[Json] = [{"delta": {"content": each}, "finish_reason": None} for each in texts]
    if finish is not None:
        choices.append({"delta": {}, "finish_reason": finish})
    whole = [json.dumps({"choices": [{"index": 0, **each}]}) for each in choices]
    ended = ["[DONE]"] if finish is not None else []
    return "".join(f"data: {each}\n\n" for each in [*whole, *ended])


_STARTED = asks(user())
_GOES_ON = asks(user(), CHAT_CALL, CHAT_RESULT, stream=True)
EXCHANGES = (
    Exchange(_STARTED, LIMIT, 429),
    Exchange(_STARTED, completion(CHAT_CALL, "tool_calls")),
    Exchange({}, {"degrees": 31}, url="https://weather.example/rome?unit=c", method="GET"),
    Exchange(_GOES_ON, chunks("It is", finish=None)),
    Exchange(_GOES_ON, chunks("It is", " warm.")),
)


def _sent_text(each: Exchange) -> str | None:
    return json.dumps(each.sent) if each.sent else None


def vcrpy(exchanges: Iterable[Exchange] = EXCHANGES) -> Json:
    """Return a cassette as vcrpy has it, before it is written as YAML or JSON."""
    return {
        "version": 1,
        "interactions": [
            {
                "request": {
                    "method": each.method, "uri": each.url, "body": _sent_text(each),
                    "headers": {"content-type": ["application/json"]},
                },
                "response": {
                    "status": {"code": each.status, "message": ""},
                    "headers": {"Content-Type": [each.kind], "retry-after": ["7"]},
                    "body": {"string": each.text},
                },
            }
            for each in exchanges
        ],
    }  # fmt: skip


def _changed(change: Any, exchanges: Iterable[Exchange] = EXCHANGES) -> Json:
    whole, given = vcrpy(exchanges), list(exchanges)
    for interaction, each in zip(whole["interactions"], given, strict=True):
        change(each, interaction["request"], interaction["response"])
    return whole


def _as_bytes(each: Exchange, _: Json, answer: Json) -> None:
    answer["body"] = {"string": gzip.compress(each.text.encode(), mtime=0)}
    answer["headers"]["Content-Encoding"] = ["gzip"]


def _parsed(each: Exchange, request: Json, answer: Json) -> None:
    del request["body"]
    if each.sent:
        request["parsed_body"] = each.sent
    if not isinstance(each.answer, str):
        answer["parsed_body"] = each.answer
        del answer["body"]


def _as_httpx_stub(each: Exchange, _: Json, answer: Json) -> None:
    del answer["body"], answer["status"]
    answer |= {"content": each.text, "status_code": each.status, "http_version": "HTTP/1.1"}
    answer["headers"]["content-encoding"] = ["gzip"]


def _by_cassetter(each: Exchange, request: Json, answer: Json) -> None:
    is_stream = isinstance(each.answer, str)
    content = base64.b64encode(each.text.encode()).decode() if is_stream else each.answer
    answer["status"] = each.status
    answer["body"] = {"type": "base64" if is_stream else "json", "content": content}
    request["body"] = {"type": "json", "content": each.sent}


def _yaml(value: Any) -> bytes:
    return yaml.safe_dump(value, allow_unicode=True).encode()


def _toml(whole: Json) -> bytes:
    lines = ["version = 1"]
    for each in whole["interactions"]:
        lines.append("[[interactions]]")
        for side in ("request", "response"):
            lines.append(f"[interactions.{side}]")
            told = {k: v for k, v in each[side].items() if isinstance(v, str | int)}
            lines += [f"{name} = {json.dumps(value)}" for name, value in told.items()]
            lines += [f"[interactions.{side}.headers]"]
            lines += [
                f"{json.dumps(k)} = {json.dumps(v)}" for k, v in each[side]["headers"].items()
            ]
            body = each[side]["body"]
            content = body["content"]
            text = content if isinstance(content, str) else json.dumps(content)
            kind = "text" if body["type"] == "json" else body["type"]
            lines += [f"[interactions.{side}.body]", f'type = "{kind}"']
            lines += [f"content = {json.dumps(text)}"]
    return "\n".join(lines).encode()


CASSETTES: Mapping[str, bytes] = {
    "vcr-text": _yaml(vcrpy()),
    "vcr-binary": _yaml(_changed(_as_bytes)),
    "vcr-parsed": _yaml(_changed(_parsed)),
    "vcr-httpx": _yaml(_changed(_as_httpx_stub)),
    "vcr-cassetter": _yaml(_changed(_by_cassetter)),
    "vcr-toml": _toml(_changed(_by_cassetter)),
    "vcr-json": json.dumps(vcrpy(), indent=1).encode(),
    "vcr-gzip": gzip.compress(_yaml(vcrpy()), mtime=0),
}
"""One conversation in all shapes of cassettes."""


# ---------------------------------------------------------------- other providers

_RESPONSES_URL = "https://api.openai.com/v1/responses"
_MESSAGES_URL = "https://api.anthropic.com/v1/messages"
_GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta/models/g-1:generateContent"
_BEDROCK_URL = "https://bedrock-runtime.us-east-1.amazonaws.com/model/b-1/converse"
_RESPONSE_CALL = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "weather",
                  "arguments": json.dumps(CITY), "status": "completed"}  # fmt: skip
_RESPONSE_SAID = {"type": "message", "id": "i1", "role": "assistant", "status": "completed",
                  "content": [{"type": "output_text", "text": ANSWER}]}  # fmt: skip


def _response(response_id: str, item: Json) -> Json:
    usage = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
    return {"id": response_id, "object": "response", "status": "completed", "output": [item],
            "usage": usage}  # fmt: skip


def _responses_tools() -> list[Json]:
    return [{"type": "function", "name": "weather", "parameters": SCHEMA}]


_RESPONSES = (
    Exchange({"model": "gpt-5", "input": PROMPT, "instructions": "Be brief.",
              "tools": _responses_tools()}, _response("r1", _RESPONSE_CALL), url=_RESPONSES_URL),
    Exchange({"model": "gpt-5", "previous_response_id": "r1", "instructions": "Be brief.",
              "tools": _responses_tools(), "input": [
                  {"type": "function_call_output", "call_id": "c1", "output": RESULT}]},
             _response("r2", _RESPONSE_SAID), url=_RESPONSES_URL),
)  # fmt: skip
_USE = {"type": "tool_use", "id": "c1", "name": "weather", "input": CITY}
_MESSAGES_TOOLS = [{"name": "weather", "input_schema": SCHEMA}]


def _message(block: Json, stop: str) -> Json:
    return {"id": "m", "type": "message", "role": "assistant", "content": [block],
            "stop_reason": stop, "usage": {"input_tokens": 9, "output_tokens": 4}}  # fmt: skip


_MESSAGES = (
    Exchange({"model": "claude", "max_tokens": 99, "messages": [user()], "tools": _MESSAGES_TOOLS},
             {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
             529, url=_MESSAGES_URL),
    Exchange({"model": "claude", "max_tokens": 99, "messages": [user()], "tools": _MESSAGES_TOOLS},
             _message(_USE, "tool_use"), url=_MESSAGES_URL),
    Exchange({"model": "claude", "max_tokens": 99, "tools": _MESSAGES_TOOLS, "messages": [
        user(), {"role": "assistant", "content": [_USE]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": RESULT}]}]},
        _message({"type": "text", "text": ANSWER}, "end_turn"), url=_MESSAGES_URL),
)  # fmt: skip
_GEMINI_CALL = {"role": "model", "parts": [{"functionCall": {"name": "weather", "args": CITY}}]}
_GEMINI_TOOLS = [{"functionDeclarations": [{"name": "weather", "parametersJsonSchema": SCHEMA}]}]
_GEMINI_ASKED = {"role": "user", "parts": [{"text": PROMPT}]}


def _candidate(content: Json) -> Json:
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 4}
    return {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": usage}


_GEMINI = (
    Exchange({"contents": [_GEMINI_ASKED], "tools": _GEMINI_TOOLS}, _candidate(_GEMINI_CALL),
             url=_GEMINI_URL),
    Exchange({"tools": _GEMINI_TOOLS, "contents": [_GEMINI_ASKED, _GEMINI_CALL, {
        "role": "user", "parts": [{"functionResponse": {
            "name": "weather", "response": {"result": RESULT}}}]}]},
        _candidate({"role": "model", "parts": [{"text": ANSWER}]}), url=_GEMINI_URL),
)  # fmt: skip
_CONVERSE_USE = {"toolUse": {"toolUseId": "c1", "name": "weather", "input": CITY}}
_CONVERSE_TOOLS = {"tools": [{"toolSpec": {"name": "weather", "inputSchema": {"json": SCHEMA}}}]}
_CONVERSE_ASKED = {"role": "user", "content": [{"text": PROMPT}]}


def _converse(content: Json, stop: str) -> Json:
    return {"output": {"message": {"role": "assistant", "content": [content]}},
            "stopReason": stop, "usage": {"inputTokens": 9, "outputTokens": 4}}  # fmt: skip


_BEDROCK = (
    Exchange({"messages": [_CONVERSE_ASKED], "toolConfig": _CONVERSE_TOOLS},
             _converse(_CONVERSE_USE, "tool_use"), url=_BEDROCK_URL),
    Exchange({"toolConfig": _CONVERSE_TOOLS, "messages": [
        _CONVERSE_ASKED, {"role": "assistant", "content": [_CONVERSE_USE]},
        {"role": "user", "content": [{"toolResult": {
            "toolUseId": "c1", "content": [{"text": RESULT}]}}]}]},
        _converse({"text": ANSWER}, "end_turn"), url=_BEDROCK_URL),
)  # fmt: skip
OTHER_PROVIDERS = {
    "vcr-responses": _RESPONSES, "vcr-messages": _MESSAGES, "vcr-gemini": _GEMINI,
    "vcr-bedrock": _BEDROCK,
}  # fmt: skip


def har(exchanges: Iterable[Exchange] = EXCHANGES) -> Json:
    entries = [
        {
            "startedDateTime": f"2026-11-23T10:00:{2 * number:02}.000Z", "time": 310,
            "request": {
                "method": each.method, "url": each.url,
                "headers": [{"name": "authorization", "value": "Bearer abcdefghijk"}],
                "postData": {"mimeType": "application/json", "text": _sent_text(each)},
            },
            "response": {
                "status": each.status, "statusText": "",
                "headers": [{"name": "content-type", "value": each.kind},
                            {"name": "retry-after", "value": "7"}],
                "content": {"size": len(each.text), "mimeType": each.kind,
                            "encoding": "base64",
                            "text": base64.b64encode(each.text.encode()).decode()},
            },
            "timings": {"send": 1, "wait": 300, "receive": 9},
        }
        for number, each in enumerate(exchanges)
    ]  # fmt: skip
    return {"log": {"version": "1.2", "creator": {"name": "by hand"}, "entries": entries}}


def _lines(*values: Any) -> bytes:
    return "".join(json.dumps(each) + "\n" for each in values).encode()


def _events(*events: Json) -> bytes:
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()


# ---------------------------------------------------------------- sessions of coding agents


def _claude(uuid: str, parent: str | None, kind: str, second: int, **keys: Any) -> Json:
    return {
        "type": kind, "uuid": uuid, "parentUuid": parent, "isSidechain": False, "sessionId": "s1",
        "timestamp": f"2026-03-04T11:00:{second:02}.000Z", "version": "2.1.202", **keys,
    }  # fmt: skip


def _claude_says(message_id: str, *blocks: Json, stop: str | None = None) -> Json:
    usage = {"input_tokens": 9, "output_tokens": 4}
    return {
        "id": message_id, "role": "assistant", "model": "claude", "content": [*blocks],
        "stop_reason": stop, "usage": usage,
    }  # fmt: skip


CLAUDE_CODE = (
    _claude("u1", None, "user", 0, message={"role": "user", "content": PROMPT}),
    _claude("e1", "u1", "system", 4, subtype="api_error", retryAttempt=1, maxRetries=10,
            retryInMs=500, error={"status": 529, "message": "overloaded"}),
    _claude("a1", "u1", "assistant", 8,
            message=_claude_says("m1", {"type": "thinking", "thinking": THOUGHT})),
    _claude("a2", "a1", "assistant", 9, message=_claude_says(
        "m1", {"type": "tool_use", "id": "c1", "name": "weather", "input": CITY}, stop="tool_use")),
    _claude("u2", "a2", "user", 11, toolUseResult={"durationMs": 1500}, message={
        "role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1",
                                     "content": RESULT, "is_error": False}]}),
    _claude("s1", "u2", "system", 12, subtype="compact_boundary"),
    _claude("u3", "s1", "user", 13, isCompactSummary=True,
            message={"role": "user", "content": "So far: Rome has 31 degrees."}),
    _claude("a3", "u3", "assistant", 15, message=_claude_says(
        "m2", {"type": "text", "text": ANSWER}, stop="end_turn")),
)  # fmt: skip


def _codex(second: int, kind: str, **payload: Any) -> Json:
    return {"timestamp": f"2026-01-02T03:04:{second:02}.000Z", "type": kind, "payload": payload}


CODEX = (
    _codex(0, "session_meta", id="1", cwd="/work", cli_version="0.1"),
    _codex(1, "event_msg", type="user_message", message=PROMPT),
    _codex(2, "event_msg", type="stream_error", message="Reconnecting... 1/5"),
    _codex(3, "response_item", type="reasoning",
           summary=[{"type": "summary_text", "text": THOUGHT}]),
    _codex(4, "response_item", type="function_call", name="weather", call_id="c1",
           arguments=json.dumps(CITY)),
    _codex(5, "response_item", type="function_call_output", call_id="c1", output=RESULT),
    _codex(6, "response_item", type="message", role="assistant",
           content=[{"type": "output_text", "text": ANSWER}]),
    _codex(7, "event_msg", type="token_count",
           info={"last_token_usage": {"input_tokens": 9, "output_tokens": 4}}),
)  # fmt: skip


def _pi(number: int, message: Json) -> Json:
    at = {"timestamp": f"2025-11-20T23:33:{number + 1:02}.000Z"}
    stamped = {**message, "timestamp": 1763681580000 + 1000 * number}
    above = f"p{number - 1}" if number else None
    return {"type": "message", "id": f"p{number}", "parentId": above, **at, "message": stamped}


PI = (
    {"type": "session", "version": 3, "id": "s", "cwd": "/",
     "timestamp": "2025-11-20T23:33:00.000Z"},
    _pi(0, {"role": "user", "content": [{"type": "text", "text": PROMPT}]}),
    _pi(1, {"role": "assistant", "stopReason": "toolUse", "usage": {"input": 9, "output": 4},
            "content": [{"type": "thinking", "thinking": THOUGHT},
                        {"type": "toolCall", "id": "c1", "name": "weather", "arguments": CITY}]}),
    _pi(2, {"role": "toolResult", "toolCallId": "c1", "toolName": "weather", "isError": False,
            "content": [{"type": "text", "text": RESULT}]}),
    _pi(3, {"role": "assistant", "stopReason": "stop", "usage": {"input": 9, "output": 4},
            "content": [{"type": "text", "text": ANSWER}]}),
)  # fmt: skip

_TOOL_PART = {
    "type": "tool", "tool": "weather", "callID": "c1",
    "state": {"status": "completed", "input": CITY, "output": RESULT,
              "time": {"start": 1774979807304, "end": 1774979807326}},
}  # fmt: skip


def _opencode(ms: int, kind: str, **part: Any) -> Json:
    named = {"type": kind.replace("_", "-"), **part}
    return {"type": kind, "timestamp": 1774979807000 + ms, "sessionID": "s", "part": named}


_TOKENS = {"input": 9, "output": 4}
OPENCODE_RUN = (
    _opencode(0, "step_start"),
    _opencode(336, "tool_use", **_TOOL_PART),
    _opencode(340, "step_finish", reason="tool-calls", tokens=_TOKENS),
    {"type": "error", "timestamp": 1774979807350, "sessionID": "s",
     "error": {"name": "APIError", "data": {"message": "busy", "statusCode": 503}}},
    _opencode(350, "step_start"),
    _opencode(400, "text", text=ANSWER),
    _opencode(420, "step_finish", reason="stop", tokens=_TOKENS),
)  # fmt: skip
OPENCODE_EXPORT = {
    "info": {"id": "s", "title": "Weather"},
    "messages": [
        {"info": {"role": "user", "sessionID": "s", "time": {"created": 1774979807000}},
         "parts": [{"type": "text", "text": PROMPT}]},
        {"info": {"role": "assistant",
                  "time": {"created": 1774979807100, "completed": 1774979809000}},
         "parts": [{"type": "step-start"}, _TOOL_PART,
                   {"type": "step-finish", "reason": "tool-calls", "tokens": _TOKENS}]},
        {"info": {"role": "assistant",
                  "time": {"created": 1774979809000, "completed": 1774979810000}},
         "parts": [{"type": "step-start"}, {"type": "text", "text": ANSWER},
                   {"type": "step-finish", "reason": "stop", "tokens": _TOKENS}]},
    ],
}  # fmt: skip

# ---------------------------------------------------------------- traces and trajectories

_T0 = 1_774_979_807_000_000_000
_ASKED = [{"role": "user", "parts": [{"type": "text", "content": PROMPT}]}]
_CALLED = {"role": "assistant", "finish_reason": "tool_call", "parts": [
    {"type": "reasoning", "content": THOUGHT},
    {"type": "tool_call", "id": "c1", "name": "weather", "arguments": CITY},
]}  # fmt: skip
_ANSWERED = {"role": "tool", "parts": [
    {"type": "tool_call_response", "id": "c1", "response": RESULT},
]}  # fmt: skip
_SAID = {"role": "assistant", "finish_reason": "stop",
         "parts": [{"type": "text", "content": ANSWER}]}  # fmt: skip


def _span(number: int, name: str, attributes: Json) -> Json:
    typed = [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else
         {"stringValue": value if isinstance(value, str) else json.dumps(value)}}
        for key, value in attributes.items()
    ]  # fmt: skip
    start = _T0 + number * 10**9
    times = {"startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 5 * 10**8)}
    return {"traceId": "t", "spanId": f"x{number}", "name": name, **times, "attributes": typed}


def _chat_span(number: int, asked: Any, answered: Any) -> Json:
    return _span(number, "chat gpt-5", {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5",
        "gen_ai.input.messages": asked, "gen_ai.output.messages": [answered],
        "gen_ai.response.finish_reasons": [answered["finish_reason"]],
        "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 4,
    })  # fmt: skip


_SPANS = (
    _chat_span(0, _ASKED, _CALLED),
    _span(1, "execute_tool weather", {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather",
        "gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": RESULT}),
    _chat_span(2, [*_ASKED, _CALLED, _ANSWERED], _SAID),
)  # fmt: skip


def _otlp(*spans: Json) -> Json:
    return {"resourceSpans": [{"scopeSpans": [{"spans": [*spans]}]}]}


_FLAT = {
    "openinference.span.kind": "LLM", "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": PROMPT,
}  # fmt: skip
_FLAT_CALL = {
    "tool_calls.0.tool_call.id": "c1", "tool_calls.0.tool_call.function.name": "weather",
    "tool_calls.0.tool_call.function.arguments": json.dumps(CITY), "role": "assistant",
}  # fmt: skip


def _under(start: str, keys: Json) -> Json:
    return {f"{start}.message.{name}": value for name, value in keys.items()}


OPENINFERENCE = (
    {**_FLAT, **_under("llm.output_messages.0", _FLAT_CALL),
     "llm.token_count.prompt": 9, "llm.token_count.completion": 4},
    {**_FLAT, **_under("llm.input_messages.1", _FLAT_CALL),
     **_under("llm.input_messages.2", CHAT_RESULT),
     **_under("llm.output_messages.0", {"role": "assistant", "content": ANSWER})},
)  # fmt: skip
ATIF = {
    "schema_version": "ATIF-v1.7", "session_id": "s",
    "agent": {"name": "x", "version": "1", "tool_definitions": CHAT_TOOLS},
    "steps": [
        {"step_id": 1, "source": "user", "message": PROMPT},
        {"step_id": 2, "source": "agent", "message": "", "reasoning_content": THOUGHT,
         "tool_calls": [{"tool_call_id": "c1", "function_name": "weather", "arguments": CITY}],
         "observation": {"results": [{"source_call_id": "c1", "content": RESULT}]},
         "metrics": {"prompt_tokens": 9, "completion_tokens": 4}},
        {"step_id": 3, "source": "agent", "message": ANSWER},
    ],
}  # fmt: skip
_CHOICE = {
    "choices": [{"message": {"role": "assistant", "content": ANSWER}, "stop_reason": "stop"}]
}
_CALLING = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "c1", "function": "weather", "arguments": CITY, "type": "function"}]}  # fmt: skip
INSPECT = {
    "version": 2, "status": "success", "eval": {"task": "warm", "task_id": "t"},
    "samples": [{
        "id": 1, "epoch": 1, "input": PROMPT, "attachments": {"h": PROMPT},
        "events": [
            {"event": "model", "input": [user("attachment://h")], "retries": 1,
             "timestamp": "2026-01-01T00:00:00+00:00", "completed": "2026-01-01T00:00:02+00:00",
             "output": {"choices": [{"message": _CALLING, "stop_reason": "tool_calls"}]}},
            {"event": "tool", "id": "c1", "function": "weather", "arguments": CITY,
             "result": RESULT, "timestamp": "2026-01-01T00:00:02+00:00",
             "completed": "2026-01-01T00:00:03+00:00"},
            {"event": "model", "input": [user(), _CALLING, {**CHAT_RESULT, "function": "weather"}],
             "timestamp": "2026-01-01T00:00:03+00:00", "output": _CHOICE},
        ],
    }],
}  # fmt: skip
LANGSMITH = [
    {"id": "1", "run_type": "llm", "inputs": {"messages": [user()]},
     "outputs": {"generations": [[{"message": CHAT_CALL}]]},
     "start_time": "2026-01-01T00:00:00", "end_time": "2026-01-01T00:00:02"},
    {"id": "2", "run_type": "tool", "name": "weather",
     "outputs": {"output": {"tool_call_id": "c1", "content": RESULT}}},
    {"id": "3", "run_type": "llm", "inputs": {"messages": [user(), CHAT_CALL, CHAT_RESULT]},
     "outputs": {"generations": [[{"message": {"role": "assistant", "content": ANSWER}}]]},
     "start_time": "2026-01-01T00:00:04"},
]  # fmt: skip
LANGFUSE = [
    {"id": "1", "traceId": "t", "type": "GENERATION", "startTime": "2026-01-01T00:00:00Z",
     "completionStartTime": "2026-01-01T00:00:01Z", "endTime": "2026-01-01T00:00:02Z",
     "input": [user()], "output": CHAT_CALL, "usageDetails": {"input": 9, "output": 4}},
    {"id": "2", "traceId": "t", "type": "GENERATION", "startTime": "2026-01-01T00:00:04Z",
     "input": [user(), CHAT_CALL, CHAT_RESULT], "output": {"role": "assistant", "content": ANSWER}},
]  # fmt: skip
OPENAI_AGENTS = (
    {"object": "trace.span", "id": "1", "started_at": "2026-01-01T00:00:00+00:00", "span_data": {
        "type": "generation", "input": [user()], "output": [CHAT_CALL],
        "usage": {"input_tokens": 9, "output_tokens": 4}}},
    {"object": "trace.span", "id": "2", "started_at": "2026-01-01T00:00:02+00:00",
     "span_data": {"type": "function", "name": "weather", "output": RESULT}},
    {"object": "trace.span", "id": "3", "started_at": "2026-01-01T00:00:04+00:00", "span_data": {
        "type": "generation", "input": [user(), CHAT_CALL, CHAT_RESULT],
        "output": [{"role": "assistant", "content": ANSWER}]}},
)  # fmt: skip
TRAJECTORY = [
    {"role": "system", "content": "You look things up."}, user(), CHAT_CALL, CHAT_RESULT,
    {"role": "assistant", "content": ANSWER},
]  # fmt: skip

# ---------------------------------------------------------------- streams


def _messages_stream() -> Sequence[Json]:
    usage = {"input_tokens": 9, "output_tokens": 1}
    return (
        {"type": "message_start", "message": {
            "id": "m", "role": "assistant", "content": [], "stop_reason": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0,
         "delta": {"type": "text_delta", "text": ANSWER}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"},
         "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    )  # fmt: skip


def _responses_stream() -> Sequence[Json]:
    item = {"type": "message", "id": "i", "role": "assistant", "content": []}
    part = {"type": "output_text", "text": ANSWER, "annotations": []}
    usage = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
    whole = {
        "id": "r",
        "status": "completed",
        "output": [{**item, "content": [part]}],
        "usage": usage,
    }
    events: list[Json] = [
        {
            "type": "response.created",
            "response": {"id": "r", "status": "in_progress", "output": []},
        },
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_text.delta", "output_index": 0, "delta": ANSWER},
        {"type": "response.completed", "response": whole},
    ]
    return [{**each, "sequence_number": number} for number, each in enumerate(events)]


STREAMS: Mapping[str, bytes] = {
    "sse-chat": f": OPENROUTER PROCESSING\n\n{chunks('It is', ' warm.')}".encode(),
    "sse-messages": _events(*_messages_stream()),
    "sse-responses": _events(*_responses_stream()),
}


def _eval_file() -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": INSPECT["eval"]}))
        samples: Any = INSPECT["samples"]
        archive.writestr("samples/1_epoch_1.json", json.dumps(samples[0]))
    return held.getvalue()


FILES: Mapping[str, bytes] = {
    **CASSETTES,
    **{name: _yaml(vcrpy(exchanges)) for name, exchanges in OTHER_PROVIDERS.items()},
    "har": json.dumps(har()).encode(),
    **STREAMS,
    "claude-code": _lines(*CLAUDE_CODE),
    "codex": _lines(*CODEX),
    "pi": _lines(*PI),
    "opencode-run": _lines(*OPENCODE_RUN),
    "opencode-export": json.dumps(OPENCODE_EXPORT).encode(),
    "otel": json.dumps(_otlp(*_SPANS)).encode(),
    "otel-lines": _lines(*map(_otlp, _SPANS)),
    "otel-openinference": json.dumps(OPENINFERENCE).encode(),
    "atif": json.dumps(ATIF).encode(),
    "inspect": json.dumps(INSPECT).encode(),
    "inspect-eval": _eval_file(),
    "langsmith": json.dumps(LANGSMITH).encode(),
    "langfuse": json.dumps(LANGFUSE).encode(),
    "openai-agents": _lines(*OPENAI_AGENTS),
    "trajectory": json.dumps(TRAJECTORY).encode(),
}
"""A recording of each format, by its name and what tells it from others of the format."""
