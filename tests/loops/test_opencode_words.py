"""The words of errors by which opencode compacts or tries again, beside words that it ignores.

The verdicts are those of the patterns in the published program, which were run on these messages:
package opencode-linux-x64 1.18.34.
"""

import json

import pytest
from incases import in_cases
from msgspec import UNSET

from simloop.kernel.errorclass import ErrorClass
from simloop.loops.opencode_retry import OpencodeRetry
from simloop.messages import Fault

POLICY = OpencodeRetry()
OVERFLOW = [
    "prompt is too long",
    "The PROMPT IS TOO LONG: 213462 tokens > 200000 maximum",
    "Input is too long for requested model.",
    "Your input exceeds the context window of this model",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "input token count exceeds the maximum",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Please reduce the length of the messages or completion.",
    "This model's maximum context length is 128000 tokens. You asked for 150000.",
    "prompt token count of 200000 exceeds the limit of 128000",
    "exceeds the limit of 5 requests",
    "the request exceeds the available context size. try increasing it",
    "tokens to keep from the initial prompt is greater than the context length",
    "invalid params, context window exceeds limit (2013)",
    "Your request exceeded model token limit: 262144",
    "context_length_exceeded",
    "Context length exceeded",
    "Request Entity Too Large",
    "the service unavailable: prompt is too long",
    "rate-limit: prompt is too long",
    "400 status code (no body)",
    "413 (no body)",
    "413 status code (no body)",
    "400(no body)",
    "request_too_large",
    "request_too_large: Request exceeds the maximum size",
    "Input length 265330 exceeds the model's maximum context length of 262144 tokens",
    "exceeds maximum context length of 8,192 tokens",
    "exceeds the models maximum context length (8192)",
    "tokens in request more than max tokens allowed",
    "exceeds the maximum allowed input length of 8,192 tokens",
    "exceeds maximum allowed input length of 1 token",
    "The input (516368 tokens) is longer than the model's context length (262144 tokens).",
    "input (5 tokens) is longer than the models context length (4 tokens)",
    "context length is only 4096 tokens",
    "input length 9000 exceeds your context length",
    "prompt too long; exceeded max context length by 5 tokens",
    "prompt too long; exceeded context length",
    "Prompt contains 9000 tokens, too large for model with 8192 maximum context length",
    "prompt has 9,000 tokens, but the configured context size is 8,192 tokens",
    "prompt has 1 token, but the configured context size is 1 token",
    "model_context_window_exceeded",
    "too many tokens",
    "token limit exceeded",
    "Token limit exceeded for this minute",
]
# Words of a rate limit beside those of an overflow.
RATE_LIMITS = [
    "Rate limit: your usage exceeds the limit of 5 requests per minute",
    "Throttling error: prompt is too long",
    "Service unavailable: prompt is too long",
    "Too Many Requests: prompt is too long",
    "400 STATUS CODE (NO BODY), rate limit",
]
NO_OVERFLOW = [
    "prompt is far too long",
    "your prompt was too long",
    "input is too long",
    "Input is too long for the requested model",
    "exceeds the context size",
    "exceed the context window",
    "input token count\nexceeds the maximum",
    "input tokens exceed the maximum",
    "token count exceeds the maximum",
    "maximum prompt length is unknown",
    "maximum prompt length: 131072",
    "Please reduce the length of the prompt.",
    "Reduce the length of messages",
    "maximum context length is 128000",
    "maximum context length is 128,000 tokens",
    "maximum context length: 128000 tokens",
    "exceeds the limit of your plan",
    "exceeds the limit",
    "exceeds available context size",
    "greater than context length",
    "context window exceeds the limit",
    "context window exceeded",
    "exceeded the model token limit",
    "exceeded token limit",
    "context-length-exceeded",
    "context length was exceeded",
    "Request too large",
    "Payload Too Large",
    "exceeds the maximum context length",
    "exceeds maximum context length of this model",
    "more tokens than allowed",
    "tokens in request: more than max",
    "exceeds the maximum allowed input length",
    "The input is longer than the model's context length",
    "the context length is 4096 tokens",
    "input length exceeds the limit",
    "the input length is fine",
    "prompt too long",
    "prompt too long, exceeded max context length",
    "too large for model with maximum context length",
    "prompt has 9000 tokens but the context size is 8192",
    "model context window exceeded",
    "Too many requests: too many tokens",
    "too many input tokens",
    "too many tokens, rate limit reached",
    "token limit was exceeded",
    "401 status code (no body)",
    "Error 400 status code (no body)",
    "400 status code no body",
    "[input_too_large]",
    "range of input length should be [1, 6000]",
    "exceed context limit",
    "input tokens exceed the configured limit",
    "maximum context length",
    "PROMPT I\N{LATIN SMALL LETTER LONG S} TOO LONG",
    "maximum prompt length is \N{ARABIC-INDIC DIGIT THREE}",
    "\N{KELVIN SIGN}ontext_length_exceeded",
    "exceeded model to\N{KELVIN SIGN}en limit",
]
MAY_PASS = [
    "429",
    "error 500",
    "15000 tokens",
    "502",
    "524",
    "Too Many Requests",
    "rate increased too quickly",
    "rate limit",
    "rate-limit",
    "rate_limit",
    "Overloaded",
    "Service Unavailable",
    "service_unavailable",
    "service-unavailable",
    "internal error",
    "internal_error",
    "Internal Server Error",
    "internal_server_error",
    "server error",
    "server_error",
    "server-error",
    "Provider returned error",
    "provider_returned_error",
    "provider-returned-error",
    "terminated",
    "fetch failed",
    "Failed to fetch",
    "network error",
    "network_error",
    "network-error",
    "upstream connect error",
    "connection error",
    "connection refused",
    "connection lost",
    "socket connection was closed",
    "socket hang up",
    "reset before headers",
    "getaddrinfo ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "ETIMEDOUT",
    "request timeout",
    "request timed out",
    "Response time out",
    "read timed out",
    "stream timeout",
    "network timeout",
    "try your request again",
    "retry your request",
    "Please try again later",
    "try again in 5 s",
    "resource exhausted",
    "resource_exhausted",
    "RESOURCE_EXHAUSTED",
    "currently at capacity",
    "temporarily at capacity",
    '"try again in"',
]
# In a frame these are searched as JSON text, with quotes and escapes.
MAY_PASS_IN_AN_ANSWER = [
    "network\terror",
    "timeout",
    "Timeout",
    "network\nerror",
]
MAY_PASS_IN_A_FRAME = [
    "unavailable",
    "resource-exhausted",
    "exhausted",
    "too_many_requests",
]
NEVER_PASSES = [
    "501 Not Implemented",
    "505",
    "520",
    "529",
    "too many request",
    "ratelimit",
    "overload",
    "internal-error",
    "provider returned an error",
    "provider-returned error",
    "terminate",
    "fetch has failed",
    "networkerror",
    "connection reset",
    "socket closed",
    "EPIPE",
    "a timeout",
    "timeout ",
    "bread timed out",
    "read timeouts",
    "tool timeout",
    "try again",
    "retry again later",
    "try again into",
    "at capacity",
    "quota exceeded",
    "insufficient_quota",
    "no",
    "",
    'say "timeout"',
    "request\ntimeout",
    "try again\N{NO-BREAK SPACE}later",
    "invalid api key",
]


def goes(fault: Fault) -> str:
    error = POLICY.classify(fault)
    if error is ErrorClass.OVERFLOW:
        return "compact"
    return "retry" if POLICY.retryable(error) else "fail"


@in_cases(OVERFLOW)
def test_these_words_of_an_http_error_are_an_overflow(message: str) -> None:
    assert goes(Fault(message, status=401)) == "compact"


@in_cases([*RATE_LIMITS, *NO_OVERFLOW])
def test_these_words_are_no_overflow(message: str) -> None:
    assert goes(Fault(message, status=401)) != "compact"


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_the_words_of_an_overflow_beat_the_status_and_the_code(status: int) -> None:
    fault = Fault("prompt is too long", status=status, code="insufficient_quota")
    assert goes(fault) == "compact"


@in_cases(OVERFLOW)
def test_in_an_error_frame_the_words_of_an_overflow_are_none(message: str) -> None:
    assert goes(Fault(message)) != "compact"


def tries_again(message: str) -> tuple[bool, bool]:
    """Whether 1.18.34 repeats a 401 and an error frame of this message."""
    faults = (Fault(message, status=401), Fault(message, status=UNSET))
    answer, frame = (goes(fault) == "retry" for fault in faults)
    return answer, frame


@in_cases(MAY_PASS)
def test_1_18_34_tries_again_after_these_words(message: str) -> None:
    assert tries_again(message) == (True, True)


@in_cases(MAY_PASS_IN_AN_ANSWER)
def test_1_18_34_tries_again_after_these_words_of_an_answer_and_not_of_a_frame(
    message: str,
) -> None:
    assert tries_again(message) == (True, False)


@in_cases(MAY_PASS_IN_A_FRAME)
def test_1_18_34_tries_again_after_these_words_of_a_frame_and_not_of_an_answer(
    message: str,
) -> None:
    assert tries_again(message) == (False, True)


@in_cases(NEVER_PASSES)
def test_1_18_34_gives_up_after_these_words(message: str) -> None:
    assert tries_again(message) == (False, False)


def test_the_code_of_an_answer_is_searched_inside_its_body() -> None:
    """A body is never `timeout` alone, as a message may be."""
    codes = ["server_error", "rate_limit_exceeded", "timeout", "insufficient_quota"]
    faults = [Fault("no", status=401, code=code) for code in codes]
    assert [goes(fault) for fault in faults] == ["retry", "retry", "fail", "fail"]


@pytest.mark.parametrize(
    ("error", "done"),
    [
        ({"code": "context_length_exceeded"}, "compact"),
        ({"code": "insufficient_quota"}, "fail"),
        ({"code": "usage_not_included"}, "fail"),
        ({"code": "invalid_prompt"}, "fail"),
        ({"code": "invalid_prompt", "message": "Overloaded"}, "retry"),
        ({"code": "server_is_overloaded"}, "retry"),
        ({"code": "any other"}, "retry"),
        ({"type": "context_length_exceeded"}, "retry"),
        ({"code": 7}, "retry"),
        ("no", "retry"),
    ],
    ids=str,
)
def test_an_error_frame_whose_message_is_an_error_body_is_judged_by_its_code(
    error: object, done: str
) -> None:
    fault = Fault(json.dumps({"type": "error", "error": error}))
    assert goes(fault) == done


@pytest.mark.parametrize(
    "message", ['{"error": {"code": "x"}}', "[]", "7", '{"type": "error"', "[" * 100_000]
)
def test_an_error_frame_of_any_other_text_is_judged_by_its_words(message: str) -> None:
    assert goes(Fault(message)) == "fail"
