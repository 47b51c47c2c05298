"""The endpoint: which requests it answers, and when the headers and the pieces of a reply come."""

import base64
import json
import struct
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from wire import ASK, Heard, heard, in_run, posted

from simloop import Reply, Request, Result, ScriptedTool, World, parse_scenario, run
from simloop.errors import Deadlock, RunawayRun, ScriptExhausted
from simloop.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from simloop.scenario.replies import Http, Pace
from simloop.scenario.schema import Scenario
from simloop.trace import entries
from simloop.trace.codec import encode
from simloop.wire.endpoint import current_endpoint
from simloop.world.chance import ChanceFaults
from simloop.world.http import HttpRequest

ASKED = "POST /v1/chat/completions"
SLOW = Pace(first_part="250ms", per_part="100ms")


def refused(result: Result) -> list[str]:
    record = result.trace.entries
    refusals = [one for one in record if isinstance(one, entries.RequestRefused)]
    assert {(one.endpoint, one.status) for one in refusals} <= {(ASKED, 400)}
    return [one.text for one in refusals]


def test_a_whole_reply_comes_at_its_end() -> None:
    found = heard(Reply(say="Hello you", pace=SLOW))
    assert (found.status, found.headers["content-type"]) == (200, "application/json")
    assert (found.headers_at, found.ended_at) == (0.45, 0.45)
    assert json.loads(found.body)["choices"][0]["message"]["content"] == "Hello you"


def test_a_stream_comes_part_by_part() -> None:
    found = heard(Reply(say="Hello you", pace=SLOW), streams=True)
    assert (found.status, found.headers["content-type"]) == (
        200,
        "text/event-stream; charset=utf-8",
    )
    assert found.headers_at == 0.25
    assert [at for at, _ in found.pieces] == [0.25, 0.35, 0.45]
    assert found.body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("streams", [False, True])
def test_a_status_of_the_script_is_the_reply(streams: bool) -> None:  # noqa: FBT001
    found = heard(Reply(http=Http(status=429, retry_after="7s")), streams=streams)
    assert (found.status, found.headers["retry-after"]) == (429, "7")
    assert json.loads(found.body)["error"]["message"]


@pytest.mark.parametrize("streams", [False, True])
def test_an_exception_of_the_models_code_is_an_error_of_the_server(streams: bool) -> None:  # noqa: FBT001
    assert heard(Reply(raises="oh"), streams=streams).status == 500


@pytest.mark.parametrize(
    ("reply", "streams", "status", "pieces", "error"),
    [
        (Reply(lost="before-connect"), False, 0, 0, "ConnectionRefused"),
        (Reply(lost="before-connect"), True, 0, 0, "ConnectionRefused"),
        (Reply(lost="before-headers"), False, 0, 0, "ConnectionLost"),
        (Reply(lost="before-headers"), True, 0, 0, "ConnectionLost"),
        (Reply(lost="after-headers"), False, 200, 0, "ConnectionLost"),
        (Reply(lost="after-headers"), True, 200, 0, "ConnectionLost"),
        (Reply(say="Hello you", lost="mid-output"), False, 0, 0, "ConnectionLost"),
        (Reply(say="Hello you", lost="mid-output"), True, 200, 2, "ConnectionLost"),
    ],
)
def test_a_connection_is_lost_at_the_point_that_the_script_names(
    reply: Reply,
    streams: bool,  # noqa: FBT001
    status: int,
    pieces: int,
    error: str,
) -> None:
    found = heard(reply, streams=streams)
    assert (found.status, len(found.pieces), found.error) == (status, pieces, error)


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (Reply(stall="before-headers"), 0),
        (Reply(stall="after-headers"), 200),
        (Reply(say="Hello you", stall="mid-output"), 200),
    ],
)
def test_a_silent_server_ends_the_wait_after_the_clients_timeout(reply: Reply, status: int) -> None:
    found = heard(reply, streams=True, read_timeout_s=20)
    assert (found.status, found.error, found.ended_at) == (status, "TimedOut", 20.0)


QUIET = ChanceFaults(activate=0.0)
"""Chance faults of which none happens: another stream wraps that of the script."""


@pytest.mark.parametrize("streams", [False, True])
def test_an_empty_body_with_status_200_is_no_reply(streams: bool) -> None:  # noqa: FBT001
    found = heard(Reply(http=Http(status=200, body="")), streams=streams)
    assert (found.status, found.body, found.error) == (200, b"", "")


BY_CHANCE = ChanceFaults(activate=1.0, fire=1.0, sites=["model.unreachable"])
UNREACHABLE = Reply(stall="before-connect")


@pytest.mark.parametrize("faults", [None, QUIET, BY_CHANCE])
@pytest.mark.parametrize("read_timeout_s", [None, 2, 20])
def test_a_connection_that_is_not_made_ends_after_the_timeout_for_it(
    faults: ChanceFaults | None, read_timeout_s: float | None
) -> None:
    script = [] if faults is BY_CHANCE else [UNREACHABLE]
    scenario = Scenario(prompt="Go.", model=script, faults=faults)
    found = Heard()

    async def agent(_: str) -> None:
        await found.listen(posted(read_timeout_s=read_timeout_s))

    result = run(scenario, loop=agent)
    assert (found.status, found.error, found.ended_at) == (0, "TimedOut", 5.0)
    (error,) = [each for each in result.trace.entries if isinstance(each, entries.Error)]
    assert error.fault.message == "the client's connect timeout of 5 s is over"


def test_a_connection_is_waited_for_without_end_if_its_timeout_is_none() -> None:
    endless = msgspec.structs.replace(posted(read_timeout_s=20), connect_timeout_s=None)
    with pytest.raises(Deadlock):
        heard(Reply(stall="before-connect"), request=endless)


@pytest.mark.parametrize("site", ["model.lost-mid-output", "model.error-part", "model.slow"])
def test_no_chance_fault_reaches_a_provider_that_is_unreachable(site: str) -> None:
    always = ChanceFaults(activate=1.0, fire=1.0, sites=[site])
    scenario = Scenario(prompt="Go.", model=[Reply(lost="before-connect")], faults=always)
    found: list[Heard] = []

    async def agent(_: str) -> None:
        found.append(await Heard().listen(posted({**ASK, "stream": True})))

    for seed in range(10):  # the seed decides how much comes before the fault
        run(scenario, loop=agent, seed=seed)
    assert [(each.status, each.error) for each in found] == [(0, "ConnectionRefused")] * 10


def test_each_piece_begins_the_timeout_anew() -> None:
    slow = Pace(first_part="15s", per_part="15s")
    found = heard(Reply(say="Hello you", pace=slow), streams=True, read_timeout_s=20)
    assert (found.error, found.ended_at) == ("", 45.0)


def test_a_timeout_of_the_client_is_in_the_trace() -> None:
    async def main() -> None:
        await Heard().listen(posted(read_timeout_s=20))

    result = in_run(main, Reply(stall="before-headers"))
    (error,) = [each for each in result.trace.entries if isinstance(each, entries.Error)]
    assert (error.fault.code, error.at_ns) == ("timeout", 20 * 10**9)


def test_an_error_inside_a_stream_is_one_of_its_events() -> None:
    reply = Reply.model_validate({"say": "Hi", "error": {"message": "Overloaded"}})
    found = heard(reply, streams=True)
    assert found.status == 200
    assert b'"error"' in found.pieces[-1][1]


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_a_bad_request(body: bytes) -> None:
    found = Heard()

    async def main() -> None:
        await found.listen(posted(body))

    result = in_run(main)
    assert not result.requests
    assert (found.status, "JSON" in found.body.decode()) == (400, True)
    assert refused(result) == ["The body of the request is not a JSON object."]


def test_a_request_that_the_provider_refuses_is_a_bad_request() -> None:
    orphan = {"role": "tool\ud800", "tool_call_id": "x", "content": "a"}
    found = Heard()

    async def main() -> None:
        await found.listen(posted({**ASK, "messages": [orphan]}))

    (why,) = refused(in_run(main))
    assert found.status == 400
    assert why.startswith("messages[0].role: Invalid value: 'tool\ufffd'")


def test_refused_requests_are_bounded_as_others_are() -> None:
    async def main() -> None:
        while True:
            await Heard().listen(posted(b"{"))

    with pytest.raises(RunawayRun, match="the run passed max_transitions=101 requests"):
        in_run(main, Reply(say="Hello"))


def test_a_refusal_has_the_shape_of_the_format_that_was_asked() -> None:
    shapes = {"v1/messages": "type", "model/m/converse": "message", "v1/responses": "error"}
    _, found = answers(*[posted(b"{", f"https://models.test/{path}") for path in shapes])
    assert [next(iter(body)) for _, body in found] == [*shapes.values()]


@pytest.mark.parametrize(
    ("host", "body", "status"),
    [("mails.test", {"text": "Hi."}, 0), ("mails.test", {"model": "m"}, 400),
     ("api.anthropic.com", {"text": "Hi."}, 400)],
)  # fmt: skip
def test_what_names_no_model_is_for_a_provider_or_for_a_service_that_is_not_there(
    host: str, body: dict[str, str], status: int
) -> None:
    found = Heard()

    async def main() -> None:
        await found.listen(posted(body, f"https://{host}/v1/messages"))

    record = in_run(main).trace.entries
    refusals = [each for each in record if isinstance(each, entries.RequestRefused)]
    assert len(refusals) == (status == 400)
    assert found.status == status


def test_a_request_that_only_a_script_cannot_answer_is_no_mistake_of_its_sender() -> None:
    async def main() -> None:
        await Heard().listen(posted({**ASK, "n": 2}))

    result = in_run(main)
    assert refused(result) == []
    (note,) = (one.text for one in result.trace.entries if isinstance(one, entries.Note))
    assert note.startswith(f"{ASKED} is answered with status 400: n: A script has one reply")


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("POST", "https://api.weather.test/v1/today"),
        ("POST", "https://api.weather.test:443/v1/today?zip=1"),
        ("GET", "https://models.test/v1/chat/completions"),
        ("GET", "https://models.test/v1/models"),
    ],
)
def test_an_unknown_address_refuses_the_connection_and_the_run_records_it(
    method: str, url: str
) -> None:
    found = Heard()

    async def main() -> None:
        await found.listen(posted(url=url, method=method))

    (entry,) = (one for one in in_run(main).trace.entries if isinstance(one, entries.Refused))
    asked = f"{method} {url.partition('?')[0].replace(':443', '')}"
    assert (entry.what, entry.asked, entry.meant) == ("host", asked, False)
    assert entry.place.startswith("wire.py:")
    assert found.error == "ConnectionRefused"


HOSTS = {
    "api.openai.com": "404", "api.anthropic.com": "404",
    "generativelanguage.googleapis.com": "404", "aiplatform.googleapis.com": "404",
    "us-central1-aiplatform.googleapis.com": "404",
    "bedrock-runtime.eu-west-1.amazonaws.com": "404",
    "bedrock-runtime-fips.us-east-1.amazonaws.com": "404",
    "bedrock-runtime.cn-north-1.amazonaws.com.cn": "404",
    "storage.googleapis.com": "ConnectionRefused", "s3.amazonaws.com": "ConnectionRefused",
    "api.openai.com.example.org": "ConnectionRefused",
    "metadata.google.internal": "ConnectionRefused",
}  # fmt: skip


def test_the_hosts_of_providers_are_there_and_no_others() -> None:
    heard = {host: Heard() for host in HOSTS}

    async def main() -> None:
        for host, found in heard.items():
            await found.listen(posted(url=f"https://{host}/v1/files", method="GET"))

    in_run(main)
    assert {host: found.error or str(found.status) for host, found in heard.items()} == HOSTS
    bodies = [json.loads(found.body) for found in heard.values() if not found.error]
    for body in bodies:  # of OpenAI and others, and of Amazon
        assert body["error"]["message"] == body["message"] == "Unknown request URL: GET /v1/files."


RESPONSES = "https://api.openai.com/v1"
CALL = {"type": "function_call_output", "call_id": "call-1", "output": "Sunny."}


def told(result: Result) -> list[str]:
    return [one.text for one in result.trace.entries if isinstance(one, entries.Note)]


def answers(*requests: HttpRequest, replies: tuple[Reply, ...] = ()) -> tuple[Result, list[Any]]:
    """Return a run that sends these requests, and the status and the body of each reply."""
    found: list[Any] = []

    async def main() -> None:
        for request in requests:
            reply = await Heard().listen(request)
            found.append((reply.status, json.loads(reply.body)))

    return in_run(main, *replies), found


def response(text: Any, **more: Any) -> HttpRequest:
    return posted({"model": "m", "input": text, **more}, f"{RESPONSES}/responses")


def asking(method: str, path: str, body: Any = b"") -> HttpRequest:
    return posted(body, f"{RESPONSES}/{path}", method=method)


def test_a_response_goes_on_from_the_one_before_with_all_that_was_said() -> None:
    replies = Reply(call={"weather": {}}), Reply(say="Sunny."), Reply(say="Bye.")
    result, found = answers(
        response("Oslo?", instructions="Be brief."),
        response([CALL], previous_response_id="resp_1", stream=False),
        response("Thanks.", previous_response_id="resp_2"),
        asking("GET", "responses/resp_2/input_items"),
        replies=replies,
    )
    items = found.pop()[1]["data"]
    assert [each["type"] for each in items] == ["function_call_output", "function_call", "message"]
    call = AssistantMessage("", (ToolCall("call-1", "weather", "{}"),))
    said = [UserMessage("Oslo?"), call, ToolMessage("call-1", "Sunny."),
            AssistantMessage("Sunny."), UserMessage("Thanks.")]  # fmt: skip
    assert [list(each.messages) for each in result.requests] == [said[:1], said[:3], said]
    assert [each.system_prompt for each in result.requests] == ["Be brief.", "", ""]
    assert [body["previous_response_id"] for _, body in found] == [None, "resp_1", "resp_2"]


GONE: dict[str, tuple[list[HttpRequest], int, str | None, str | None]] = {
    "not stored": (
        [response("Hi", store=False), response("And?", previous_response_id="resp_1")],
        400, "previous_response_id", "previous_response_not_found",
    ),
    "deleted": (
        [response("Hi"), asking("DELETE", "responses/resp_1"),
         response("And?", previous_response_id="resp_1")],
        400, "previous_response_id", "previous_response_not_found",
    ),
    "retrieved": ([response("Hi", store=False), asking("GET", "responses/resp_1")],
                  404, None, None),
    "an item": (
        [response("Hi", store=False), response([{"type": "item_reference", "id": "msg_1_0"}])],
        404, "input", None,
    ),
    "a conversation": (
        [asking("POST", "conversations", {}), asking("DELETE", "conversations/conv_1"),
         response("Hi", conversation="conv_1")],
        404, None, None,
    ),
    "a conversation that is read": ([asking("GET", "conversations/conv_1")], 404, None, None),
}  # fmt: skip


@pytest.mark.parametrize(("requests", "status", "param", "code"), GONE.values(), ids=GONE)
def test_what_is_not_kept_is_not_found(
    requests: list[HttpRequest], status: int, param: str | None, code: str | None
) -> None:
    asked = requests[0].url.endswith("/responses")
    _, found = answers(*requests, replies=(Reply(say="Hello."),) * asked)
    error = found[-1][1]["error"]
    assert (found[-1][0], error["param"], error["code"]) == (status, param, code)
    assert error["type"] == "invalid_request_error"
    assert "not found" in error["message"]


@pytest.mark.parametrize("how", [{"lost": "mid-output"}, {"stall": "mid-output"}])
def test_a_response_that_does_not_end_is_not_kept(how: Any) -> None:
    cut = msgspec.structs.replace(response("Hi", stream=True), read_timeout_s=5)
    found = Heard()

    async def main() -> None:
        assert (await Heard().listen(cut)).error
        await found.listen(asking("GET", "responses/resp_1"))

    in_run(main, Reply(say="Hello you", **how))
    assert found.status == 404


def test_a_conversation_has_the_items_of_each_response() -> None:
    begun = {"items": [{"type": "message", "role": "user", "content": "I am in Oslo."}]}
    result, found = answers(
        asking("POST", "conversations", begun),
        response("The weather?", conversation={"id": "conv_1"}),
        asking(
            "POST", "conversations/conv_1/items", {"items": [{"role": "user", "content": "So"}]}
        ),
        response([{"type": "item_reference", "id": "msg_1_0"}], conversation="conv_1", store=False),
        asking("GET", "conversations/conv_1"),
        asking("GET", "conversations/conv_1/items?limit=2"),
        asking("GET", "conversations/conv_1/items?order=asc"),
        replies=(Reply(say="Sunny."), Reply(say="Bye.")),
    )
    assert [each.text for each in result.requests[1].messages] == [
        "I am in Oslo.", "The weather?", "Sunny.", "So", "Sunny.",
    ]  # fmt: skip
    assert found[1][1]["conversation"] == {"id": "conv_1"}
    assert found[4][1]["object"] == "conversation"
    first, rest = found[5][1], found[6][1]
    assert [each["id"] for each in first["data"]] == ["msg_2_0", "msg_1_0"]
    assert rest["data"][-2:] == first["data"][::-1]
    assert (rest["first_id"], rest["last_id"], len(rest["data"])) == ("item_0", "msg_2_0", 6)
    assert {status for status, _ in found} == {200}


def test_a_conversation_without_items_has_no_first_one() -> None:
    empty = asking("GET", "conversations/conv_1/items")
    _, (_, (_, items)) = answers(asking("POST", "conversations", {}), empty)
    assert (items["first_id"], items["last_id"], items["data"]) == (None, None, [])


def test_an_item_that_is_deleted_leaves_the_others() -> None:
    said = {"role": "user", "content": "Hi"}
    _, found = answers(
        asking("POST", "conversations", {"items": [said, said]}),
        asking("DELETE", "conversations/conv_1/items/item_0"),
        asking("GET", "conversations/conv_1/items"),
    )
    assert [each["id"] for each in found[-1][1]["data"]] == ["item_1"]


def test_a_request_goes_on_in_one_way() -> None:
    _, ((status, body),) = answers(response("Hi", previous_response_id="a", conversation="b"))
    assert (status, body["error"]["code"]) == (400, "mutually_exclusive_parameters")


def test_what_is_deleted_is_named() -> None:
    _, found = answers(
        response("Hi"),
        asking("DELETE", "responses/resp_1"),
        asking("POST", "conversations", {}),
        asking("DELETE", "conversations/conv_1"),
        replies=(Reply(say="Hello."),),
    )
    assert [found[1][1], found[3][1]] == [
        {"id": "resp_1", "object": "response.deleted", "deleted": True},
        {"id": "conv_1", "object": "conversation.deleted", "deleted": True},
    ]


def test_a_response_that_is_kept_is_not_streamed_again() -> None:
    again = asking("GET", "responses/resp_1?stream=true")
    result, ((_, sent), (status, body)) = answers(response("Hi"), again, replies=(Reply(say="x"),))
    assert (sent["id"], status, body["error"]["param"]) == ("resp_1", 400, "stream")
    assert "simloop streams a response once" in told(result)[0]


def test_what_asks_no_model_is_answered_and_noted() -> None:
    result, found = answers(
        response("Hi"),
        asking("GET", "responses/resp_1"),
        asking("GET", "responses/resp_1/input_items"),
        asking("POST", "responses/input_tokens", {"model": "m", "input": "x" * 40}),
        asking(
            "POST",
            "messages/count_tokens",
            {**ASK, "messages": [{"role": "user", "content": "x" * 40}]},
        ),
        asking("GET", "models/ft:gpt-5:shop::1"),
        replies=(Reply(say="Hello."),),
    )
    sent, kept, items, *sizes, model = (body for _, body in found)
    assert {status for status, _ in found} == {200}
    assert kept == sent
    said = [{"type": "input_text", "text": "Hi"}]
    assert (items["first_id"], items["data"][0]["content"]) == ("item_resp_1_0", said)
    assert [each["input_tokens"] for each in sizes] == [14, 14]
    assert (model["id"], model["object"]) == ("ft:gpt-5:shop::1", "model")
    assert [line.removeprefix("GET /v1/") for line in told(result)] == [
        "responses/resp_1 is answered without a model",
        "responses/resp_1/input_items is answered without a model",
        "POST /v1/responses/input_tokens is answered with 14 tokens",
        "POST /v1/messages/count_tokens is answered with 14 tokens",
        "models/ft:gpt-5:shop::1 is answered without a model",
    ]
    assert len(result.requests) == 1


@pytest.mark.parametrize(
    ("header", "own"),
    [
        ("", {"id": "gpt-5", "object": "model"}),
        ("anthropic-version", {"id": "claude-sonnet-5", "type": "model"}),
        ("x-goog-api-key", {"name": "models/gemini-3-pro"}),
    ],
)
def test_each_provider_lists_models_of_its_own(header: str, own: dict[str, str]) -> None:
    name = next(iter(own.values())).removeprefix("models/")
    paths = [asking("GET", "models"), asking("GET", f"models/{name}")]
    requests = [msgspec.structs.replace(each, headers=((header, "x"),)) for each in paths]
    _, ((_, listed), (_, model)) = answers(*requests)
    assert model.items() >= own.items()
    assert listed["models" if "name" in own else "data"][0] == model


def test_texts_with_common_words_have_near_vectors() -> None:
    texts = ["The cat sat.", "the CAT sat down", "Markets fell"]
    asked = {"model": "text-embedding-3-small", "input": texts}
    url = "https://gateway.test/v1/embeddings"
    others: tuple[dict[str, Any], ...] = (
        {}, {"encoding_format": "base64"}, {"input": "The cat sat.", "dimensions": 8},
        {"input": [1, 2]}, {"model": "text-embedding-3-large", "input": "?!"}, {"input": []},
        {"dimensions": -1}, {"dimensions": 4097},
    )  # fmt: skip
    requests = [posted({**asked, **more}, url) for more in others]
    _, ((_, floats), (_, packed), (_, small), (_, tokens), (_, large), *wrong) = answers(*requests)
    one, other, far = (each["embedding"] for each in floats["data"])

    def likeness(first: list[float], second: list[float]) -> float:
        return sum(a * b for a, b in zip(first, second, strict=True))

    assert round(likeness(one, one), 6) == 1
    assert likeness(one, other) > 0.8 > abs(likeness(one, far))
    raw = base64.b64decode(packed["data"][0]["embedding"])
    assert list(struct.unpack(f"<{len(one)}f", raw)) == one
    assert (len(one), len(small["data"][0]["embedding"]), len(tokens["data"])) == (1536, 8, 1)
    assert floats["usage"] == {"prompt_tokens": 10, "total_tokens": 10}
    assert large["data"][0]["embedding"] == [1, *[0] * 3071]  # of a text without words
    assert [each["index"] for each in floats["data"]] == [0, 1, 2]
    assert [status for status, _ in wrong] == [400, 400, 400]


@pytest.mark.parametrize("host", ["api.openai.com", "gateway.test"])
def test_the_host_of_a_provider_has_no_path_that_is_for_no_model(host: str) -> None:
    found = Heard()

    async def main() -> None:
        await Heard().listen(posted(url=f"https://{host}/v1/chat/completions"))
        await found.listen(posted(url=f"https://{host}/v1/files"))

    record = in_run(main, Reply(say="Hi")).trace.entries
    assert found.status == 404
    assert json.loads(found.body)["error"]["code"] == "unknown_url"
    (asked,) = (one.asked for one in record if isinstance(one, entries.Refused))
    assert asked == f"POST https://{host}/v1/files"


def test_a_script_that_runs_out_fails_the_run_even_if_the_agent_goes_on() -> None:
    found = Heard()

    async def main() -> None:
        await found.listen(posted())
        await found.listen(posted())

    with pytest.raises(ScriptExhausted):
        in_run(main, Reply(say="Hi"))
    assert (found.status, found.headers["x-should-retry"]) == (500, "false")


def test_a_reply_that_is_closed_closes_the_models_stream() -> None:
    closed = []

    async def model(request: Request):  # type: ignore[no-untyped-def]  # noqa: ANN202
        try:
            while True:
                yield Reply(say="a").play(1)[0][1]
        finally:
            closed.append(request.number)

    async def agent(_: str) -> None:
        endpoint = current_endpoint()
        assert endpoint is not None
        reply = await endpoint.answer(posted({**ASK, "stream": True}))
        async for piece in reply.body:
            assert piece
            break
        await reply.body.aclose()
        assert closed == [1]

    run(Scenario(prompt="Go."), loop=agent, model=model).check()


def test_outside_of_runs_there_is_no_endpoint() -> None:
    assert current_endpoint() is None


def test_a_scenario_says_how_its_provider_writes() -> None:
    found = Heard()

    async def agent(_: str) -> None:
        await found.listen(posted({**ASK, "stream": True}))

    scenario = parse_scenario("prompt: Go.\nwire: {framing: crlf}\nmodel: [{say: Hi}]\n")
    run(scenario, loop=agent)
    assert b"\r\n\r\n" in found.body


@pytest.mark.parametrize("kept", [False, True])
def test_raw_bodies_are_kept_on_demand_and_in_no_trace(kept: bool) -> None:  # noqa: FBT001
    async def main() -> None:
        await Heard().listen(posted({**ASK, "user": "secret"}))

    result = in_run(main, Reply(say="Hi"), keep_bodies=kept)
    assert {n: json.loads(body)["user"] for n, body in result.bodies.items()} == (
        {1: "secret"} if kept else {}
    )
    assert b"secret" not in encode(result.trace)


def in_chat(prompt: str, text: str) -> HttpRequest:
    call = {"id": "a", "type": "function", "function": {"name": "save", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": prompt},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": text},
    ]
    return posted({"model": "gpt-5", "messages": messages})


def in_gemini(prompt: str, text: str) -> HttpRequest:
    given = {"id": "a", "name": "save"}
    contents = [
        {"parts": [{"text": prompt}]},
        {"role": "model", "parts": [{"functionCall": given}]},
        {"parts": [{"functionResponse": {**given, "response": {"result": text}}}]},
    ]
    return posted({"contents": contents}, "https://models.test/v1/models/m:generateContent")


@pytest.mark.parametrize("asked", [in_chat, in_gemini])
@pytest.mark.parametrize(
    ("text", "is_error"), [("Error: the disk is full", True), ("It is full.", False)]
)
def test_a_failed_result_is_marked_if_its_text_came_back(
    asked: Callable[[str, str], HttpRequest],
    text: str,
    is_error: bool,  # noqa: FBT001
) -> None:
    async def agent(prompt: str, world: World) -> None:
        await world.tools.run(ToolCall("a", "save", "{}"))
        await Heard().listen(asked(prompt, text))

    broken = ScriptedTool(raises="the disk is full")
    scenario = Scenario(prompt="Save.", tools={"save": broken}, model=[Reply(say="No.")])
    (request,) = run(scenario, loop=agent).requests
    assert request.messages[0] == UserMessage("Save.")
    assert request.messages[-1] == ToolMessage("a", text, is_error=is_error)
