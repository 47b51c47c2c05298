"""google-genai and boto3 read back what was written, and fail and wait as their packages say.

Each call is one run: the client is the real one, and finds its key as a program does.
"""

import functools
import importlib
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from simloop import Http, Pace, Reply, Scenario, run
from simloop.errors import CheckFailed
from simloop.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from simloop.runs.run import Simulation
from simloop.trace import entries
from simloop.trace.codec import encode
from simloop.trace.requests import requests
from simloop.virtual.seeds import Seeds

pytestmark = pytest.mark.sdks

MODEL = "us.anthropic.claude-sonnet-5-v1:0"
HI = [{"role": "user", "content": [{"text": "Hi"}]}]


class Read(NamedTuple):
    """A reply as an SDK gives it."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[tuple[str, str, Any], ...] = ()
    ending: str = ""
    usage: tuple[int, int] = (0, 0)


@functools.cache
def gemini(*, retries: bool = False, timeout_ms: int | None = None) -> Any:
    genai = importlib.import_module("google.genai")
    again = genai.types.HttpRetryOptions() if retries else None
    options = genai.types.HttpOptions(retry_options=again, timeout=timeout_ms)
    return genai.Client(http_options=options)


def read_gemini(streams: bool, **client: Any) -> Read:  # noqa: FBT001 - a column of the tables
    asked = {"model": "gemini-3-pro", "contents": "Hi"}
    models = gemini(**client).models
    given = (
        models.generate_content_stream
        if streams
        else lambda **own: [models.generate_content(**own)]
    )
    text, reasoning, calls, ending, usage = "", "", [], "", (0, 0)
    for reply in given(**asked):
        if reply.prompt_feedback is not None:
            ending = reply.prompt_feedback.block_reason.value
        for candidate in reply.candidates or ():
            for part in candidate.content.parts or ():
                text += "" if part.thought else part.text or ""
                reasoning += (part.text or "") if part.thought else ""
                call = part.function_call
                calls += [(call.id, call.name, call.args)] if call else []
            ending = candidate.finish_reason.value if candidate.finish_reason else ending
        counts = reply.usage_metadata
        if counts is not None:
            usage = counts.prompt_token_count, counts.candidates_token_count
    return Read(text, reasoning, tuple(calls), ending, usage)


@functools.cache
def bedrock(*, timeout_ms: int | None = None, retries: bool = True) -> Any:
    given = {"read_timeout": timeout_ms / 1000} if timeout_ms else {}
    none = {} if retries else {"retries": {"total_max_attempts": 1}}
    config = importlib.import_module("botocore.config").Config(**given, **none)
    return importlib.import_module("boto3").client("bedrock-runtime", config=config)


def read_bedrock(streams: bool, **client: Any) -> Read:  # noqa: FBT001 - as above
    if not streams:
        reply = bedrock(**client).converse(modelId=MODEL, messages=HI)
        content, usage = reply["output"]["message"]["content"], reply["usage"]
        uses = [one["toolUse"] for one in content if "toolUse" in one]
        thoughts = [one["reasoningContent"] for one in content if "reasoningContent" in one]
        return Read(
            "".join(one.get("text", "") for one in content),
            "".join(one["reasoningText"]["text"] for one in thoughts),
            tuple((one["toolUseId"], one["name"], one["input"]) for one in uses),
            reply["stopReason"],
            (usage["inputTokens"], usage["outputTokens"]),
        )
    text, reasoning, ending, usage = "", "", "", (0, 0)
    calls: dict[int, list[Any]] = {}
    for event in bedrock(**client).converse_stream(modelId=MODEL, messages=HI)["stream"]:
        ((name, value),) = event.items()
        delta = value.get("delta", {})
        text += delta.get("text", "")
        reasoning += delta.get("reasoningContent", {}).get("text", "")
        if name == "contentBlockStart":
            use = value["start"]["toolUse"]
            calls[value["contentBlockIndex"]] = [use["toolUseId"], use["name"], ""]
        if "toolUse" in delta:
            calls[value["contentBlockIndex"]][2] += delta["toolUse"]["input"]
        ending = value.get("stopReason", ending)
        if name == "metadata":
            usage = value["usage"]["inputTokens"], value["usage"]["outputTokens"]
    json = importlib.import_module("json")
    whole = tuple((one, name, json.loads(given)) for one, name, given in calls.values())
    return Read(text, reasoning, whole, ending, usage)


READERS: dict[str, Callable[..., Read]] = {"gemini": read_gemini, "bedrock": read_bedrock}
every_sdk = pytest.mark.parametrize("sdk", READERS)


class Done(NamedTuple):
    """What a client has read or raised, when it has sent its requests, and when it was done."""

    read: Any
    sent_s: list[float]
    ended_s: float


def done(ask: Callable[[], Any], *replies: Reply, seed: int = 0) -> Done:
    """Call `ask` in a run of these replies, of which it may leave some unused."""
    found: list[Any] = []

    def agent(prompt: str) -> None:
        del prompt
        try:
            found.append(ask())
        except Exception as error:  # noqa: BLE001 - the tests look at it
            found.append(error)

    simulation = Simulation(Scenario(prompt="Go.", model=[*replies]), loop=agent, seed=seed)
    try:
        simulation.run()
    except CheckFailed as failed:
        assert "did not use" in str(failed), failed  # noqa: PT017 - replies for more tries
    trace = simulation.trace.entries
    sent = [each.at_ns / 1e9 for each in trace if isinstance(each, entries.Request)]
    return Done(found[0], sent, trace[-1].at_ns / 1e9)


CALLS = {"look": {"at": 1}}
REPLIES: dict[str, tuple[Reply, Read]] = {
    "text": (Reply(say=["Hel", "lo\u2028é"], usage={"input": 11, "output": 7}),
             Read("Hello\u2028é", ending="stop", usage=(11, 7))),
    "calls": (Reply(say="So", call=[CALLS, {"look": {"at": "é"}}]),
              Read("So", calls=(("call-1", "look", {"at": 1}), ("call-2", "look", {"at": "é"})),
                   ending="calls")),
    "thinking": (Reply(think="Hm", say="Yes"), Read("Yes", "Hm", ending="stop")),
    "length": (Reply(say="Hel", finish="length"), Read("Hel", ending="length")),
    "filter": (Reply(say="Hel", finish="content-filter"), Read("Hel", ending="filter")),
    "blocked": (Reply(finish="content-filter"), Read(ending="filter")),
}  # fmt: skip
ENDINGS = {
    "gemini": {"stop": "STOP", "calls": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"},
    "bedrock": {
        "stop": "end_turn", "calls": "tool_use", "length": "max_tokens",
        "filter": "content_filtered",
    },
}  # fmt: skip


@every_sdk
def test_an_sdk_reads_back_what_was_written(sdk: str) -> None:
    for name, (reply, expected) in REPLIES.items():
        for streams in (True, False):
            found = done(lambda streams=streams: READERS[sdk](streams), reply).read  # type: ignore[misc]
            assert found == expected._replace(ending=ENDINGS[sdk][expected.ending]), name


def test_a_broken_call_is_malformed_in_gemini_and_a_text_in_bedrock() -> None:
    broken = Reply(call={"look": '{"at'})
    assert done(lambda: read_gemini(streams=True), broken).read.ending == "MALFORMED_FUNCTION_CALL"
    (use,) = done(lambda: read_bedrock(streams=False), broken).read.calls
    assert use == ("call-1", "look", '{"at')


# ---------------------------------------------------------------- failures

BACKOFF = {  # the waits of the packages: exponential, with a draw from the global generator
    "gemini": lambda n, draw: 2**n + draw,
    "throttled": lambda n, draw: draw * 2**n,
    "transient": lambda n, draw: draw * 2**n * 0.05,
}


def formula(name: str, requests: int, *, wait_s: float = 0, seed: int = 0) -> list[float]:
    """Return when the requests are sent by a formula, each after a wait for the one before."""
    draw = random.Random(Seeds(seed).number("global-random")).random
    sent = [0.0]
    for n in range(requests - 1):
        sent.append(sent[-1] + wait_s + BACKOFF[name](n, draw()))
    return sent


class Fails(NamedTuple):
    """A reply, the error of each kind of call, and the requests of one that tries again."""

    reply: Reply
    error: str
    streamed: str
    requests: int
    waits: str
    wait_s: float = 0


GEMINI = {
    "429": Fails(
        Reply(http=Http(status=429, retry_after="7s")), "ClientError", "ClientError", 5, "gemini"
    ),
    "500": Fails(Reply(http=Http(status=500)), "ServerError", "ServerError", 5, "gemini"),
    "502": Fails(Reply(http=Http(status=502)), "ServerError", "ServerError", 5, "gemini"),
    "503": Fails(Reply(http=Http(status=503)), "ServerError", "ServerError", 5, "gemini"),
    "400": Fails(Reply(http=Http(status=400)), "ClientError", "ClientError", 1, "gemini"),
    "403": Fails(Reply(http=Http(status=403)), "ClientError", "ClientError", 1, "gemini"),
    "refused": Fails(Reply(lost="before-connect"), "ConnectError", "ConnectError", 5, "gemini"),
    "closed": Fails(
        Reply(lost="before-headers"), "RemoteProtocolError", "RemoteProtocolError", 1, "gemini"
    ),
    "cut early": Fails(Reply(lost="after-headers"), "ReadError", "ReadError", 1, "gemini"),
    "cut": Fails(
        Reply(say=["He", "l"], lost="mid-output"), "RemoteProtocolError", "ReadError", 1, "gemini"
    ),
    "stall": Fails(Reply(stall="before-headers"), "ReadTimeout", "ReadTimeout", 5, "gemini", 5),
    "error": Fails(
        Reply(say="He", error={"message": "busy", "code": "overloaded_error"}),
        "ServerError",
        "ServerError",
        1,
        "gemini",
    ),
}
BEDROCK = {
    "429": Fails(
        Reply(http=Http(status=429, retry_after="7s")),
        "ThrottlingException",
        "ThrottlingException",
        3,
        "throttled",
    ),
    "500": Fails(
        Reply(http=Http(status=500)),
        "InternalServerException",
        "InternalServerException",
        3,
        "transient",
    ),
    "502": Fails(Reply(http=Http(status=502)), "ClientError", "ClientError", 3, "transient"),
    "503": Fails(
        Reply(http=Http(status=503)),
        "ServiceUnavailableException",
        "ServiceUnavailableException",
        3,
        "transient",
    ),
    "400": Fails(
        Reply(http=Http(status=400)), "ValidationException", "ValidationException", 1, "transient"
    ),
    "403": Fails(
        Reply(http=Http(status=403)),
        "AccessDeniedException",
        "AccessDeniedException",
        1,
        "transient",
    ),
    "refused": Fails(
        Reply(lost="before-connect"),
        "EndpointConnectionError",
        "EndpointConnectionError",
        3,
        "transient",
    ),
    "closed": Fails(
        Reply(lost="before-headers"),
        "ConnectionClosedError",
        "ConnectionClosedError",
        3,
        "transient",
    ),
    "stall": Fails(
        Reply(stall="before-headers"), "ReadTimeoutError", "ReadTimeoutError", 3, "transient", 5
    ),
}
CUT = {  # in a stream of Bedrock, nothing is tried again
    "cut early": (Reply(lost="after-headers"), "ProtocolError"),
    "cut": (Reply(say=["He", "l"], lost="mid-output"), "ProtocolError"),
    "stall": (Reply(say=["He", "l"], stall="mid-output"), "ReadTimeoutError"),
    "error": (
        Reply(say="He", error={"message": "busy", "code": "overloaded_error"}),
        "EventStreamError",
    ),
    "error first": (
        Reply(error={"message": "busy", "code": "overloaded_error"}),
        "EventStreamError",
    ),
}
FAILURES = [("gemini", name) for name in GEMINI] + [("bedrock", name) for name in BEDROCK]


@pytest.mark.parametrize(("sdk", "name"), FAILURES)
def test_a_failure_is_raised_and_tried_again_after_the_waits_of_the_package(
    sdk: str, name: str
) -> None:
    fails = (GEMINI if sdk == "gemini" else BEDROCK)[name]
    for streams in (False, True):
        found = done(
            lambda streams=streams: READERS[sdk](streams, retries=True, timeout_ms=5000),  # type: ignore[misc]
            *[fails.reply] * 5, seed=3,
        )  # fmt: skip
        assert type(found.read).__name__ == (fails.streamed if streams else fails.error)
        expected = formula(fails.waits, fails.requests, wait_s=fails.wait_s, seed=3)
        assert found.sent_s == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("name", CUT)
def test_a_stream_of_bedrock_that_breaks_off_raises_and_is_not_tried_again(name: str) -> None:
    reply, error = CUT[name]
    found = done(lambda: read_bedrock(streams=True, timeout_ms=5000), reply)
    assert (type(found.read).__name__, len(found.sent_s)) == (error, 1)
    assert found.ended_s == (5 if name == "stall" else 0)


def test_gemini_tries_nothing_again_unless_it_is_told_to() -> None:
    found = done(lambda: read_gemini(streams=False), *[Reply(http=Http(status=503))] * 2)
    assert (type(found.read).__name__, found.sent_s) == ("ServerError", [0])


def test_an_error_of_a_provider_has_its_words_and_its_hint() -> None:
    limited = Reply(http=Http(status=429, retry_after="7s"))
    error = done(lambda: read_gemini(streams=False), limited).read
    assert (error.code, error.status) == (429, "RESOURCE_EXHAUSTED")
    assert error.details["error"]["details"][0]["retryDelay"] == "7s"
    error = done(lambda: read_bedrock(streams=False, retries=False), limited).read
    assert error.response["Error"]["Code"] == "ThrottlingException"
    assert error.response["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "7"


# ---------------------------------------------------------------- what is sent


def test_a_reply_goes_back_as_the_message_that_it_was() -> None:
    def on_gemini() -> None:
        models, types = gemini().models, importlib.import_module("google.genai.types")
        hi = types.UserContent("Hi")
        said = models.generate_content(model="m", contents=[hi]).candidates[0].content
        parts = [types.Part.from_function_response(name="look", response={"output": n})
                 for n in ("1", "2")]  # fmt: skip
        models.generate_content(model="m", contents=[hi, said, types.UserContent(parts)])

    def on_bedrock() -> None:
        client = bedrock()
        tools = {"tools": [{"toolSpec": {"name": "look", "inputSchema": {"json": {}}}}]}
        asked = {"modelId": MODEL, "toolConfig": tools}
        said = client.converse(**asked, messages=HI)["output"]["message"]
        results = [{"toolResult": {"toolUseId": f"call-{n}", "content": [{"text": f"{n}"}]}}
                   for n in (1, 2)]  # fmt: skip
        client.converse(**asked, messages=[*HI, said, {"role": "user", "content": results}])

    calls = (ToolCall("call-1", "look", '{"at":1}'), ToolCall("call-2", "look", '{"at":2}'))
    for ask in (on_gemini, on_bedrock):
        script = [Reply(say="So", call=[CALLS, {"look": {"at": 2}}]), Reply(say="Yes")]
        last = sent_in(ask, script)[-1]
        assert [*last.messages] == [
            UserMessage("Hi"), AssistantMessage("So", calls), ToolMessage("call-1", "1"),
            ToolMessage("call-2", "2"),
        ]  # fmt: skip


def sent_in(ask: Callable[[], Any], script: Sequence[Reply]) -> list[Any]:
    def agent(prompt: str) -> None:
        del prompt
        ask()

    result = run(Scenario(prompt="Go.", model=[*script]), loop=agent)
    assert result.outcome == "completed", result.message
    return [*requests(result.trace.entries)]


def test_a_count_of_tokens_is_answered_without_the_script() -> None:
    models = gemini().models
    found = done(lambda: models.count_tokens(model="m", contents="Hi there").total_tokens)
    assert (found.read, found.sent_s) == (6, [])


def test_the_pieces_of_a_stream_come_at_their_times() -> None:
    time = importlib.import_module("time")
    reply = Reply(say=["a", "b"], pace=Pace(first_part="1s", per_part="2s"))

    def on_gemini() -> list[float]:
        given = gemini().models.generate_content_stream(model="m", contents="Hi")
        return [time.monotonic() for _ in given]

    def on_bedrock() -> list[float]:
        given = bedrock().converse_stream(modelId=MODEL, messages=HI)["stream"]
        return [time.monotonic() for one in given if "contentBlockDelta" in one]

    started = done(lambda: time.monotonic(), reply).read  # noqa: PLW0108 - the clock of the run
    assert [each - started for each in done(on_gemini, reply).read] == [1, 3, 5]
    assert [each - started for each in done(on_bedrock, reply).read] == [1, 3]


def test_no_key_is_in_any_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "very-secret")

    def agent(prompt: str) -> None:
        client = gemini.__wrapped__()
        client.models.generate_content(model="m", contents=prompt)
        bedrock.__wrapped__().converse(modelId=MODEL, messages=HI)

    found = run(Scenario(prompt="Go.", model=[Reply(say="Hello."), Reply(say="You.")]), loop=agent)
    assert (found.outcome, b"secret" in encode(found.trace)) == ("completed", False)
