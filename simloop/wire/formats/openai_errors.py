"""The failed calls of OpenAI's two formats: words, headers and bodies."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from simloop.messages import Fault, StreamError
from simloop.wire.formats.payload import JsonObject, wire_json
from simloop.wire.formats.replies import (
    INVALID,
    JSON,
    OVERFLOW,
    ErrorWords,
    EventFormat,
    content_type,
    error_reply,
    message_of,
    request_id,
    words_of,
)
from simloop.wire.formats.wire_format import ErrorReply, WireRequest, WrongRequest
from simloop.wire.http import Headers

_QUOTA = (
    "You exceeded your current quota, please check your plan and billing details. For more "
    "information on this error, read the docs: "
    "https://platform.openai.com/docs/guides/error-codes/api-errors."
)
_BY_STATUS: Mapping[int, ErrorWords] = {
    400: ErrorWords(INVALID, "We could not parse the JSON body of your request."),
    401: ErrorWords(
        INVALID,
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
        INVALID,
        "The requested model does not exist or you do not have access to it.",
        "model_not_found",
    ),
    408: ErrorWords("server_error", "Request timed out."),
    409: ErrorWords(INVALID, "The resource was updated by another request."),
    413: ErrorWords(INVALID, "Request too large."),
    422: ErrorWords(INVALID, "The request could not be processed."),
    429: ErrorWords("requests", "Rate limit reached for requests.", "rate_limit_exceeded"),
    500: ErrorWords(
        "server_error", "The server had an error while processing your request. Sorry about that!"
    ),
    503: ErrorWords("server_error", "The engine is currently overloaded, please try again later."),
}
_BY_CODE: Mapping[str, ErrorWords] = {
    "insufficient_quota": ErrorWords("insufficient_quota", _QUOTA),
    OVERFLOW: ErrorWords(
        INVALID,
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "130000 tokens. Please reduce the length of the messages.",
        param="messages",
    ),
}
_RESPONSES_OVERFLOW = ErrorWords(
    INVALID,
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    param="input",
)


def openai_error(fault: Fault, *, is_responses: bool = False) -> JsonObject:
    """Return the object `error` of OpenAI's formats."""
    words = _BY_CODE.get(fault.code) or words_of(fault, _BY_STATUS, "server_error")
    if is_responses and fault.code == OVERFLOW:
        words = _RESPONSES_OVERFLOW
    code = fault.code or words.code
    if fault.code_is_type:
        words, code = words._replace(type=fault.code), None
    message = message_of(fault, words)
    return {"message": message, "type": words.type, "param": words.param, "code": code}


@dataclass(frozen=True, slots=True)
class OpenAIFormat(EventFormat):
    """The replies of OpenAI's formats that are no output: headers, errors and refusals."""

    is_responses: ClassVar[bool] = False

    def headers(self, request: WireRequest, number: int, created_s: int) -> Headers:  # noqa: ARG002 - the protocol has it
        """Return the headers of a reply that has not failed."""
        return (content_type(request), *self._every(number))

    def error(self, failure: StreamError, number: int, created_s: int) -> ErrorReply:  # noqa: ARG002 - as above
        """Return the HTTP reply that a failed call has in the place of any output."""
        body = {"error": openai_error(failure.fault, is_responses=self.is_responses)}
        return error_reply(failure, body, self._every(number, failure))

    def refuse(self, wrong: WrongRequest, number: int, created_s: int) -> ErrorReply:  # noqa: ARG002 - as above
        """Return the HTTP reply to a request that cannot be read."""
        param, code = wrong.key or None, wrong.code or None
        error = {"message": wrong.message, "type": INVALID, "param": param, "code": code}
        headers = (("content-type", JSON), *self._every(number))
        return ErrorReply(400, headers, wire_json({"error": error}).encode())

    def _every(self, number: int, failure: StreamError | None = None) -> Headers:
        """Return the headers of every reply; limits reset after a duration."""
        limits = self.limits("x-ratelimit-{field}-{of}", "1m0s", failure)
        return (("x-request-id", request_id(number)), *limits)
