"""All formats carry the same conversations and the same replies."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from wirereading import (
    BODIES,
    FORMATS,
    STAMP,
    STREAMS,
    asked,
    data,
    read_events,
    sent,
    streamed,
    whole,
    wire_formats,
)

from simloop.messages import (
    AssistantMessage,
    Fault,
    Finish,
    FinishReason,
    HeadersSent,
    Message,
    Part,
    ReasoningDelta,
    StreamError,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallPart,
    ToolMessage,
    Usage,
    UserMessage,
    json_value,
)
from simloop.wire.formats.replies import WireFormat
from simloop.wire.formats.wire_format import WrongRequest
from simloop.world.http import HttpRequest
from simloop.world.tools import canonical_json
from simloop.world.wire_options import FramingName, WireOptions

NAMED = ("openai-responses", "anthropic-messages")
"""The formats whose events have the name that is the type in their data."""
TEXT_ARGUMENTS = ("openai-chat", "openai-responses")
"""The formats whose whole replies have the arguments of a call as a text."""
every_format = pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)

# Text as a trace holds it: no lone surrogates. The formats must carry all else.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAME = st.text("abcdefgh_", min_size=1, max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(TEXT, JSON, max_size=2).map(lambda one: canonical_json(one).decode())


def numbered(drawn: Sequence[tuple[str, str]], first: int) -> list[ToolCall]:
    return [ToolCall(f"call-{first + n}", *one) for n, one in enumerate(drawn)]


@st.composite
def replies(draw: st.DrawFn) -> list[Part]:
    """Draw the parts of a reply: prose and calls in any order, with or without pieces."""
    parts: list[Part] = []
    for turn in range(draw(st.integers(0, 3))):
        parts += map(ReasoningDelta, draw(st.lists(TEXT, max_size=2)))
        parts += map(TextDelta, draw(st.lists(TEXT, max_size=3)))
        parts += draw(calls_in_pieces(turn * 10))
    if draw(st.booleans()):
        parts.append(ToolCallDelta("half", draw(NAME), draw(TEXT.filter(bool))))
    usage = draw(st.none() | st.builds(Usage, st.integers(0, 9), st.integers(0, 9)))
    raw = draw(st.sampled_from(["stop", "tool-calls", "length", "content-filter", "odd"]))
    return [*parts, Finish(FinishReason.read(raw), raw, usage)]


@st.composite
def calls_in_pieces(draw: st.DrawFn, first: int) -> list[Part]:
    calls = numbered(draw(st.lists(st.tuples(NAME, TEXT | ARGUMENTS), max_size=2)), first)
    pieces: list[list[Part]] = []
    for call in calls:
        at = draw(st.lists(st.integers(0, len(call.arguments)), max_size=3).map(sorted))
        cuts = zip([0, *at], [*at, draw(st.sampled_from([0, len(call.arguments)]))], strict=True)
        texts = [call.arguments[start:end] for start, end in cuts] if at else []
        pieces.append([ToolCallDelta(call.id, call.name, text) for text in texts])
    if draw(st.booleans()):
        turns = [one for turn in zip_longest(*pieces) for one in turn if one is not None]
        return [*turns, *map(ToolCallPart, calls)]
    return [
        part for call, own in zip(calls, pieces, strict=True) for part in (*own, ToolCallPart(call))
    ]


def called(parts: Sequence[Part]) -> dict[str, tuple[str, str]]:
    """Return each call by its id: the last arguments that are known of it are whole."""
    calls: dict[str, tuple[str, str]] = {}
    for part in parts:
        if isinstance(part, ToolCallDelta):
            calls[part.call_id] = part.name, part.arguments
        if isinstance(part, ToolCallPart):
            calls[part.call.id] = part.call.name, part.call.arguments
    return calls


def whole_objects(parts: Sequence[Part]) -> list[str]:
    """Return the ids of the calls whose arguments are whole objects, in the order of their end."""
    whole = [part.call for part in parts if isinstance(part, ToolCallPart)]
    return [one.id for one in whole if isinstance(json_value(one.arguments or "{}"), dict)]


def texts(parts: Sequence[Part], kind: type[TextDelta | ReasoningDelta]) -> str:
    return "".join(part.text for part in parts if isinstance(part, kind))


Turn = tuple[str, str, list[ToolCall], list[str]]
"""What the user says, what the model says, its calls, and their results."""


@st.composite
def conversations(draw: st.DrawFn) -> list[Turn]:
    said, made = TEXT.filter(str.strip), st.lists(st.tuples(NAME, ARGUMENTS), max_size=2)
    turns: list[Turn] = []
    for number in range(draw(st.integers(1, 3))):
        calls = numbered(draw(made), number * 10)
        turns.append((draw(said), draw(said), calls, [draw(said) for _ in calls]))
    return turns


def messages_of(turns: Sequence[Turn]) -> list[Message]:
    """Return a conversation as each format must read it; the model answers results by `ok`."""
    found: list[Message] = []
    for asked_for, said, calls, results in turns:
        found += [UserMessage(asked_for), AssistantMessage(said, tuple(calls))]
        found += [ToolMessage(*each) for each in zip([c.id for c in calls], results, strict=True)]
        found += [AssistantMessage("ok")] if calls else []
    return [*found, UserMessage("Go on.")]


def in_chat(message: Message) -> Iterator[Any]:
    if isinstance(message, ToolMessage):
        yield {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
    elif isinstance(message, AssistantMessage) and message.calls:
        functions = [{"name": c.name, "arguments": c.arguments} for c in message.calls]
        calls = zip([c.id for c in message.calls], functions, strict=True)
        made = [{"id": one, "type": "function", "function": each} for one, each in calls]
        yield {"role": "assistant", "content": message.text, "tool_calls": made}
    else:
        yield {"role": role_of(message), "content": message.text}


def in_responses(message: Message) -> Iterator[Any]:
    if isinstance(message, ToolMessage):
        yield {"type": "function_call_output", "call_id": message.call_id, "output": message.text}
        return
    yield {"role": role_of(message), "content": message.text}
    for each in getattr(message, "calls", ()):
        named = {"call_id": each.id, "name": each.name, "arguments": each.arguments}
        yield {"type": "function_call", **named}


Block = Callable[..., dict[str, Any]]


def in_blocks(messages: Sequence[Message], text: Block, call: Block, result: Block) -> list[Any]:
    """Return the turns of a conversation in blocks; results are the user's."""
    turns: list[tuple[str, list[Any]]] = []
    for one in messages:
        blocks = [result(one)] if isinstance(one, ToolMessage) else [text(one.text)]
        blocks += [call(each, json.loads(each.arguments)) for each in getattr(one, "calls", ())]
        if turns and isinstance(one, ToolMessage) and turns[-1][0] == "user":
            turns[-1][1].extend(blocks)
        else:
            turns.append((role_of(one), blocks))
    return turns


def role_of(message: Message) -> str:
    return "assistant" if isinstance(message, AssistantMessage) else "user"


def body_in(name: str, messages: Sequence[Message]) -> dict[str, Any]:
    """Return the body of a request with that conversation."""
    names = {each.id: each.name for one in messages for each in getattr(one, "calls", ())}
    match name:
        case "openai-chat":
            return {"model": "m", "messages": [x for one in messages for x in in_chat(one)]}
        case "openai-responses":
            return {"model": "m", "input": [x for one in messages for x in in_responses(one)]}
        case "anthropic-messages":
            turns = in_blocks(
                messages,
                lambda text: {"type": "text", "text": text},
                lambda c, value: {"type": "tool_use", "id": c.id, "name": c.name, "input": value},
                lambda r: {"type": "tool_result", "tool_use_id": r.call_id, "content": r.text},
            )
            said = [{"role": role, "content": blocks} for role, blocks in turns]
            return {"model": "m", "max_tokens": 9, "messages": said}
        case "gemini":
            turns = in_blocks(
                messages,
                lambda text: {"text": text},
                lambda c, value: {"functionCall": {"id": c.id, "name": c.name, "args": value}},
                lambda r: {"functionResponse": {
                    "id": r.call_id, "name": names[r.call_id], "response": {"output": r.text}}},
            )  # fmt: skip
            roles = {"assistant": "model", "user": "user"}
            return {"contents": [{"role": roles[role], "parts": parts} for role, parts in turns]}
        case _:
            turns = in_blocks(
                messages,
                lambda text: {"text": text},
                lambda c, value: {"toolUse": {"toolUseId": c.id, "name": c.name, "input": value}},
                lambda r: {"toolResult": {"toolUseId": r.call_id, "content": [{"text": r.text}]}},
            )
            said = [{"role": role, "content": blocks} for role, blocks in turns]
            return {"messages": said, "toolConfig": {}}


@given(turns=conversations())
def test_one_conversation_gives_equal_messages_in_all_formats(turns: list[Turn]) -> None:
    messages = messages_of(turns)
    for name, form in FORMATS.items():
        assert list(form.read(sent(body_in(name, messages), name)).messages) == messages, name


@every_format
@given(parts=replies())
def test_a_stream_carries_each_part_of_a_reply(form: WireFormat, parts: list[Part]) -> None:
    heard = STREAMS[form.name](streamed(form, parts))
    assert (heard.text, heard.reasoning) == (texts(parts, TextDelta), texts(parts, ReasoningDelta))
    calls = called(parts)
    if form.name == "gemini":  # it can send whole objects alone
        calls = {one: (calls[one][0], calls[one][1] or "{}") for one in whole_objects(parts)}
    assert {one: (name, given) for one, name, given in heard.in_order()} == calls
    assert [one for one, _, _ in heard.in_order()] == list(calls)
    if form.name in NAMED:
        events = streamed(form, parts)
        assert [event.name for event in events] == [one["type"] for one in data(events)]


@every_format
@given(parts=replies())
def test_a_whole_reply_says_what_the_stream_says(form: WireFormat, parts: list[Part]) -> None:
    stream = STREAMS[form.name](streamed(form, parts))
    body = BODIES[form.name](whole(form, parts))
    if form.name not in TEXT_ARGUMENTS:  # arguments are values there: see their own tests
        body.calls = stream.calls = {}
    assert body == stream


@given(parts=replies(), framing=st.sampled_from(get_args(FramingName)))
def test_a_stream_comes_through_every_framing(parts: list[Part], framing: FramingName) -> None:
    form = wire_formats(WireOptions(framing=framing))["openai-responses"]
    events = streamed(form, parts)
    pieces = [piece for one in events for piece in form.framed([one])]
    assert read_events(b"".join(pieces)) == events


@every_format
def test_a_reply_without_a_finish_ends_no_stream(form: WireFormat) -> None:
    parts: list[Part] = [TextDelta("Hel")]
    silent: list[Part] = [TextDelta("Hel"), Finish(FinishReason.INTERRUPTED)]
    events = streamed(form, parts)
    assert streamed(form, silent) == events
    heard = STREAMS[form.name](events)
    assert (heard.text, heard.ending) == ("Hel", None)


@every_format
def test_headers_alone_are_no_part_of_a_stream(form: WireFormat) -> None:
    assert list(form.encoder(asked(), STAMP).feed(HeadersSent())) == []


@every_format
def test_text_with_a_lone_surrogate_goes_out_without_it(form: WireFormat) -> None:
    heard = STREAMS[form.name](streamed(form, [TextDelta("a\ud800b")]))
    assert heard.text == "a\ufffdb"


@every_format
def test_calls_with_the_same_id_stay_two_calls(form: WireFormat) -> None:
    calls = [ToolCall("one", "f", '{"a":1}'), ToolCall("one", "f", '{"b":2}')]
    halves = [ToolCallDelta("one", "f", call.arguments[:3]) for call in calls]
    apart: list[Part] = [halves[0], ToolCallPart(calls[0]), halves[1], ToolCallPart(calls[1])]
    in_turn: list[Part] = [*halves, *map(ToolCallPart, calls)]
    heard = STREAMS[form.name](streamed(form, [*apart, Finish(FinishReason.STOP, "stop")]))
    assert [given for _, _, given in heard.in_order()] == [call.arguments for call in calls]
    mixed = STREAMS[form.name](streamed(form, in_turn))
    assert {call.arguments for call in calls} <= {given for _, _, given in mixed.in_order()}


@every_format
def test_a_reply_tells_its_type_and_its_number(form: WireFormat) -> None:
    stream = "text/event-stream; charset=utf-8"
    if form.name == "bedrock":
        stream = "application/vnd.amazon.eventstream"
    for streams, kind in ((True, stream), (False, "application/json")):
        headers = dict(form.headers(asked(streams=streams), STAMP))
        assert headers.pop("content-type") == kind
        assert set(headers.values()) == ({"req-3"} if form.name != "gemini" else set())


def test_each_format_answers_paths_of_its_own() -> None:
    for name, path in PATHS.items():
        sent_to = path.replace("MODEL", "a%3A0")
        request = HttpRequest("POST", f"https://host/v1{sent_to}?beta=true", (), b"")
        assert [each for each, one in FORMATS.items() if one.answers(request)] == [name]
        assert FORMATS[name].path == path
        assert not FORMATS[name].answers(structs.replace(request, method="GET"))


PATHS = {
    "openai-chat": "/chat/completions",
    "openai-responses": "/responses",
    "anthropic-messages": "/messages",
    "gemini": "/models/MODEL:generateContent",
    "bedrock": "/model/MODEL/converse",
}


@every_format
def test_an_error_is_the_last_event_and_the_only_one_without_output(form: WireFormat) -> None:
    failure = StreamError(Fault("Overloaded", code="overloaded_error"))
    events = streamed(form, [TextDelta("x"), failure])
    assert "Overloaded" in events[-1].data
    assert STREAMS[form.name](events[:-1]).text == "x"
    begun = 2 if form.name == "openai-responses" else 0  # its response begins with the headers
    assert "Overloaded" in streamed(form, [failure])[begun].data


def test_options_reach_each_format() -> None:
    options = WireOptions(rate_limit_requests=5)
    for name, form in wire_formats(options).items():
        if name in ("gemini", "bedrock"):  # they report no limits
            continue
        headers = dict(form.headers(asked(), STAMP))
        assert "5" in headers.values()


@every_format
@given(
    body=st.dictionaries(
        st.sampled_from(["model", "max_tokens", "messages", "input", "system", "tools", "stream",
                         "instructions", "stream_options", "n", "contents", "toolConfig",
                         "systemInstruction", "previous_response_id", "conversation"]),
        st.recursive(
            JSON,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                st.sampled_from(["role", "content", "type", "text", "tool_calls", "function",
                                 "tool_call_id", "call_id", "output", "id", "input", "name",
                                 "parts", "functionCall", "functionResponse", "args", "response",
                                 "toolUse", "toolUseId", "toolResult", "json", "status"]),
                inner | st.sampled_from(["user", "assistant", "tool", "system", "tool_use", "model",
                                         "tool_result", "function_call", "text"]), max_size=4),
            max_leaves=12,
        ),
    )
)  # fmt: skip
def test_any_body_is_read_or_refused(form: WireFormat, body: dict[str, Any]) -> None:
    try:
        request = form.read(sent(body, form.name))
    except WrongRequest as wrong:
        reply = form.refuse(wrong, STAMP)
        assert reply.status in ((400, 404) if form.name == "openai-responses" else (400,))
        refused = json.loads(reply.body.data or b"")
        assert refused.get("error", refused)["message"]
    else:
        assert request.messages
        msgspec.json.encode(request.messages)  # a trace can hold it
