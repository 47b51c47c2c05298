"""One conversation in the format of each recorder, made by hand from the formats' descriptions."""

import base64
import gzip
import json
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


def _events(*events: Json) -> bytes:
    return "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode()


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


FILES: Mapping[str, bytes] = {
    **CASSETTES,
    **{name: _yaml(vcrpy(exchanges)) for name, exchanges in OTHER_PROVIDERS.items()},
    "har": json.dumps(har()).encode(),
    **STREAMS,
}
"""A recording of each format, by its name and what tells it from others of the format."""
