"""Real HTTP clients and SDKs in a run: which are answered, and what is left afterwards."""

import asyncio
import contextlib
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

import msgspec
import pytest
from wire import ASK, CHAT, HTTPX, in_run

from simloop import (
    Pace,
    Provider,
    Reply,
    Result,
    Scenario,
    Trigger,
    WireOptions,
    run,
    simulate,
)
from simloop.errors import RunawayRun, ScriptExhausted
from simloop.scenario.replies import Http
from simloop.trace import entries
from simloop.world.world import current_world

pytestmark = pytest.mark.sdks

HELLO = Reply(say="Hello you", pace=Pace(first_part="250ms", per_part="100ms"))


@pytest.fixture(params=HTTPX)
def module(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(request.param)


async def chat(client: Any, **more: Any) -> Any:
    return await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Hi"}], **more
    )


def test_an_sdk_without_key_and_address_is_answered_by_the_script() -> None:
    openai = pytest.importorskip("openai")
    texts = []

    async def main() -> None:
        texts.append((await chat(openai.AsyncOpenAI())).choices[0].message.content)

    result = in_run(main, Reply(http=Http(status=429)), HELLO)
    assert (texts, len(result.requests)) == (["Hello you"], 2)


def test_a_client_that_was_made_before_the_run_is_answered(module: Any) -> None:
    client = module.AsyncClient()
    replies = []

    async def main() -> None:
        replies.append(await client.post(CHAT, json=ASK))

    in_run(main, HELLO)
    assert replies[0].json()["choices"][0]["message"]["content"] == "Hello you"


def test_a_transport_of_the_program_is_left_alone(module: Any) -> None:
    def answer(_: Any) -> Any:
        return module.Response(201)

    statuses = []

    async def main() -> None:
        async with module.AsyncClient(transport=module.MockTransport(answer)) as client:
            statuses.append((await client.get("https://api.weather.test")).status_code)

    in_run(main)
    assert statuses == [201]


def test_an_unknown_host_refuses_and_the_place_is_the_users_own_line(module: Any) -> None:
    async def main(_: str) -> str:
        async with module.AsyncClient() as client:
            with pytest.raises(module.ConnectError, match="All connection attempts failed"):
                await client.get("https://api.weather.test/v1/today?q=1")
            return "It is not there."

    (told,) = [
        each
        for each in run(Scenario(prompt="Go."), loop=main).trace.entries
        if isinstance(each, entries.Refused)
    ]
    assert told.asked == "GET https://api.weather.test/v1/today"
    line = main.__code__.co_firstlineno + 3
    assert told.place.startswith(f"test_interception.py:{line} in ")


def test_without_a_run_a_client_finds_no_host(module: Any) -> None:
    async def main() -> None:
        async with module.AsyncClient() as client:
            await client.get("http://127.0.0.1:9/")

    with pytest.raises(module.ConnectError):
        simulate(main())


def test_connections_of_a_recorder_of_traffic_are_left_alone(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Theirs:  # as vcrpy's, while a cassette is in use
        pass

    monkeypatch.setattr("http.client.HTTPConnection", Theirs)

    async def main() -> None:
        async with module.AsyncClient() as client:
            assert (await client.post(CHAT, json=ASK)).status_code == 200

    assert len(in_run(main, HELLO).requests) == 1
    assert not vars(Theirs).keys() & {"connect"}


def test_everything_is_put_back_also_after_errors(module: Any) -> None:
    transport = module.AsyncHTTPTransport
    before = dict(vars(transport)), list(sys.meta_path), dict(os.environ)
    press = signal.raise_signal  # looked up before the run, which refuses that of the module

    async def main() -> None:
        assert dict(vars(transport)) != before[0]
        assert os.environ["OPENAI_API_KEY"]
        press(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        in_run(main)
    assert (dict(vars(transport)), list(sys.meta_path), dict(os.environ)) == before


def test_addresses_and_proxies_of_the_machine_change_nothing(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://127.0.0.1:9")
    monkeypatch.setenv("OPENAI_BASE_URL", "nowhere")
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    found = []

    async def main() -> None:
        found.append((os.environ["OPENAI_API_KEY"], os.environ.get("OPENAI_BASE_URL")))
        async with module.AsyncClient() as client:
            await client.post(CHAT, json=ASK)

    in_run(main, HELLO)
    assert found == [("mine", None)]
    assert os.environ["HTTPS_PROXY"] == "socks5://127.0.0.1:9"


def test_a_module_that_is_imported_in_the_run_is_intercepted(module: Any) -> None:
    name = module.__name__
    held = {
        each: sys.modules.pop(each) for each in [*sys.modules] if each.partition(".")[0] == name
    }
    texts: list[bytes] = []

    async def main() -> None:
        again: Any = importlib.import_module(name)
        assert again is not module
        async with again.AsyncClient() as client:
            texts.append((await client.post(CHAT, json=ASK)).content)

    try:
        in_run(main, HELLO)
        again: Any = sys.modules[name]
        assert again.AsyncHTTPTransport.handle_async_request.__module__.startswith(name)
    finally:
        sys.modules.update(held)
    assert b"Hello you" in texts[0]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_transport_repeats_the_attempt_to_connect_as_often_as_it_should(
    module: Any,
    is_async: bool,  # noqa: FBT001
) -> None:
    found: list[tuple[int, float]] = []

    async def ask_async() -> None:
        transport = module.AsyncHTTPTransport(retries=4)
        async with module.AsyncClient(transport=transport, timeout=1) as client:
            found.append(((await client.post(CHAT, json=ASK)).status_code, time.monotonic()))
            with pytest.raises(module.RemoteProtocolError):  # no retry of a request
                await client.post(CHAT, json=ASK)

    def ask() -> None:
        with module.Client(transport=module.HTTPTransport(retries=4), timeout=1) as client:
            found.append((client.post(CHAT, json=ASK).status_code, time.monotonic()))
            with pytest.raises(module.RemoteProtocolError):
                client.post(CHAT, json=ASK)

    async def main() -> None:
        await (ask_async() if is_async else asyncio.to_thread(ask))

    refused, silent = Reply(lost="before-connect", times=3), Reply(stall="before-connect")
    in_run(main, refused, silent, Reply(say="Hi"), Reply(lost="before-headers"))
    assert found == [(200, 0 + 0.5 + 1 + 1 + 2)]


def test_a_client_of_a_run_reads_no_certificates(module: Any) -> None:
    found: list[Any] = []

    async def main() -> None:
        client = module.AsyncClient()
        found.append(client._transport._pool._ssl_context)

    in_run(main)
    assert vars(found[0])["_simloop_unread"]


@pytest.mark.parametrize(
    "reply",
    [
        HELLO,
        Reply(http=Http(status=429)),
        Reply(lost="before-connect"),
        Reply(stall="before-connect"),
        Reply(lost="before-headers"),
        Reply(lost="after-headers"),
        Reply(say="Hello you", lost="mid-output"),
        Reply(stall="before-headers"),
        Reply(say="Hello you", stall="mid-output"),
        Reply(say="Hello you", unfinished=True),
        Reply(raises="oh"),
    ],
)
@pytest.mark.parametrize("streams", [False, True])
def test_a_synchronous_client_hears_the_same(
    module: Any,
    reply: Reply,
    streams: bool,  # noqa: FBT001
) -> None:
    asked, outcomes = {**ASK, "stream": streams}, []

    def ask() -> list[Any]:
        pieces: list[Any] = []
        try:
            with (
                module.Client(timeout=20) as client,
                client.stream("POST", CHAT, json=asked) as heard,
            ):
                pieces.append(heard.status_code)
                pieces.extend((time.monotonic(), piece) for piece in heard.iter_bytes())
        except module.TransportError as error:
            pieces.append((time.monotonic(), repr(error)))
        return pieces

    async def ask_async() -> list[Any]:
        pieces: list[Any] = []
        try:
            async with (
                module.AsyncClient(timeout=20) as client,
                client.stream("POST", CHAT, json=asked) as heard,
            ):
                pieces.append(heard.status_code)
                async for piece in heard.aiter_bytes():
                    pieces.append((time.monotonic(), piece))  # noqa: PERF401 - kept on an error
        except module.TransportError as error:
            pieces.append((time.monotonic(), repr(error)))
        return pieces

    async def main() -> None:
        outcomes.append(await asyncio.to_thread(ask))

    async def main_async() -> None:
        outcomes.append(await ask_async())

    synchronous, asynchronous = in_run(main, reply), in_run(main_async, reply)
    assert outcomes[0] == outcomes[1]
    assert of_the_model(synchronous) == of_the_model(asynchronous)


def of_the_model(result: Result) -> list[Any]:
    """Return the entries of requests and replies, without what is said of blocked threads."""
    kinds = (entries.Request, entries.TextDelta, entries.Finish, entries.Error, entries.StreamCut)
    found = [each for each in result.trace.entries if isinstance(each, kinds)]
    return [msgspec.structs.replace(each, seq=0) for each in found]


def posts(module: Any, **client: Any) -> Any:
    """Return a function that sends a request with a client of its own."""

    async def post() -> int:
        async with module.AsyncClient(**client) as made:
            status: int = (await made.post(CHAT, json=ASK)).status_code
            return status

    return post


def test_requests_side_by_side_take_the_time_of_one(module: Any) -> None:
    post, found = posts(module), []

    async def main() -> None:
        found.extend(await asyncio.gather(*[post() for _ in range(8)]))

    result = in_run(main, *[HELLO] * 8)
    assert (found, result.elapsed_ns, len(result.requests)) == ([200] * 8, 450 * 10**6, 8)


def test_a_call_that_is_cancelled_gives_its_reply_up(module: Any) -> None:
    post, found = posts(module, timeout=None), []

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(post(), 2)
        found.append(await post())

    result = in_run(main, Reply(stall="before-headers"), HELLO)
    assert (found, result.elapsed_ns) == ([200], 2_450 * 10**6)


def test_an_abort_ends_a_wait_for_a_reply(module: Any) -> None:
    post = posts(module, timeout=None)

    async def agent(_: str) -> None:
        await post()

    stalled = Reply(stall="after-headers")
    scenario = Scenario(prompt="Go.", model=[stalled], abort=Trigger.model_validate({"at": "3s"}))
    result = run(scenario, loop=agent)
    assert (result.outcome, result.elapsed_ns) == ("aborted", 3 * 10**9)


def test_each_of_two_runs_at_once_answers_its_own_clients(module: Any) -> None:
    # Locks that are made outside of simulations stay real: the other run begins and ends meanwhile.
    first_is_in, second_is_over = threading.Lock(), threading.Lock()
    first_is_in.acquire()
    second_is_over.acquire()
    texts: dict[str, str] = {}

    def running(name: str, before: Callable[[], object]) -> None:
        async def main() -> None:
            before()
            async with module.AsyncClient() as client:
                reply = (await client.post(CHAT, json=ASK)).json()
            texts[name] = reply["choices"][0]["message"]["content"]

        in_run(main, Reply(say=name))

    def meet() -> None:
        first_is_in.release()
        second_is_over.acquire(timeout=5)

    thread = threading.Thread(target=running, args=("first", meet))
    thread.start()
    first_is_in.acquire(timeout=5)
    running("second", lambda: None)
    second_is_over.release()
    thread.join()
    assert texts == {"first": "first", "second": "second"}


FRAMINGS: tuple[Literal["lf", "crlf"], ...] = ("lf", "crlf")


@pytest.mark.simloop
async def test_options_change_the_wire_from_then_on(provider: Provider, module: Any) -> None:
    provider.script(Reply(say="Hi", times="always"))
    asked, seen = {**ASK, "stream": True}, []
    client = module.AsyncClient()
    async with client:
        for framing in FRAMINGS:
            provider.options = WireOptions(framing=framing)
            seen.append(b"\r\n" in (await client.post(CHAT, json=asked)).content)
    assert seen == [False, True]


async def asks_for_ever(prompt: str) -> None:
    while True:
        with contextlib.suppress(BaseException):  # that is the defect
            client = importlib.import_module("openai").AsyncOpenAI()
            await client.chat.completions.create(model="m", messages=ASK["messages"])


def blocks_for_ever(prompt: str) -> None:
    while True:
        with contextlib.suppress(BaseException):
            client = importlib.import_module("openai").OpenAI()
            client.chat.completions.create(model="m", messages=ASK["messages"])


@pytest.mark.parametrize("agent", [asks_for_ever, blocks_for_ever])
def test_an_agent_that_catches_all_exceptions_and_asks_again_is_ended(agent: Any) -> None:
    before = dict(os.environ)
    with pytest.raises(ScriptExhausted, match="no reply for request 2"):
        run(Scenario(prompt="Hi", model=[Reply(say="Hello.")]), loop=agent)
    waits = Reply(say="Hello.", pace=Pace(first_part="1s"), times="always")
    with pytest.raises(RunawayRun, match="goes on after 100 cancellations"):
        run(Scenario(prompt="Hi", model=[waits], abort=Trigger(at="3s")), loop=agent)
    assert dict(os.environ) == before
    assert current_world() is None


def test_parameters_are_converted_once_and_as_the_sdk_converts_them() -> None:
    transform = importlib.import_module("openai._utils._transform")
    chat = importlib.import_module("openai.types.chat.completion_create_params")
    files = importlib.import_module("openai.types.responses.response_input_item_param")
    shown = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]}
    given: list[tuple[Any, Any]] = [
        ({"messages": [{"role": "user", "content": "a"}], "n": 1}, chat.CompletionCreateParams),
        ({"messages": [{"role": "user", "content": "a"}], "n": 1.0}, chat.CompletionCreateParams),
        (shown, files.ResponseInputItemParam),
        (
            {**shown, "content": ({"type": "input_text", "text": "a"},)},
            files.ResponseInputItemParam,
        ),
        ({"metadata": {"at": HELLO}}, chat.CompletionCreateParams),
    ]
    alone = [transform.transform(data, kind) for data, kind in given]

    async def main() -> None:
        for _ in range(2):  # the first one is remembered, and changed by who has got it
            for (data, kind), converted in zip(given, alone, strict=True):
                for made in (
                    transform.transform(data, kind),
                    await transform.async_transform(data, kind),
                ):
                    assert repr(made) == repr(converted)
                    made["role"] = "changed"

    in_run(main)
