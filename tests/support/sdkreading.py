"""One request by a real SDK, and its reply as the SDK gives it."""

import json
from typing import Any, NamedTuple

from wireserving import Served, anthropic_client, openai_client

from simloop.messages import ToolCall, Usage

USER = [{"role": "user", "content": "hi"}]


class Read(NamedTuple):
    """A reply as an SDK gives it."""

    text: str
    refusal: str = ""
    calls: tuple[ToolCall, ...] = ()
    ending: str = ""
    usage: Usage | None = None


def read_chat(served: Served) -> Read:
    stream = openai_client(served).chat.completions.create(
        model="m", messages=USER, stream=True, stream_options={"include_usage": True}
    )
    text, refusal, ending, usage = "", "", "", None
    calls: dict[int, ToolCall] = {}
    for chunk in stream:
        if chunk.usage:
            usage = Usage(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)
        for choice in chunk.choices:
            text += choice.delta.content or ""
            refusal += choice.delta.refusal or ""
            ending = choice.finish_reason or ending
            for one in choice.delta.tool_calls or ():
                old = calls.get(one.index) or ToolCall(one.id, one.function.name, "")
                arguments = old.arguments + one.function.arguments
                calls[one.index] = ToolCall(old.id, old.name, arguments)
    return Read(text, refusal, tuple(calls.values()), ending, usage)


def accumulated_chat(served: Served) -> Read:
    client, asked = openai_client(served), {"stream_options": {"include_usage": True}}
    with client.chat.completions.stream(model="m", messages=USER, **asked) as stream:
        return _completion(stream.get_final_completion())


def read_raw_chat(served: Served) -> Read:
    chat = openai_client(served).chat.completions
    return _completion(chat.with_raw_response.create(model="m", messages=USER).parse())


def read_whole_chat(served: Served) -> Read:
    return _completion(openai_client(served).chat.completions.create(model="m", messages=USER))


def _completion(reply: Any) -> Read:
    (choice,) = reply.choices
    calls = tuple(
        ToolCall(one.id, one.function.name, one.function.arguments)
        for one in choice.message.tool_calls or ()
    )
    usage = reply.usage and Usage(reply.usage.prompt_tokens, reply.usage.completion_tokens)
    message = choice.message
    return Read(message.content or "", message.refusal or "", calls, choice.finish_reason, usage)


def read_responses(served: Served) -> Read:
    stream = openai_client(served).responses.create(model="m", input="hi", stream=True)
    text = refusal = ""
    for event in stream:
        text += event.delta if event.type == "response.output_text.delta" else ""
        refusal += event.delta if event.type == "response.refusal.delta" else ""
    read = _response(event.response)
    assert (read.text, read.refusal) == (text, refusal)
    return read


def accumulated_responses(served: Served) -> Read:
    with openai_client(served).responses.stream(model="m", input="hi") as stream:
        for event in stream:
            last = event
    return _response(last.response)


def read_whole_responses(served: Served) -> Read:
    return _response(openai_client(served).responses.create(model="m", input="hi"))


def _response(response: Any) -> Read:
    calls = tuple(
        ToolCall(item.call_id, item.name, item.arguments)
        for item in response.output
        if item.type == "function_call"
    )
    refusal = "".join(
        part.refusal
        for item in response.output
        if item.type == "message"
        for part in item.content
        if part.type == "refusal"
    )
    details, usage = response.incomplete_details, response.usage
    ending = details.reason if details else response.status
    tokens = usage and Usage(usage.input_tokens, usage.output_tokens)
    return Read(response.output_text, refusal, calls, ending, tokens)


def read_messages(served: Served) -> Read:
    asked = {"model": "m", "max_tokens": 9, "messages": USER}
    with anthropic_client(served).messages.stream(**asked) as stream:
        return _message(stream.get_final_message())


def read_beta_messages(served: Served) -> Read:
    asked = {"model": "m", "max_tokens": 9, "messages": USER}
    with anthropic_client(served).beta.messages.stream(**asked) as stream:
        return _message(stream.get_final_message())


def read_whole_messages(served: Served) -> Read:
    client = anthropic_client(served)
    return _message(client.messages.create(model="m", max_tokens=9, messages=USER))


def _message(message: Any) -> Read:
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = tuple(
        ToolCall(
            block.id,
            block.name,
            json.dumps(block.input, separators=(",", ":"), ensure_ascii=False),
        )
        for block in message.content
        if block.type == "tool_use"
    )
    usage = Usage(message.usage.input_tokens, message.usage.output_tokens)
    return Read(text, "", calls, message.stop_reason, usage)
