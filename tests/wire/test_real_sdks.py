"""The real SDKs read back what was written, in every format and framing."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

import pytest
from sdkreading import (
    USER,
    Read,
    accumulated_chat,
    accumulated_responses,
    read_beta_messages,
    read_chat,
    read_messages,
    read_raw_chat,
    read_responses,
    read_whole_chat,
    read_whole_messages,
    read_whole_responses,
)
from wireserving import Served, anthropic_client, openai_client

from simloop.messages import (
    AssistantMessage,
    Finish,
    FinishReason,
    Part,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallPart,
    ToolMessage,
    Usage,
    UserMessage,
)
from simloop.world.wire_options import FramingName, WireOptions

pytestmark = pytest.mark.sdks

ODD = "\u2028a\x85b\x0bc\U0001f600"
CALL, OTHER = ToolCall("call-1", "look", '{"at":1}'), ToolCall("call-2", "look", '{"at":"é"}')
TOKENS = Usage(11, 7)


def ended(raw: str, usage: Usage | None = TOKENS) -> Finish:
    return Finish(FinishReason.read(raw), raw, usage)


REPLIES: Mapping[str, Sequence[Part]] = {
    "text": [TextDelta("Hel"), TextDelta("lo" + ODD), ended("stop")],
    "parallel calls": [
        TextDelta("So"), ToolCallDelta("call-1", "look", '{"a'), ToolCallPart(CALL),
        ToolCallPart(OTHER), ended("tool-calls"),
    ],
    "pieces in turn": [
        ToolCallDelta("call-1", "look", '{"a'), ToolCallDelta("call-2", "look", '{"at'),
        ToolCallDelta("call-1", "look", 't":1}'), ToolCallDelta("call-2", "look", '":"é"}'),
        ToolCallPart(CALL), ToolCallPart(OTHER), ended("tool-calls"),
    ],
    "refusal": [TextDelta("I can"), TextDelta("not."), ended("refusal")],
    "length": [TextDelta("Hel"), ended("length")],
    "filter": [TextDelta("Hel"), ended("content-filter")],
    "reasoning": [ReasoningDelta("Hm"), TextDelta("Yes"), ended("stop")],
    "empty": [ended("stop")],
}  # fmt: skip


Reader = Callable[[Served], Read]
OPENAI: dict[str, tuple[Reader, int]] = {
    "chat": (read_chat, 0),
    "whole chat": (read_whole_chat, 0),
    "raw chat": (read_raw_chat, 0),
    "responses": (read_responses, 1),
    "accumulated responses": (accumulated_responses, 1),
    "whole responses": (read_whole_responses, 1),
}
ANTHROPIC: dict[str, tuple[Reader, int]] = {
    "messages": (read_messages, 2),
    "beta messages": (read_beta_messages, 2),
    "whole messages": (read_whole_messages, 2),
}
# The endings as Chat Completions, Responses and Anthropic Messages say them.
ENDINGS = {
    "text": ("stop", "completed", "end_turn"),
    "parallel calls": ("tool_calls", "completed", "tool_use"),
    "pieces in turn": ("tool_calls", "completed", "tool_use"),
    "refusal": ("stop", "completed", "refusal"),
    "length": ("length", "max_output_tokens", "max_tokens"),
    "filter": ("content_filter", "content_filter", "refusal"),
    "reasoning": ("stop", "completed", "end_turn"),
    "empty": ("stop", "completed", "end_turn"),
}


def expected(name: str, form: int) -> Read:
    parts = REPLIES[name]
    text = "".join(part.text for part in parts if isinstance(part, TextDelta))
    calls = tuple(part.call for part in parts if isinstance(part, ToolCallPart))
    ending = ENDINGS[name][form]
    if name == "refusal" and form < 2:  # OpenAI's formats have a field for it
        return Read("", text, calls, ending, TOKENS)
    return Read(text, "", calls, ending, TOKENS)


STREAMED = ("chat", "responses", "accumulated responses", "messages")
# An event that its empty line does not end is lost, as the standard says: for Responses, the one
# that ends the reply. And Anthropic's SDK takes a byte order mark for a part of the first line.
LOSSES = {
    ("responses", "no-final-blank"), ("accumulated responses", "no-final-blank"),
    ("messages", "bom"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("reader", "framing"),
    [
        *(
            (one, framing)
            for one in STREAMED
            for framing in get_args(FramingName)
            if (one, framing) not in LOSSES
        ),
        *((one, "lf") for one in (*OPENAI, *ANTHROPIC) if one not in STREAMED),
    ],
)
@pytest.mark.parametrize("name", REPLIES)
def test_an_sdk_reads_back_what_was_written(reader: str, name: str, framing: FramingName) -> None:
    read, form = (OPENAI | ANTHROPIC)[reader]
    served = Served(REPLIES[name], WireOptions(framing=framing))
    assert read(served) == expected(name, form)


@pytest.mark.parametrize("name", REPLIES)
def test_the_helper_of_openai_reads_a_whole_chat_and_raises_for_one_that_is_cut(name: str) -> None:
    openai, served = importlib.import_module("openai"), Served(REPLIES[name])
    raised = {
        "length": openai.LengthFinishReasonError,
        "filter": openai.ContentFilterFinishReasonError,
    }
    if name not in raised:
        assert accumulated_chat(served) == expected(name, 0)
        return
    with pytest.raises(raised[name]):
        accumulated_chat(served)


def test_an_sdk_loses_a_last_event_that_no_empty_line_ends() -> None:
    served = Served(REPLIES["text"], WireOptions(framing="no-final-blank"))
    events = list(openai_client(served).responses.create(model="m", input="hi", stream=True))
    assert events[-1].type == "response.output_item.done"


def test_a_byte_order_mark_costs_the_sdk_of_anthropic_the_first_event() -> None:
    client = anthropic_client(Served(REPLIES["text"], WireOptions(framing="bom")))
    stream = client.messages.create(model="m", max_tokens=9, messages=USER, stream=True)
    assert next(iter(stream)).type == "content_block_start"


def test_reasoning_comes_in_blocks_of_its_own() -> None:
    served = Served(REPLIES["reasoning"])
    response = openai_client(served).responses.create(model="m", input="hi")
    assert response.output[0].summary[0].text == "Hm"
    message = anthropic_client(served).messages.create(model="m", max_tokens=9, messages=USER)
    assert message.content[0].thinking == "Hm"
    client = openai_client(served)
    chat = client.chat.completions.create(model="m", messages=USER)
    assert chat.choices[0].message.reasoning_content == "Hm"


def test_a_reply_goes_back_as_the_message_that_it_was() -> None:
    """The next request has the SDK's own objects, as agents send them."""
    served = Served([TextDelta("So"), ToolCallPart(CALL), ToolCallPart(OTHER), ended("tool-calls")])
    said = AssistantMessage("So", (CALL, OTHER))
    results = (ToolMessage("call-1", "1"), ToolMessage("call-2", "2"))
    chat = openai_client(served).chat.completions
    message = chat.create(model="m", messages=USER).choices[0].message
    tools = [{"role": "tool", "tool_call_id": f"call-{n}", "content": str(n)} for n in (1, 2)]
    chat.create(model="m", messages=[*USER, message, *tools])
    responses = openai_client(served).responses
    output = responses.create(model="m", input="hi").output
    items = [{"type": "function_call_output", "call_id": f"call-{n}", "output": str(n)}
             for n in (1, 2)]  # fmt: skip
    responses.create(model="m", input=[*USER, *output, *items])
    messages = anthropic_client(served).messages
    content = messages.create(model="m", max_tokens=9, messages=USER).content
    blocks = [{"type": "tool_result", "tool_use_id": f"call-{n}", "content": str(n)}
              for n in (1, 2)]  # fmt: skip
    both = [{"role": "assistant", "content": content}, {"role": "user", "content": blocks}]
    messages.create(model="m", max_tokens=9, messages=[*USER, *both])
    read = [one.messages for one in served.requests[1::2]]
    assert read == [(UserMessage("hi"), said, *results)] * 3
