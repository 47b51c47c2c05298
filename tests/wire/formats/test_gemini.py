"""Gemini: replies are written as Google does."""

import pytest
from wirereading import CALL, CALLS, MODEL, OTHER, REPLY, STOP, data, streamed, whole

from simloop.messages import (
    Fault,
    Finish,
    FinishReason,
    Part,
    StreamError,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallPart,
)
from simloop.wire.formats.gemini import Gemini
from simloop.wire.formats.wire_format import WrongRequest
from simloop.world.http import HttpRequest

GEMINI = Gemini()
HEAD = {"modelVersion": MODEL, "responseId": "resp-3"}
NO_TOKENS = {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}
SIGNATURE = {"thoughtSignature": "c2lnbmF0dXJlLTM="}


def call(each: ToolCall, at: int) -> dict[str, object]:
    return {"functionCall": {"id": each.id, "name": "look", "args": {"at": at}}}


def test_each_event_is_a_whole_reply_and_the_last_has_the_end() -> None:
    *events, last = data(streamed(GEMINI, REPLY))
    written = [
        {"text": "Hm", "thought": True}, {"text": "So"}, {**call(CALL, 1), **SIGNATURE},
        call(OTHER, 2),
    ]  # fmt: skip
    assert events == [
        {"candidates": [{"content": {"role": "model", "parts": [each]}, "index": 0}], **HEAD}
        for each in written
    ]
    tokens = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
    ended = {"finishReason": "STOP", "index": 0}
    empty = {"role": "model", "parts": [{"text": ""}]}
    assert last == {"candidates": [{"content": empty, **ended}], "usageMetadata": tokens, **HEAD}
    content = {"role": "model", "parts": written}
    assert whole(GEMINI, REPLY) == {
        "candidates": [{"content": content, **ended}], "usageMetadata": tokens, **HEAD,
    }  # fmt: skip


def test_an_empty_reply_has_a_content_without_parts() -> None:
    for (body,) in (data(streamed(GEMINI, [STOP])), [whole(GEMINI, [STOP])]):
        (candidate,) = body["candidates"]
        assert candidate == {"content": {"role": "model"}, "finishReason": "STOP", "index": 0}


def test_a_filtered_reply_without_output_is_a_blocked_prompt() -> None:
    for raw, word in (("content-filter", "SAFETY"), ("PROHIBITED_CONTENT", "PROHIBITED_CONTENT")):
        finish = Finish(FinishReason.CONTENT_FILTER, raw)
        blocked = {"promptFeedback": {"blockReason": word}, "usageMetadata": NO_TOKENS, **HEAD}
        assert data(streamed(GEMINI, [finish])) == [blocked]
        assert whole(GEMINI, [finish]) == blocked
        said = whole(GEMINI, [TextDelta("x"), finish])
        assert said["candidates"][0]["finishReason"] == word
    recited = whole(GEMINI, [Finish(FinishReason.CONTENT_FILTER, "RECITATION")])
    assert recited["candidates"][0]["finishReason"] == "RECITATION"


@pytest.mark.parametrize("arguments", ["{oops", "[1]", "null", '"x"'])
def test_arguments_that_are_no_object_are_malformed(arguments: str) -> None:
    parts: list[Part] = [TextDelta("So"), ToolCallPart(ToolCall("c", "look", arguments)), CALLS]
    for body in (whole(GEMINI, parts), data(streamed(GEMINI, parts))[-1]):
        (candidate,) = body["candidates"]
        assert candidate["finishReason"] == "MALFORMED_FUNCTION_CALL"
        assert candidate["finishMessage"] == "Malformed function call"
        assert "functionCall" not in str(candidate["content"])


def test_a_call_that_is_cut_off_is_not_sent_even_if_its_arguments_look_whole() -> None:
    half = ToolCallDelta("call-1", "look", '{"at":1}')
    cut: list[Part] = [TextDelta("So"), half, Finish(FinishReason.LENGTH, "length")]
    assert "functionCall" not in str([whole(GEMINI, cut), *data(streamed(GEMINI, cut))])
    assert whole(GEMINI, cut)["candidates"][0]["finishReason"] == "MAX_TOKENS"


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ("stop", "STOP"), ("tool-calls", "STOP"), ("end_turn", "STOP"), ("length", "MAX_TOKENS"),
        ("max_tokens", "MAX_TOKENS"), ("refusal", "SAFETY"), ("SPII", "SPII"),
        ("MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"), ("OTHER", "OTHER"),
        ("weird_reason", "weird_reason"),
    ],
)  # fmt: skip
def test_each_finish_word_goes_out_as_the_format_says_it(raw: str, word: str) -> None:
    body = whole(GEMINI, [TextDelta("x"), Finish(FinishReason.read(raw), raw)])
    assert body["candidates"][0]["finishReason"] == word


def test_an_error_in_a_stream_is_an_event_with_the_error() -> None:
    failure = StreamError(Fault("busy", code="UNAVAILABLE", status=503))
    assert data(streamed(GEMINI, [TextDelta("x"), failure]))[-1] == {
        "error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}
    }


PATHS = {
    "/v1beta/models/gemini-3:generateContent": "gemini-3",
    "/v1/models/gemini-3:countTokens": "gemini-3",
    "/v1/tunedModels/mine:generateContent": "mine",
    "/v1beta1/projects/p/locations/l/publishers/google/models/gemini-3:generateContent": "gemini-3",
    "/v1/projects/p/locations/l/endpoints/12:generateContent": "12",
}


@pytest.mark.parametrize("path", PATHS)
def test_the_model_stands_in_the_path(path: str) -> None:
    body = b'{"contents": [{"parts": [{"text": "hi"}]}]}'
    request = HttpRequest("POST", f"https://host{path}", (), body)
    assert GEMINI.answers(request)
    assert not GEMINI.answers(HttpRequest("POST", f"{request.url}s", (), body))
    read = GEMINI.read(request)
    assert (read.model, read.streams) == (PATHS[path], False)
    assert bool(read.size_reply) == path.endswith("countTokens")


def test_a_count_has_the_tools_of_the_request_inside_it() -> None:
    tools = b'"tools": [{"functionDeclarations": [{"name": "look"}]}]'
    body = b'{"generateContentRequest": {"contents": [{"parts": [{"text": "hi"}]}], %s}}' % tools
    request = HttpRequest("POST", "https://host/v1/models/m:countTokens", (), body)
    assert [each.name for each in GEMINI.read(request).tools] == ["look"]


def test_a_stream_that_is_a_list_is_refused_as_a_limit_of_simloop() -> None:
    url = "https://host/v1/models/m:streamGenerateContent"
    with pytest.raises(WrongRequest, match="alt=sse") as caught:
        GEMINI.read(HttpRequest("POST", url, (), b"{}"))
    assert caught.value.is_limit
