"""Failed calls go out as each provider sends them, and events in the bytes of each framing."""

import json
from typing import Any, NamedTuple

import pytest
from wirereading import FORMATS, STAMP, asked, wire_formats

from simloop.messages import Fault, StreamError
from simloop.scenario.replies import Http, parts_of_fault
from simloop.wire.formats.anthropic_messages import AnthropicMessages
from simloop.wire.formats.bedrock import Bedrock
from simloop.wire.formats.gemini import Gemini
from simloop.wire.formats.openai_chat import OpenAIChat
from simloop.wire.formats.openai_responses import OpenAIResponses
from simloop.wire.formats.replies import INVALID, OVERFLOW, WireFormat
from simloop.wire.formats.wire_format import WireEvent, WrongRequest
from simloop.world.faults import FAULTS
from simloop.world.http import HttpReply
from simloop.world.wire_options import FramingName, WireOptions

CHAT, RESPONSES, CLAUDE = OpenAIChat(), OpenAIResponses(), AnthropicMessages()
every_format = pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)


def replied(form: WireFormat, **http: Any) -> HttpReply:
    """Return the reply to a call that fails as a script says."""
    return form.error(Http(**http).failure(), STAMP)


def error(reply: HttpReply) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reply.body.data or b"")["error"]
    return found


class Words(NamedTuple):
    """The words of an error, wherever a format has them."""

    message: str
    type: str
    code: str | None = None


def words(form: WireFormat, reply: HttpReply) -> Words:
    body = json.loads(reply.body.data or b"")
    if form.name == "bedrock":
        return Words(body["message"], dict(reply.headers)["x-amzn-errortype"])
    found, details = body["error"], body["error"].get("details")
    if form.name == "gemini":
        reasons = [each["reason"] for each in details or () if "reason" in each]
        return Words(found["message"], found["status"], reasons[0] if reasons else None)
    code = (details or {}).get("error_code", found.get("code"))
    return Words(found["message"], found["type"], code)


OPENAI = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("request_forbidden", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    408: ("server_error", None),
    409: ("invalid_request_error", None),
    413: ("invalid_request_error", None),
    418: ("invalid_request_error", None),
    422: ("invalid_request_error", None),
    429: ("requests", "rate_limit_exceeded"),
    500: ("server_error", None),
    503: ("server_error", None),
    529: ("server_error", None),
}
ANTHROPIC = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error",
    403: "permission_error", 404: "not_found_error", 408: "timeout_error", 409: "conflict_error",
    413: "request_too_large", 418: "invalid_request_error", 422: "invalid_request_error",
    429: "rate_limit_error", 500: "api_error", 503: "api_error", 529: "overloaded_error",
    599: "api_error",
}  # fmt: skip


@pytest.mark.parametrize(("status", "words"), OPENAI.items(), ids=map(str, OPENAI))
@pytest.mark.parametrize("form", [CHAT, RESPONSES], ids=["chat", "responses"])
def test_a_status_has_the_words_of_openai(
    form: WireFormat, status: int, words: tuple[str, str | None]
) -> None:
    reply = replied(form, status=status)
    found = error(reply)
    assert (reply.status, found["type"], found["code"], found["param"]) == (status, *words, None)
    assert found["message"]


@pytest.mark.parametrize(("status", "kind"), ANTHROPIC.items(), ids=map(str, ANTHROPIC))
def test_a_status_has_the_words_of_anthropic(status: int, kind: str) -> None:
    reply = replied(CLAUDE, status=status)
    body = json.loads(reply.body.data or b"")
    assert (reply.status, body["type"], body["request_id"]) == (status, "error", "req-3")
    assert body["error"]["type"] == kind
    assert list(body["error"]) == ["type", "message"]


GEMINI = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    408: "UNKNOWN", 418: "UNKNOWN", 429: "RESOURCE_EXHAUSTED", 499: "CANCELLED", 500: "INTERNAL",
    503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED", 529: "UNKNOWN",
}  # fmt: skip
BEDROCK = {
    400: "ValidationException", 403: "AccessDeniedException", 404: "ResourceNotFoundException",
    408: "ModelTimeoutException", 418: "ValidationException", 424: "ModelErrorException",
    429: "ThrottlingException", 500: "InternalServerException",
    503: "ServiceUnavailableException", 529: "ServiceUnavailableException",
}  # fmt: skip


@pytest.mark.parametrize("form", [Gemini(), Bedrock()], ids=["gemini", "bedrock"])
def test_a_status_has_the_words_of_google_and_of_amazon(form: WireFormat) -> None:
    for status, kind in (GEMINI if form.name == "gemini" else BEDROCK).items():
        reply = replied(form, status=status)
        assert (reply.status, words(form, reply).type) == (status, kind)
        assert words(form, reply).message


def test_google_states_its_wait_in_the_body() -> None:
    limited = error(replied(Gemini(), status=429, retry_after="7s"))
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
    assert (limited["code"], limited["details"]) == (429, [wait])
    shorter = error(replied(Gemini(), status=429, headers={"retry-after": "1.5"}))
    assert shorter["details"] == [{**wait, "retryDelay": "1.5s"}]
    for other in ("Thu, 01 Jan 2026 00:00:30 GMT", "7 minutes"):
        failed = replied(Gemini(), status=429, headers={"retry-after": other})
        assert "details" not in error(failed)


@pytest.mark.parametrize("status", [502, 504])
@every_format
def test_a_gateway_answers_with_a_page(form: WireFormat, status: int) -> None:
    reply = replied(form, status=status)
    is_page = (form.name, status) != ("gemini", 504)  # whose own servers send it
    kind = "text/html" if is_page else "application/json"
    assert dict(reply.headers)["content-type"] == kind
    assert (reply.body.data or b"").startswith(b"<html>") == is_page
    assert str(status).encode() in (reply.body.data or b"")


@every_format
def test_the_words_of_the_script_go_out(form: WireFormat) -> None:
    found = words(form, replied(form, status=429, message="Not now", code="my_code"))
    assert found.message == "Not now"
    assert "my_code" in (found.code, found.type)
    assert words(form, replied(form, status=502, message="Down")).message == "Down"


def test_a_quota_that_is_used_up_has_its_words() -> None:
    found = error(replied(CHAT, status=429, code="insufficient_quota"))
    assert (found["type"], found["code"]) == ("insufficient_quota", "insufficient_quota")
    assert found["message"].startswith("You exceeded your current quota")


OVERFLOWS: dict[str, tuple[WireFormat, str, str, Any]] = {
    "chat": (CHAT, INVALID, "maximum context length is 128000 tokens", "messages"),
    "responses": (RESPONSES, INVALID, "Your input exceeds the context window of this", "input"),
    "anthropic": (CLAUDE, INVALID, "prompt is too long: 208310 tokens > 200000 maximum", None),
    "gemini": (Gemini(), "INVALID_ARGUMENT", "The input token count (1130000) exceeds the", None),
    "bedrock": (Bedrock(), "ValidationException", "Input is too long for requested", None),
}


@pytest.mark.parametrize(("form", "kind", "said", "param"), OVERFLOWS.values(), ids=OVERFLOWS)
def test_an_overflow_has_the_words_of_the_provider(
    form: WireFormat, kind: str, said: str, param: str | None
) -> None:
    scripted = replied(form, status=400, code="context_length_exceeded")
    (overflow,) = (fault for fault in FAULTS if fault.site == "model.overflow")
    ((_, failure),) = parts_of_fault(overflow)
    assert isinstance(failure, StreamError)
    by_chance = form.error(failure, STAMP)
    for reply in (scripted, by_chance):
        found = words(form, reply)
        assert said in found.message
        assert (reply.status, found.type, found.code in (None, OVERFLOW)) == (400, kind, True)
        assert param is None or error(reply)["param"] == param
        assert "details" not in json.loads(reply.body.data or b"").get("error", ())


def test_an_overflow_in_the_words_of_the_script_keeps_them() -> None:
    said = "prompt token count of 9 exceeds the limit of 8"
    for form in FORMATS.values():
        reply = replied(form, status=400, code="context_length_exceeded", message=said)
        assert words(form, reply).message == said


def test_a_word_that_stands_as_the_type_goes_out_as_the_type() -> None:
    fault = Fault("busy", status=529, code="overloaded_error", code_is_type=True)
    for form in FORMATS.values():
        found = words(form, form.error(StreamError(fault), STAMP))
        assert (found.type, found.code) == ("overloaded_error", None)


def test_a_type_of_anthropic_that_stands_as_the_code_is_the_type_there() -> None:
    fault = Fault("busy", status=500, code="overloaded_error")
    assert error(CLAUDE.error(StreamError(fault), STAMP))["type"] == "overloaded_error"
    assert error(CHAT.error(StreamError(fault), STAMP))["code"] == "overloaded_error"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("", 500), ("weird", 500), ("server_error", 500), ("overloaded_error", 529),
        ("rate_limit_exceeded", 429), ("context_length_exceeded", 400), ("invalid_api_key", 401),
    ],
)  # fmt: skip
@every_format
def test_a_failure_without_a_status_gets_that_of_its_code(
    form: WireFormat, code: str, status: int
) -> None:
    assert form.error(StreamError(Fault("no", code=code)), STAMP).status == status


BODIES: dict[str, tuple[Any, bytes, str]] = {
    "empty": ("", b"", "text/plain"),
    "page": ("<h1>é</h1>", "<h1>é</h1>".encode(), "text/html"),
    "text": ("upstream connect error", b"upstream connect error", "text/plain"),
    "json": ({"detail": "no"}, b'{"detail":"no"}', "application/json"),
    "json as text": ('[{"error": 1}]', b'[{"error": 1}]', "application/json"),
    "a number": ("5", b"5", "text/plain"),
    "a lone surrogate": ("a\ud800", "a\ufffd".encode(), "text/plain"),
}


@pytest.mark.parametrize(("body", "sent", "kind"), BODIES.values(), ids=BODIES)
@every_format
def test_the_body_of_the_script_goes_out_as_it_is(
    form: WireFormat, body: Any, sent: bytes, kind: str
) -> None:
    reply = replied(form, status=502, body=body)
    assert reply.body.data == sent
    assert dict(reply.headers)["content-type"] == kind


@every_format
def test_the_headers_of_the_script_take_the_place_of_others(form: WireFormat) -> None:
    given = {"Content-Type": "text/odd", "X-Should-Retry": "false", "retry-after-ms": "1500",
             "x-request-id": "mine", "request-id": "mine"}  # fmt: skip
    reply = replied(form, status=429, retry_after="7s", headers=given)
    headers = dict(reply.headers)
    assert len(headers) == len(reply.headers)
    assert {name.lower(): value for name, value in given.items()}.items() <= headers.items()
    assert headers["retry-after"] == "7"


LIMITED = WireOptions(rate_limit_requests=50, rate_limit_tokens=9_000)


def test_the_limits_of_openai_reset_after_a_duration() -> None:
    for form in (OpenAIChat(LIMITED), OpenAIResponses(LIMITED)):
        headers = dict(form.headers(asked(), STAMP))
        assert {name: value for name, value in headers.items() if "ratelimit" in name} == {
            "x-ratelimit-limit-requests": "50", "x-ratelimit-remaining-requests": "49",
            "x-ratelimit-reset-requests": "1m0s", "x-ratelimit-limit-tokens": "9000",
            "x-ratelimit-remaining-tokens": "8999", "x-ratelimit-reset-tokens": "1m0s",
        }  # fmt: skip


def test_the_limits_of_anthropic_reset_at_an_instant_of_virtual_time() -> None:
    headers = dict(AnthropicMessages(LIMITED).headers(asked(), STAMP))
    assert headers["anthropic-ratelimit-requests-limit"] == "50"
    assert headers["anthropic-ratelimit-tokens-reset"] == "2001-09-09T01:47:40Z"


def test_no_request_is_left_after_status_429() -> None:
    for form in wire_formats(LIMITED).values():
        left = [value for name, value in replied(form, status=429).headers if "remaining" in name]
        assert left == ([] if form.name in ("gemini", "bedrock") else ["0", "0"])


@every_format
def test_no_limits_are_reported_unless_asked_for(form: WireFormat) -> None:
    assert [one for one in replied(form, status=429).headers if "ratelimit" in one[0]] == []


@every_format
def test_a_request_that_cannot_be_read_is_status_400(form: WireFormat) -> None:
    reply = form.refuse(WrongRequest("messages[1]", "it is wrong", "odd"), STAMP)
    found = words(form, reply)
    assert (reply.status, found.type) == (400, words(form, replied(form, status=400)).type)
    assert dict(reply.headers)["content-type"] == "application/json"
    if form.name.startswith("openai"):
        assert (found.message, error(reply)["param"]) == ("it is wrong", "messages[1]")
        assert found.code == "odd"
    else:
        assert found.message == "messages[1]: it is wrong"


# ---------------------------------------------------------------- framing

EVENTS = [WireEvent("", "{}"), WireEvent("error", "[1]")]
FRAMED: dict[FramingName, str] = {
    "lf": "data: {}\n\nevent: error\ndata: [1]\n\n",
    "crlf": "data: {}\r\n\r\nevent: error\r\ndata: [1]\r\n\r\n",
    "bytes": "data: {}\n\nevent: error\ndata: [1]\n\n",
    "comments": ": keep-alive\n\ndata: {}\n\n: keep-alive\n\nevent: error\ndata: [1]\n\n",
}


@pytest.mark.parametrize("name", FRAMED)
def test_a_framing_has_these_bytes(name: FramingName) -> None:
    form = OpenAIChat(WireOptions(framing=name))
    pieces = [*form.framed(EVENTS[:1]), *form.framed(EVENTS[1:])]
    assert b"".join(pieces).decode() == FRAMED[name]
    assert (max(map(len, pieces)) == 1) == (name == "bytes")
    assert form.framed([]) == []
