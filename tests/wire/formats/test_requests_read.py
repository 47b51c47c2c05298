"""What clients send is read in each wire format, and refused as its provider refuses it."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from anthropicrequests import ANTHROPIC_REQUESTS
from bedrockrequests import BEDROCK_REQUESTS
from chatrequests import CHAT_REQUESTS
from geminirequests import GEMINI_REQUESTS
from responsesrequests import RESPONSES_REQUESTS
from wirereading import ANYTHING, CANONICAL, FORMATS, MODEL, SCHEMA, RequestCases, sent

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


STRICT, FORCED = (CANONICAL, True, ""), (CANONICAL, False, "a")
LOOSE = (CANONICAL, False, "")
_NAMED = {"name": "place", "schema": SCHEMA}
OUTPUTS: Mapping[str, list[tuple[dict[str, Any], tuple[bytes, bool, str] | None]]] = {
    "openai-chat": [
        ({"response_format": {"type": "json_schema", "json_schema": {**_NAMED, "strict": True}}},
         STRICT),
        ({"response_format": {"type": "json_schema", "json_schema": _NAMED}}, LOOSE),
        ({"response_format": {"type": "json_object"}}, (ANYTHING, False, "")),
        ({"response_format": {"type": "text"}}, None),
        ({"tool_choice": {"type": "function", "function": {"name": "a"}}}, FORCED),
        ({"tool_choice": "required"}, None),
    ],
    "openai-responses": [
        ({"text": {"format": {"type": "json_schema", **_NAMED, "strict": True}}}, STRICT),
        ({"text": {"format": {"type": "json_schema", **_NAMED}}}, LOOSE),
        ({"text": {"verbosity": "low"}}, None),
        ({"tool_choice": {"type": "function", "name": "a"}}, FORCED),
    ],
    "anthropic-messages": [
        ({"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}, STRICT),
        ({"output_format": {"type": "json_schema", "schema": SCHEMA}}, STRICT),
        ({"output_config": {"effort": "low"}}, None),
        ({"tool_choice": {"type": "tool", "name": "a"}}, FORCED),
        ({"tool_choice": {"type": "tool", "name": "other"}}, None),
    ],
    "gemini": [
        ({"generationConfig": {"responseJsonSchema": SCHEMA}}, STRICT),
        ({"generation_config": {"response_schema": {
            "type": "OBJECT", "properties": {"at": {"type": "INTEGER"}}}}}, STRICT),
        ({"generationConfig": {"responseMimeType": "application/json"}}, (ANYTHING, False, "")),
        ({"generationConfig": {"temperature": 0}}, None),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_object_that_a_request_asks_for_is_read(name: str) -> None:
    body, _ = CASES[name].tools
    for more, expected in OUTPUTS[name]:
        found = FORMATS[name].read(sent({**body, **more}, name)).output
        assert (found and (bytes(found.schema), found.is_strict, found.tool)) == expected


@pytest.mark.parametrize(
    ("name", "choice"),
    [
        ("openai-chat", "none"),
        ("openai-responses", "none"),
        ("anthropic-messages", {"type": "none"}),
    ],
)
def test_tools_that_the_model_may_not_call_are_left_out(name: str, choice: Any) -> None:
    body, _ = CASES[name].tools
    found = FORMATS[name].read(sent({**body, "tool_choice": choice}, name))
    assert (found.tools, found.output) == ((), None)


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
