"""Failed calls as providers send them: status, headers and body.

Shapes, types and codes are the providers'. The messages are worded like theirs, and were not
compared with recorded replies. Not here: errors inside a stream, whose frames differ by format. The
rule to keep: the script's own words, code, headers and body go out as they are; a provider's words
take the place of what the script leaves out.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import ClassVar, NamedTuple

from msgspec import UNSET

from simloop.escape import writable
from simloop.messages import Fault, StreamError
from simloop.wire.formats.payload import JsonObject, parsed, wire_json
from simloop.wire.formats.wire_format import ErrorReply, WireRequest, WrongRequest
from simloop.wire.framing import EventFramer
from simloop.wire.http import Headers
from simloop.world.faults import status_text
from simloop.world.wire_options import WireOptions

JSON, EVENTS = "application/json", "text/event-stream; charset=utf-8"
OVERFLOW = "context_length_exceeded"
_HTML = "<html><head><title>{0}</title></head><body><center><h1>{0}</h1></center></body></html>"
_GATEWAY = frozenset({502, 504})  # sent by the network in front of a provider, as a page
_RESET_S = 60
_TOO_MANY_REQUESTS = 429


class ErrorWords(NamedTuple):
    """A provider's words for an error. Anthropic sends no code and no parameter."""

    type: str
    message: str
    code: str | None = None
    param: str | None = None


_INVALID = "invalid_request_error"
_QUOTA = (
    "You exceeded your current quota, please check your plan and billing details. For more "
    "information on this error, read the docs: "
    "https://platform.openai.com/docs/guides/error-codes/api-errors."
)
_OPENAI: Mapping[int, ErrorWords] = {
    400: ErrorWords(_INVALID, "We could not parse the JSON body of your request."),
    401: ErrorWords(
        _INVALID,
        "Incorrect API key provided: simulated. "
        "You can find your API key at https://platform.openai.com/account/api-keys.",
        "invalid_api_key",
    ),
    403: ErrorWords(
        "request_forbidden",
        "Country, region, or territory not supported",
        "unsupported_country_region_territory",
    ),
    404: ErrorWords(
        _INVALID,
        "The requested model does not exist or you do not have access to it.",
        "model_not_found",
    ),
    408: ErrorWords("server_error", "Request timed out."),
    409: ErrorWords(_INVALID, "The resource was updated by another request."),
    413: ErrorWords(_INVALID, "Request too large."),
    422: ErrorWords(_INVALID, "The request could not be processed."),
    429: ErrorWords("requests", "Rate limit reached for requests.", "rate_limit_exceeded"),
    500: ErrorWords(
        "server_error", "The server had an error while processing your request. Sorry about that!"
    ),
    503: ErrorWords("server_error", "The engine is currently overloaded, please try again later."),
}
_OPENAI_CODES: Mapping[str, ErrorWords] = {
    "insufficient_quota": ErrorWords("insufficient_quota", _QUOTA),
    OVERFLOW: ErrorWords(
        _INVALID,
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "130000 tokens. Please reduce the length of the messages.",
        param="messages",
    ),
}
_RESPONSES_OVERFLOW = ErrorWords(
    _INVALID,
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    param="input",
)
_ANTHROPIC: Mapping[int, ErrorWords] = {
    400: ErrorWords(_INVALID, "The request body is not valid JSON."),
    401: ErrorWords("authentication_error", "invalid x-api-key"),
    402: ErrorWords("billing_error", "There is an issue with your billing or payment information."),
    403: ErrorWords(
        "permission_error",
        "Your API key does not have permission to use the specified resource.",
    ),
    404: ErrorWords("not_found_error", "The requested resource could not be found."),
    408: ErrorWords("timeout_error", "Request timed out"),
    409: ErrorWords("conflict_error", "The resource was updated by another request."),
    413: ErrorWords("request_too_large", "Request exceeds the maximum size"),
    422: ErrorWords(_INVALID, "The request could not be processed."),
    429: ErrorWords(
        "rate_limit_error",
        "This request would exceed your organization's rate limit. Please try again later.",
    ),
    500: ErrorWords("api_error", "Internal server error"),
    503: ErrorWords("api_error", "Service temporarily unavailable"),
    504: ErrorWords("timeout_error", "Request timed out"),
    529: ErrorWords("overloaded_error", "Overloaded"),
}
_ANTHROPIC_OVERFLOW = ErrorWords(_INVALID, "prompt is too long: 208310 tokens > 200000 maximum")
_ANTHROPIC_TYPES = {words.type for words in _ANTHROPIC.values()}
# The status of a failure without one, which a reply that does not stream must have.
_STATUSES = {
    _INVALID: 400, "invalid_prompt": 400, OVERFLOW: 400, "authentication_error": 401,
    "invalid_api_key": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404,
    "model_not_found": 404, "conflict_error": 409, "request_too_large": 413,
    "rate_limit_error": 429, "rate_limit_exceeded": 429, "insufficient_quota": 429,
    "timeout_error": 504, "overloaded_error": 529,
}  # fmt: skip


def openai_error(fault: Fault, *, is_responses: bool = False) -> JsonObject:
    """Return the object `error` of OpenAI's formats."""
    status = status_of(fault)
    by_status = _OPENAI.get(status) or ErrorWords(_kind(status), fault.message)
    words = _OPENAI_CODES.get(fault.code, by_status)
    if is_responses and fault.code == OVERFLOW:
        words = _RESPONSES_OVERFLOW
    code = words.code if not fault.code else fault.code
    if fault.code_is_type:
        words, code = words._replace(type=fault.code), None
    message = words.message if _is_silent(fault, status) else fault.message
    return {"message": message, "type": words.type, "param": words.param, "code": code}


def anthropic_error(fault: Fault) -> JsonObject:
    """Return the object `error` of Anthropic's format.

    Anthropic names an error by its type. A code of the script that is no such type goes out as
    `details.error_code`.
    """
    status, code = status_of(fault), fault.code
    by_status = _ANTHROPIC.get(status) or ErrorWords(_anthropic_kind(status), fault.message)
    words = _ANTHROPIC_OVERFLOW if code == OVERFLOW else by_status
    message = words.message if _is_silent(fault, status) else fault.message
    if code in _ANTHROPIC_TYPES or fault.code_is_type:
        return {"type": code, "message": message}
    error = {"type": words.type, "message": message}
    return error | {"details": {"error_code": code}} if code and code != OVERFLOW else error


def status_of(fault: Fault) -> int:
    """Return the status of a fault; one without gets that of its code, or 500."""
    return _STATUSES.get(fault.code, 500) if fault.status is UNSET else fault.status


def _is_silent(fault: Fault, status: int) -> bool:
    """Return whether the script says nothing but the status: the provider's words then go out.

    The message of the chance fault `model.overflow` also counts as such.
    """
    overflows = fault.code == OVERFLOW and fault.message.startswith(f"{status} ")
    return overflows or fault.message in ("", status_text(status))


def _kind(status: int) -> str:
    return _INVALID if status < 500 else "server_error"  # noqa: PLR2004 - the classes of HTTP


def _anthropic_kind(status: int) -> str:
    return _INVALID if status < 500 else "api_error"  # noqa: PLR2004 - as above


class _EventReplies:
    """The framing of the streams of all three formats: server-sent events."""

    options: WireOptions

    def framer(self) -> EventFramer:
        """Return the framer of the events of one reply."""
        return EventFramer(self.options.framing)


class OpenAIReplies(_EventReplies):
    """The replies of OpenAI's formats that are no output: headers, errors and refusals."""

    is_responses: ClassVar[bool] = False

    def headers(self, request: WireRequest, number: int, created_s: int) -> Headers:  # noqa: ARG002 - the protocol has it
        """Return the headers of a reply that has not failed."""
        return (_content(request), *_openai_headers(number, self.options))

    def error(self, failure: StreamError, number: int, created_s: int) -> ErrorReply:  # noqa: ARG002 - as above
        """Return the HTTP reply that a failed call has in the place of any output."""
        body = {"error": openai_error(failure.fault, is_responses=self.is_responses)}
        exhausted = status_of(failure.fault) == _TOO_MANY_REQUESTS
        return _reply(failure, body, _openai_headers(number, self.options, exhausted=exhausted))

    def refuse(self, wrong: WrongRequest, number: int, created_s: int) -> ErrorReply:  # noqa: ARG002 - as above
        """Return the HTTP reply to a request that cannot be read."""
        param, code = wrong.key or None, wrong.code or None
        error = {"message": wrong.message, "type": _INVALID, "param": param, "code": code}
        headers = (("content-type", JSON), *_openai_headers(number, self.options))
        return ErrorReply(400, headers, wire_json({"error": error}).encode())


class AnthropicReplies(_EventReplies):
    """The replies of Anthropic's format that are no output: headers, errors and refusals."""

    def headers(self, request: WireRequest, number: int, created_s: int) -> Headers:
        """Return the headers of a reply that has not failed."""
        return (_content(request), *_anthropic_headers(number, created_s, self.options))

    def error(self, failure: StreamError, number: int, created_s: int) -> ErrorReply:
        """Return the HTTP reply that a failed call has in the place of any output."""
        error, own = anthropic_error(failure.fault), request_id(number)
        exhausted = status_of(failure.fault) == _TOO_MANY_REQUESTS
        headers = _anthropic_headers(number, created_s, self.options, exhausted=exhausted)
        return _reply(failure, {"type": "error", "error": error, "request_id": own}, headers)

    def refuse(self, wrong: WrongRequest, number: int, created_s: int) -> ErrorReply:
        """Return the HTTP reply to a request that cannot be read."""
        return self.error(StreamError(Fault(str(wrong), status=400)), number, created_s)


def _reply(failure: StreamError, body: JsonObject, headers: Headers) -> ErrorReply:
    """Return the reply with the script's headers over the provider's, and the script's body."""
    fault, status = failure.fault, status_of(failure.fault)
    if failure.body is not None:
        text, kind = writable(failure.body), _content_type(failure.body)
    elif status in _GATEWAY and not fault.code and _is_silent(fault, status):
        text, kind = _HTML.format(status_text(status)), "text/html"
    else:
        text, kind = wire_json(body), JSON
    given = {name for name, _ in fault.headers}
    own = (header for header in (("content-type", kind), *headers) if header[0] not in given)
    return ErrorReply(status, (*own, *fault.headers), text.encode())


def _content_type(body: str) -> str:
    if isinstance(parsed(body), dict | list):
        return JSON
    return "text/html" if body.lstrip().startswith("<") else "text/plain"


def _content(request: WireRequest) -> tuple[str, str]:
    return "content-type", EVENTS if request.streams else JSON


def request_id(number: int) -> str:
    """Return the id of a request, which providers send in a header."""
    return f"req-{number}"


def _openai_headers(number: int, options: WireOptions, *, exhausted: bool = False) -> Headers:
    """Return the headers of every reply of OpenAI's formats; limits reset after a duration."""
    limits = [
        ((f"x-ratelimit-limit-{what}", str(limit)),
         (f"x-ratelimit-remaining-{what}", str(0 if exhausted else limit - 1)),
         (f"x-ratelimit-reset-{what}", "1m0s"))
        for what, limit in _limits(options)
    ]  # fmt: skip
    return (("x-request-id", request_id(number)), *(one for three in limits for one in three))


def _anthropic_headers(
    number: int, created_s: int, options: WireOptions, *, exhausted: bool = False
) -> Headers:
    """Return the headers of every reply of Anthropic's format; limits reset at an instant."""
    reset = datetime.fromtimestamp(created_s + _RESET_S, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    limits = [
        ((f"anthropic-ratelimit-{what}-limit", str(limit)),
         (f"anthropic-ratelimit-{what}-remaining", str(0 if exhausted else limit - 1)),
         (f"anthropic-ratelimit-{what}-reset", reset))
        for what, limit in _limits(options)
    ]  # fmt: skip
    return (("request-id", request_id(number)), *(one for three in limits for one in three))


def _limits(options: WireOptions) -> list[tuple[str, int]]:
    named = (("requests", options.rate_limit_requests), ("tokens", options.rate_limit_tokens))
    return [(what, limit) for what, limit in named if limit]
