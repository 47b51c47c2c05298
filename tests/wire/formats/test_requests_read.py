"""What clients send is read in each wire format, and refused as its provider refuses it."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from anthropicrequests import ANTHROPIC_REQUESTS
from bedrockrequests import BEDROCK_REQUESTS
from chatrequests import CHAT_REQUESTS
from geminirequests import GEMINI_REQUESTS
from responsesrequests import RESPONSES_REQUESTS
from wirereading import FORMATS, MODEL, RequestCases, sent

from simloop.messages import Message
from simloop.wire.formats.wire_format import WrongRequest

CASES = {
    "openai-chat": CHAT_REQUESTS,
    "openai-responses": RESPONSES_REQUESTS,
    "anthropic-messages": ANTHROPIC_REQUESTS,
    "gemini": GEMINI_REQUESTS,
    "bedrock": BEDROCK_REQUESTS,
}


def of_each(table: Callable[[RequestCases], Mapping[str, tuple[Any, ...]]]) -> list[Any]:
    return [
        pytest.param(name, *row, id=f"{name}-{case}")
        for name, cases in CASES.items()
        for case, row in table(cases).items()
    ]


def test_every_format_has_its_cases() -> None:
    assert list(CASES) == list(FORMATS)


@pytest.mark.parametrize(("name", "body", "system", "messages"), of_each(lambda cases: cases.read))
def test_messages_are_read_whatever_their_form(
    name: str, body: Any, system: str, messages: list[Message]
) -> None:
    request = FORMATS[name].read(sent(body, name))
    assert (request.system_prompt, list(request.messages)) == (system, messages)


@pytest.mark.parametrize("name", CASES)
def test_tools_are_read_with_their_schemas(name: str) -> None:
    body, tools = CASES[name].tools
    read = FORMATS[name].read(sent(body, name)).tools
    assert [(one.name, one.description, bytes(one.parameters)) for one in read] == tools


@pytest.mark.parametrize("name", CASES)
def test_a_stream_and_its_usage_are_asked_for(name: str) -> None:
    for body, streams, reports_usage in CASES[name].streams:
        request = FORMATS[name].read(sent(body, name, streams=streams))
        assert (request.streams, request.reports_usage) == (streams, reports_usage)
        assert request.model == MODEL


@pytest.mark.parametrize(("name", "body", "key", "reason"), of_each(lambda cases: cases.refused))
def test_a_request_that_the_provider_refuses_is_refused(
    name: str, body: Any, key: str, reason: str
) -> None:
    with pytest.raises(WrongRequest) as caught:
        FORMATS[name].read(sent(body, name))
    assert caught.value.key == key
    assert reason in caught.value.message
