"""A recorded reply gives back what its provider said: as one body, and as a stream."""

import contextlib
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wirereading import FORMATS, data, streamed, whole

from simloop.messages import (
    AssistantMessage,
    Fault,
    Finish,
    FinishReason,
    Part,
    ReasoningDelta,
    StreamError,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallPart,
    Usage,
)
from simloop.wire.formats.replies import WireFormat
from simloop.wire.formats.wire_format import WireReply, WrongRequest

EVENTS = {name: form for name, form in FORMATS.items() if name != "bedrock"}
"""The formats whose streams are text."""
every_format = pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
every_stream = pytest.mark.parametrize("form", EVENTS.values(), ids=EVENTS)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
ARGUMENTS = st.dictionaries(TEXT, st.integers(-9, 9) | TEXT | st.none(), max_size=2)
WORDS = {
    "openai-chat": {"stop": "stop", "tool-calls": "tool_calls", "length": "length",
                    "content-filter": "content_filter"},
    "anthropic-messages": {"stop": "end_turn", "tool-calls": "tool_use", "length": "max_tokens",
                           "content-filter": "refusal"},
    "bedrock": {"stop": "end_turn", "tool-calls": "tool_use", "length": "max_tokens",
                "content-filter": "content_filtered"},
}  # fmt: skip


class Said:
    """A reply as its parts, and as what has to come back of it."""

    def __init__(self, message: AssistantMessage, raw: str, usage: Usage | None) -> None:
        self.message, self.raw, self.usage = message, raw, usage

    @property
    def parts(self) -> list[Part]:
        said: list[Part] = []
        if self.message.reasoning:
            said.append(ReasoningDelta(self.message.reasoning))
        half = len(self.message.text) // 2
        texts = (self.message.text[:half], self.message.text[half:])
        said += [TextDelta(each) for each in texts if each]
        for call in self.message.calls:
            said += [ToolCallDelta(call.id, call.name, call.arguments[:3]), ToolCallPart(call)]
        return [*said, Finish(FinishReason.read(self.raw), self.raw, self.usage)]

    def __repr__(self) -> str:
        return f"Said({self.message}, {self.raw}, {self.usage})"


@st.composite
def replies(draw: st.DrawFn) -> Said:
    names = draw(st.lists(st.sampled_from(["look", "add"]), max_size=3))
    calls = tuple(
        ToolCall(f"call-{number}", name, json.dumps(draw(ARGUMENTS), separators=(",", ":")))
        for number, name in enumerate(names, 1)
    )
    raw = draw(st.sampled_from(["tool-calls" if calls else "stop", "length", "content-filter"]))
    usage = draw(st.none() | st.builds(Usage, st.integers(0, 9), st.integers(0, 9)))
    return Said(AssistantMessage(draw(TEXT), calls, draw(TEXT)), raw, usage)


def plain(reply: WireReply) -> tuple[str, str, list[tuple[str, str, Any]], FinishReason]:
    message = reply.message
    calls = [(each.id, each.name, json.loads(each.arguments)) for each in message.calls]
    return message.text, message.reasoning, calls, FinishReason.read(reply.finish)


def expected(said: Said) -> tuple[str, str, list[tuple[str, str, Any]], FinishReason]:
    return plain(WireReply(said.message, said.raw, None))


@every_format
@given(said=replies())
def test_a_whole_reply_comes_back(form: WireFormat, said: Said) -> None:
    reply = form.reply(whole(form, said.parts))
    assert plain(reply) == expected(said)
    assert said.usage is None or reply.usage == said.usage


@every_stream
@given(said=replies())
def test_a_stream_comes_back(form: WireFormat, said: Said) -> None:
    reply = form.reply(form.joined(events_of(form, said.parts)))
    assert plain(reply) == expected(said)
    assert said.usage is None or reply.usage == said.usage


def events_of(form: WireFormat, parts: Sequence[Part]) -> list[Any]:
    return [each for each in data(streamed(form, parts)) if isinstance(each, dict)]


@every_stream
@given(said=replies(), cut=st.floats(0, 1))
def test_a_stream_that_is_cut_gives_its_beginning(form: WireFormat, said: Said, cut: float) -> None:
    events = events_of(form, said.parts)
    kept = events[: int(cut * len(events))]
    reply = form.reply(form.joined(kept))
    assert said.message.text.startswith(reply.message.text)
    assert said.message.reasoning.startswith(reply.message.reasoning)
    names = [each.name for each in said.message.calls]
    assert names[: len(reply.message.calls)] == [each.name for each in reply.message.calls]
    if not any(_ends(form, each) for each in kept):
        assert reply.finish == ""


def _ends(form: WireFormat, event: dict[str, Any]) -> bool:
    match form.name:
        case "openai-chat":
            return bool(event["choices"] and event["choices"][0]["finish_reason"])
        case "openai-responses":
            return event["type"] in ("response.completed", "response.incomplete")
        case "anthropic-messages":
            return bool(event["type"] == "message_delta")
        case _:
            candidates = event.get("candidates", [{}])
            return "promptFeedback" in event or "finishReason" in candidates[0]


@every_stream
@pytest.mark.parametrize("begun", [[], [TextDelta("Hel")]], ids=["at once", "in the middle"])
def test_an_error_in_a_stream_comes_back_with_its_words(
    form: WireFormat, begun: list[Part]
) -> None:
    failure = StreamError(Fault("Overloaded, sorry.", code="overloaded_error"))
    joined = form.joined(events_of(form, [*begun, failure]))
    assert "Overloaded, sorry." in json.dumps(joined["error"])
    assert form.reply(joined).message.text == ("Hel" if begun else "")


@pytest.mark.parametrize("name", WORDS)
def test_a_finish_comes_back_in_the_words_of_its_provider(name: str) -> None:
    for raw, word in WORDS[name].items():
        parts: list[Part] = [TextDelta("x"), Finish(FinishReason.read(raw), raw)]
        assert FORMATS[name].reply(whole(FORMATS[name], parts)).finish == word


ODD: dict[str, tuple[str, Any, tuple[str, str, int]]] = {
    "an empty choice": ("openai-chat", {"choices": []}, ("", "", 0)),
    "a text of null": (
        "openai-chat",
        {"choices": [{"message": {"content": None}, "finish_reason": "stop"}]},
        ("", "stop", 0),
    ),
    "a refusal": (
        "openai-chat",
        {"choices": [{"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"}]},
        ("No.", "stop", 0),
    ),
    "a blocked prompt": (
        "gemini", {"promptFeedback": {"blockReason": "SAFETY"}}, ("", "SAFETY", 0),
    ),
    "the end of a thought's limit": (
        "gemini",
        {"candidates": [{"content": {}, "finishReason": "MAX_TOKENS"}]},
        ("", "MAX_TOKENS", 0),
    ),
    "a call that ends with STOP": (
        "gemini",
        {"candidates": [{"finishReason": "STOP", "content": {"parts": [
            {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"},
        ]}}]},
        ("", "tool-calls", 1),
    ),
    "a reply that ran out": (
        "openai-responses",
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"},
         "output": [{"type": "reasoning", "summary": []}]},
        ("", "length", 0),
    ),
    "a pause for the provider's tool": (
        "anthropic-messages",
        {"content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}],
         "stop_reason": "pause_turn"},
        ("", "pause_turn", 0),
    ),
    "hidden thoughts": (
        "anthropic-messages",
        {"content": [{"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": "Hi"}],
         "stop_reason": "stop_sequence"},
        ("Hi", "stop_sequence", 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ODD)
def test_an_odd_reply_is_read_as_its_provider_means_it(case: str) -> None:
    name, body, (text, finish, calls) = ODD[case]
    reply = FORMATS[name].reply(body)
    assert (reply.message.text, reply.finish, len(reply.message.calls)) == (text, finish, calls)


KEYS = st.sampled_from(
    ["choices", "message", "delta", "content", "type", "text", "index", "error", "output", "item",
     "response", "candidates", "parts", "usage", "id", "tool_calls", "function", "content_block",
     "output_index", "functionCall", "stop_reason", "finish_reason"]
)  # fmt: skip
WORD = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "message_delta", "error",
     "response.output_item.added", "response.output_text.delta", "response.completed", "text",
     "tool_use", "function_call", "reasoning", "message", "text_delta", "stop", ""]
)  # fmt: skip
BROKEN = st.recursive(
    st.none() | st.booleans() | st.integers() | WORD,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@every_format
@given(events=st.lists(st.dictionaries(KEYS, BROKEN, max_size=4), min_size=1, max_size=3))
def test_any_json_is_a_reply_or_is_refused(form: WireFormat, events: list[Any]) -> None:
    for make in (lambda: form.joined(events), lambda: events[0]):
        with contextlib.suppress(WrongRequest):
            assert isinstance(form.reply(make()), WireReply)
