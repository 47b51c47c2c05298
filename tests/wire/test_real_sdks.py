"""The real SDKs read back what was written, and raise the errors that the provider sends."""

import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from wirereading import CREATED_S, ahead, wire_formats

from simloop import Reply, Result, Scenario, run
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
    ToolMessage,
    Usage,
    UserMessage,
)
from simloop.recordings.formats import read_recording
from simloop.recordings.scenarios import scenario_of
from simloop.wire.formats.wire_format import Stamp, WireRequest, WrongRequest
from simloop.world.http import HttpRequest
from simloop.world.wire_options import FramingName, WireOptions

pytestmark = pytest.mark.sdks


def module_of(sdk: Any) -> Any:
    """Return the HTTP client that an SDK is built on."""
    newer = {"openai": 3, "anthropic": 2}[sdk.__name__]
    return importlib.import_module(
        "httpx2" if int(sdk.__version__.split(".")[0]) >= newer else "httpx"
    )


class Served:
    """What the transport answers, and the requests that it has read."""

    def __init__(self, parts: Sequence[Part], options: WireOptions | None = None) -> None:
        self.parts = parts
        self.options = options or WireOptions()
        self.requests: list[WireRequest] = []

    def answer(self, path: str, body: bytes) -> tuple[int, Any, list[bytes]]:
        """Return status, headers and the pieces of the body."""
        sent = HttpRequest("POST", path, (), body)
        form = next(one for one in wire_formats(self.options).values() if one.answers(sent))
        stamp = Stamp(len(self.requests) + 1, CREATED_S)
        try:
            request = form.read(sent)
        except WrongRequest as wrong:
            refused = form.refuse(wrong, stamp)
            return refused.status, refused.headers, [refused.body.data or b""]
        self.requests.append(request)
        first = self.parts[0] if self.parts else None
        if isinstance(first, StreamError) and (
            first.fault.status or first.body or not request.streams
        ):
            failed = form.error(first, stamp)
            return failed.status, failed.headers, [failed.body.data or b""]
        writer = form.encoder(request, stamp)
        pieces = [*form.framed(writer.begin(ahead(self.parts)))]
        for part in self.parts:
            pieces += form.framed(writer.feed(part))
        body_pieces = pieces if request.streams else [writer.whole()]
        return 200, form.headers(request, stamp), body_pieces


def http_client(sdk: Any, served: Served) -> Any:
    """Return a client for the SDK's `http_client` that `served` answers."""
    module = module_of(sdk)

    class Pieces(module.SyncByteStream):  # type: ignore[misc, name-defined]
        def __init__(self, pieces: list[bytes]) -> None:
            self.pieces = pieces

        def __iter__(self) -> Iterator[bytes]:
            yield from self.pieces

    class Transport(module.BaseTransport):  # type: ignore[misc, name-defined]
        def handle_request(self, request: Any) -> Any:
            status, headers, pieces = served.answer(request.url.path, request.read())
            return module.Response(status, headers=list(headers), stream=Pieces(pieces))

    return module.Client(transport=Transport())


def openai_client(served: Served) -> Any:
    """Return an OpenAI client that `served` answers."""
    sdk = importlib.import_module("openai")
    return sdk.OpenAI(api_key="none", max_retries=0, http_client=http_client(sdk, served))


def anthropic_client(served: Served) -> Any:
    """Return an Anthropic client that `served` answers."""
    sdk = importlib.import_module("anthropic")
    return sdk.Anthropic(api_key="none", max_retries=0, http_client=http_client(sdk, served))


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
    "responses": (read_responses, 1),
    "whole responses": (read_whole_responses, 1),
}
ANTHROPIC: dict[str, tuple[Reader, int]] = {
    "messages": (read_messages, 2),
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


STREAMED = ("chat", "responses", "messages")


@pytest.mark.parametrize(
    ("reader", "framing"),
    [
        *((one, framing) for one in STREAMED for framing in get_args(FramingName)),
        *((one, "lf") for one in (*OPENAI, *ANTHROPIC) if one not in STREAMED),
    ],
)
def test_an_sdk_reads_back_what_was_written(reader: str, framing: FramingName) -> None:
    read, form = (OPENAI | ANTHROPIC)[reader]
    for name, parts in REPLIES.items():
        assert read(Served(parts, WireOptions(framing=framing))) == expected(name, form), name


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


# ---------------------------------------------------------------- state, and what asks no model


def in_run(agent: Callable[[], object], *replies: Reply) -> Result:
    async def loop(_: str) -> None:
        agent()

    return run(Scenario(prompt="Go.", model=[*replies]), loop=loop)


def test_a_response_and_a_conversation_go_on() -> None:
    openai = importlib.import_module("openai")

    def agent() -> None:
        responses, conversations = (client := openai.OpenAI()).responses, client.conversations
        first = responses.create(model="m", input="Hi")
        stream = responses.create(
            model="m", input="And?", previous_response_id=first.id, stream=True, store=False
        )
        gone = next(event.response for event in stream if event.type == "response.completed").id
        with pytest.raises(openai.BadRequestError) as caught:
            responses.create(model="m", input="And?", previous_response_id=gone)
        assert caught.value.code == "previous_response_not_found"
        assert responses.retrieve(first.id).output_text == "Hello."
        assert [one.content[0].text for one in responses.input_items.list(first.id)] == ["Hi"]
        if hasattr(responses, "input_tokens"):  # openai 1 has no such call
            counted = responses.input_tokens.count(model="m", input="Hello you")
            assert counted.input_tokens == 7
        responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            responses.retrieve(first.id)
        name = conversations.create(items=[{"role": "user", "content": "I am in Oslo."}]).id
        assert responses.create(model="m", input="So?", conversation=name).conversation.id == name
        said = list(conversations.items.list(name, order="asc"))
        assert [one.content[0].text for one in said] == ["I am in Oslo.", "So?", "Sunny."]
        conversations.items.delete(said[1].id, conversation_id=name)
        assert [one.id for one in conversations.items.list(name)] == [said[2].id, said[0].id]
        conversations.delete(name)

    result = in_run(agent, Reply(say="Hello."), Reply(say="Yes."), Reply(say="Sunny."))
    texts = [[one.text for one in each.messages] for each in result.requests]
    assert texts == [["Hi"], ["Hi", "Hello.", "And?"], ["I am in Oslo.", "So?"]]


def test_models_embeddings_and_sizes_ask_no_model() -> None:
    openai, anthropic = importlib.import_module("openai"), importlib.import_module("anthropic")

    def agent() -> None:
        client, other = openai.OpenAI(), anthropic.Anthropic()
        made = [
            client.embeddings.create(model="m", input="Hello you", **more).data[0].embedding
            for more in ({}, {"encoding_format": "float"})
        ]
        assert made[0] == pytest.approx(made[1])
        assert "gpt-5" in [one.id for one in client.models.list()]
        assert client.models.retrieve("gpt-4.1").id == "gpt-4.1"
        assert [one.id for one in other.models.list()] == ["claude-sonnet-5"]
        assert other.models.retrieve("mine").display_name == "mine"
        assert other.messages.count_tokens(model="m", messages=USER).input_tokens == 5

    assert not in_run(agent).requests


# ---------------------------------------------------------------- errors

FAILURE = StreamError(Fault("Overloaded", code="overloaded_error"))


@pytest.mark.parametrize("before", [[], [TextDelta("x")]], ids=["first", "later"])
@pytest.mark.parametrize("form", ["data", "event", "chunk"])
def test_an_error_in_a_chat_stream_is_raised(form: Any, before: list[Part]) -> None:
    openai = importlib.import_module("openai")
    with pytest.raises(openai.APIError, match="Overloaded") as caught:
        read_chat(Served([*before, FAILURE], WireOptions(chat_error=form)))
    assert (caught.value.code, caught.value.type) == ("overloaded_error", "server_error")


def test_a_nested_error_in_a_stream_of_responses_is_raised() -> None:
    openai = importlib.import_module("openai")
    with pytest.raises(openai.APIError, match="Overloaded"):
        read_responses(Served([TextDelta("x"), FAILURE], WireOptions(responses_error="nested")))


@pytest.mark.parametrize(("form", "kind"), [("flat", "error"), ("failed", "response.failed")])
def test_another_error_in_a_stream_of_responses_is_an_event(form: Any, kind: str) -> None:
    served = Served([TextDelta("x"), FAILURE], WireOptions(responses_error=form))
    events = list(openai_client(served).responses.create(model="m", input="hi", stream=True))
    assert events[-1].type == kind
    found = events[-1] if form == "flat" else events[-1].response.error
    assert (found.code, found.message) == ("overloaded_error", "Overloaded")


@pytest.mark.parametrize("before", [[], [TextDelta("x")]], ids=["first", "later"])
def test_an_error_in_a_stream_of_messages_is_raised_with_status_200(before: list[Part]) -> None:
    anthropic = importlib.import_module("anthropic")
    with pytest.raises(anthropic.APIStatusError, match="Overloaded") as caught:
        read_messages(Served([*before, FAILURE]))
    assert caught.value.status_code == 200
    assert caught.value.body["error"]["type"] == "overloaded_error"


STATUSES = {
    400: "BadRequestError", 401: "AuthenticationError", 403: "PermissionDeniedError",
    404: "NotFoundError", 409: "ConflictError", 422: "UnprocessableEntityError",
    429: "RateLimitError", 500: "InternalServerError", 502: "InternalServerError",
    503: "InternalServerError",
}  # fmt: skip


RAISED = {
    "openai": (read_chat, read_whole_chat, read_responses, read_whole_responses),
    "anthropic": (read_messages, read_whole_messages),
}


@pytest.mark.parametrize("sdk", RAISED)
@pytest.mark.parametrize(("status", "name"), STATUSES.items(), ids=map(str, STATUSES))
def test_a_status_is_raised_as_its_error(sdk: str, status: int, name: str) -> None:
    for read in RAISED[sdk]:
        with pytest.raises(getattr(importlib.import_module(sdk), name)) as caught:
            read(Served([StreamError(Fault("no luck", status=status))]))
        assert caught.value.status_code == status
        assert "no luck" in str(caught.value)
        assert caught.value.request_id == "req-1"


def test_a_request_that_the_provider_refuses_is_a_bad_request() -> None:
    openai = importlib.import_module("openai")
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asks = {"role": "assistant", "tool_calls": [call]}
    client = openai_client(Served([Finish(FinishReason.STOP, "stop")]))
    with pytest.raises(openai.BadRequestError, match="did not have response messages: a") as caught:
        client.chat.completions.create(model="m", messages=[*USER, asks])
    assert (caught.value.type, caught.value.param) == ("invalid_request_error", "messages")


# ---------------------------------------------------------------- a recording

TAPE = Path(__file__).parents[1] / "recordings" / "files" / "openai-by-vcrpy.yaml"


def recorded_agent(result: str = "31 degrees") -> Callable[[str], str]:
    """Return the agent that vcrpy has recorded: it asks a tool, and streams what it says then."""
    openai = importlib.import_module("openai")

    def agent(prompt: str) -> str:
        client = openai.OpenAI(api_key="x", max_retries=2)
        messages: list[Any] = [
            {"role": "system", "content": "You know the weather."},
            {"role": "user", "content": prompt},
        ]
        asked: dict[str, Any] = {"model": "gpt-5", "messages": messages, "tools": [WEATHER]}
        said = client.chat.completions.create(**asked).choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        messages += [
            {"role": "tool", "tool_call_id": call.id, "content": result} for call in said.tool_calls
        ]
        for _ in range(3):
            chunks = list(client.chat.completions.create(stream=True, **asked))
            choices = [choice for chunk in chunks for choice in chunk.choices]
            if any(choice.finish_reason for choice in choices):
                return "".join(choice.delta.content or "" for choice in choices)
        return "no answer"

    return agent


WEATHER = {
    "type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
}  # fmt: skip


def test_the_agent_that_vcrpy_has_recorded_sends_what_it_sent() -> None:
    scenario, _ = scenario_of(read_recording(TAPE))
    result = run(scenario, loop=recorded_agent())
    assert (result.text, result.mismatches) == ("It is warm.", ())
    assert len(result.requests) == 4
    other = run(scenario, loop=recorded_agent("32 degrees"))
    assert [each.key for each in other.mismatches] == ["sent.2.messages.2.tool"]
