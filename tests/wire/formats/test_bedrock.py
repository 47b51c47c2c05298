"""Bedrock's Converse: replies are written as Amazon does."""

import json
import struct
from binascii import crc32
from collections.abc import Iterator
from typing import Any

import pytest
from wirereading import CALL, CALLS, OTHER, REPLY, data, streamed, whole

from simloop.messages import (
    Fault,
    Finish,
    FinishReason,
    Part,
    StreamError,
    TextDelta,
    ToolCall,
    ToolCallPart,
)
from simloop.wire.formats.bedrock import Bedrock
from simloop.wire.formats.wire_format import WireEvent
from simloop.world.http import HttpRequest

BEDROCK = Bedrock()


def messages(stream: bytes) -> Iterator[tuple[dict[str, str], bytes]]:
    """Yield the headers and the payload of each message, and check its lengths and checksums."""
    while stream:
        size, head, checksum = struct.unpack(">III", stream[:12])
        message, stream = stream[:size], stream[size:]
        assert crc32(message[:8]) == checksum
        assert crc32(message[:-4]) == int.from_bytes(message[-4:])
        headers, at = {}, 12
        while at < 12 + head:
            name_end = at + 1 + message[at]
            assert message[name_end] == 7  # a string
            value_at = name_end + 3
            value_end = value_at + int.from_bytes(message[name_end + 1 : value_at])
            name = message[at + 1 : name_end].decode()
            headers[name], at = message[value_at:value_end].decode(), value_end
        yield headers, message[12 + head : -4]


def test_a_stream_has_the_events_of_the_provider() -> None:
    events = streamed(BEDROCK, REPLY)
    use = [{"toolUse": {"toolUseId": one.id, "name": "look"}} for one in (CALL, OTHER)]
    assert list(zip([one.name for one in events], data(events), strict=True)) == [
        ("messageStart", {"role": "assistant"}),
        delta(0, {"reasoningContent": {"text": "Hm"}}),
        delta(0, {"reasoningContent": {"signature": "signature-3"}}),
        stop(0),
        delta(1, {"text": "So"}),
        stop(1),
        ("contentBlockStart", {"start": use[0], "contentBlockIndex": 2}),
        delta(2, {"toolUse": {"input": '{"a'}}),
        delta(2, {"toolUse": {"input": 't":1}'}}),
        stop(2),
        ("contentBlockStart", {"start": use[1], "contentBlockIndex": 3}),
        delta(3, {"toolUse": {"input": '{"at":2}'}}),
        stop(3),
        ("messageStop", {"stopReason": "tool_use"}),
        ("metadata", {"usage": TOKENS, "metrics": {"latencyMs": 1}}),
    ]


TOKENS = {"inputTokens": 11, "outputTokens": 7, "totalTokens": 18}


def delta(index: int, grown: Any) -> tuple[str, Any]:
    return "contentBlockDelta", {"delta": grown, "contentBlockIndex": index}


def stop(index: int) -> tuple[str, Any]:
    return "contentBlockStop", {"contentBlockIndex": index}


def test_a_whole_reply_has_its_blocks_in_order() -> None:
    thought = {"reasoningText": {"text": "Hm", "signature": "signature-3"}}
    uses = [
        {"toolUse": {"toolUseId": one.id, "name": "look", "input": {"at": n}}}
        for n, one in enumerate((CALL, OTHER), 1)
    ]
    content = [{"reasoningContent": thought}, {"text": "So"}, *uses]
    assert whole(BEDROCK, REPLY) == {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use", "usage": TOKENS, "metrics": {"latencyMs": 1},
    }  # fmt: skip


def test_arguments_that_are_no_json_stand_as_a_text_in_a_whole_reply() -> None:
    broken: list[Part] = [ToolCallPart(ToolCall("c", "look", "{oops")), CALLS]
    (block,) = whole(BEDROCK, broken)["output"]["message"]["content"]
    assert block["toolUse"]["input"] == "{oops"


def test_events_go_out_as_binary_messages_with_checksums() -> None:
    events = [WireEvent("messageStart", '{"role":"é"}'), WireEvent("throttlingException", "{}")]
    framed = list(messages(b"".join(BEDROCK.framed(events))))
    assert framed == [
        ({":event-type": "messageStart", ":content-type": "application/json",
          ":message-type": "event"}, '{"role":"é"}'.encode()),
        ({":exception-type": "throttlingException", ":content-type": "application/json",
          ":message-type": "exception"}, b"{}"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault("busy", code="overloaded_error"), "serviceUnavailableException"),
        (Fault("busy", status=429), "throttlingException"),
        (Fault("busy", status=400), "validationException"),
        (Fault("busy", status=424), "modelStreamErrorException"),
        (Fault("busy", status=418), "validationException"),
        (Fault("busy", code="weird"), "internalServerException"),
        (Fault("busy", code="ModelStreamErrorException"), "modelStreamErrorException"),
    ],
)
def test_an_error_in_a_stream_is_an_exception_of_the_provider(fault: Fault, kind: str) -> None:
    last = streamed(BEDROCK, [TextDelta("x"), StreamError(fault)])[-1]
    assert (last.name, json.loads(last.data)) == (kind, {"message": "busy"})


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ("stop", "end_turn"), ("tool-calls", "tool_use"), ("length", "max_tokens"),
        ("content-filter", "content_filtered"), ("guardrail_intervened", "guardrail_intervened"),
        ("malformed_tool_use", "malformed_tool_use"), ("weird_reason", "weird_reason"),
    ],
)  # fmt: skip
def test_each_finish_word_goes_out_as_the_format_says_it(raw: str, word: str) -> None:
    parts: list[Part] = [TextDelta("x"), Finish(FinishReason.read(raw), raw)]
    assert whole(BEDROCK, parts)["stopReason"] == word


def test_the_model_in_the_path_is_read_without_its_escapes() -> None:
    path = "/model/us.anthropic.claude%3A0/converse-stream"
    body = b'{"messages": [{"role": "user", "content": [{"text": "hi"}]}]}'
    request = HttpRequest("POST", f"https://host{path}", (), body)
    assert BEDROCK.answers(request)
    read = BEDROCK.read(request)
    assert (read.model, read.streams) == ("us.anthropic.claude:0", True)
