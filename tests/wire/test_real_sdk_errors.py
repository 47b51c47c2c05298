"""The real SDKs raise what the provider refuses, and the errors that break a stream off."""

import importlib
from typing import Any

import pytest
from sdkreading import (
    USER,
    read_chat,
    read_messages,
    read_responses,
    read_whole_chat,
    read_whole_messages,
    read_whole_responses,
)
from wireserving import Served, openai_client

from simloop.messages import Fault, Finish, FinishReason, Part, StreamError, TextDelta
from simloop.world.wire_options import WireOptions

pytestmark = pytest.mark.sdks

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
