"""The faults of a provider, as the real SDKs meet them.

First against a real server: the simulated network raises what the real one does. Then the rest of
the matrix of faults and SDKs.
"""

import asyncio
import importlib
from typing import Any

import pytest
from installed import HTTPX, SDKS
from loopback import HEAD, End, serving, unreachable
from sdkasking import Outcome, asked, formats_of
from wire import ASK, in_run

from simloop import Http, Reply, Result
from simloop.trace import entries

pytestmark = pytest.mark.sdks

FRAME = (
    b'data: {"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"}}]}\n\n'
)
CHUNK = b"%x\r\n%b\r\n" % (len(FRAME), FRAME)


def chain(error: BaseException | None) -> list[str]:
    """Return the types of an exception and of its causes, without those of other packages."""
    found = []
    while error is not None:
        if type(error).__module__.partition(".")[0] in {*SDKS, *HTTPX}:
            found.append(type(error).__name__)
        error = error.__cause__
    return found


LOST: dict[str, tuple[Reply, tuple[bytes, ...], End]] = {
    "closed before headers": (Reply(lost="before-headers"), (), "closed"),
    "reset after headers": (Reply(lost="after-headers"), (HEAD,), "reset"),
    "reset in the output": (Reply(say=["Hello"], lost="mid-output"), (HEAD, CHUNK), "reset"),
    "silent before headers": (Reply(stall="before-headers"), (), "silent"),
    "silent after headers": (Reply(stall="after-headers"), (HEAD,), "silent"),
    "silent in the output": (Reply(say=["Hello"], stall="mid-output"), (HEAD, CHUNK), "silent"),
}


@pytest.mark.parametrize("name", LOST)
@pytest.mark.parametrize("module", HTTPX)
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_client_raises_what_it_raises_in_reality(name: str, module: str) -> None:
    reply, pieces, end = LOST[name]
    httpx: Any = importlib.import_module(module)

    async def main(url: str, heard: list[Any]) -> None:
        asked = {**ASK, "stream": True}
        try:
            async with (
                httpx.AsyncClient(timeout=0.5) as client,
                client.stream("POST", f"{url}/chat/completions", json=asked) as response,
            ):
                heard.append(response.status_code)
                async for piece in response.aiter_bytes():
                    heard.append(bool(piece))  # noqa: PERF401 - kept on an error
        except httpx.TransportError as error:
            heard.extend((type(error).__name__, str(error)))

    real: list[Any] = []
    with serving(pieces, end) as url:
        asyncio.run(main(url, real))
    simulated: list[Any] = []
    in_run(lambda: main("https://api.openai.com/v1", simulated), reply)
    assert simulated == real


UNREACHABLE: dict[Any, Reply] = {
    "refuses": Reply(lost="before-connect"),
    "silent": Reply(stall="before-connect"),
}


@pytest.mark.parametrize("how", UNREACHABLE)
@pytest.mark.parametrize("module", HTTPX)
def test_a_client_without_a_connection_raises_what_it_raises_in_reality(
    how: Any, module: str
) -> None:
    httpx: Any = importlib.import_module(module)

    async def main(url: str, heard: list[Any]) -> None:
        timeout = httpx.Timeout(5, connect=0.5)
        async with httpx.AsyncClient(timeout=timeout) as client:
            try:
                await client.post(f"{url}/chat/completions", json=ASK)
            except httpx.TransportError as error:
                heard.extend((type(error).__name__, str(error)))

    real: list[Any] = []
    with unreachable(how) as url:
        asyncio.run(main(url, real))
    simulated: list[Any] = []
    in_run(lambda: main("https://api.openai.com/v1", simulated), UNREACHABLE[how])
    assert simulated == real


@pytest.mark.parametrize("name", LOST)
def test_the_sdk_of_openai_raises_what_it_raises_in_reality(name: str) -> None:
    reply, pieces, end = LOST[name]
    openai: Any = importlib.import_module("openai")

    async def main(url: str, heard: list[Any]) -> None:
        async with openai.AsyncOpenAI(
            base_url=url, api_key="x", max_retries=0, timeout=0.5
        ) as client:
            try:
                stream = await client.chat.completions.create(**ASK, stream=True)
                heard.extend([chunk.choices[0].delta.content async for chunk in stream])
            except Exception as error:  # noqa: BLE001 - compared
                heard.append(chain(error))

    real: list[Any] = []
    with serving(pieces, end) as url:
        asyncio.run(main(url, real))
    simulated: list[Any] = []
    in_run(lambda: main("https://api.openai.com/v1", simulated), reply)
    assert simulated[-1] == real[-1]


@pytest.fixture(
    params=[(sdk, format_) for sdk in SDKS for format_ in formats_of(sdk)], ids="-".join
)
def spoken(request: pytest.FixtureRequest) -> tuple[str, str]:
    pair: tuple[str, str] = request.param
    return pair


def outcome(spoken: tuple[str, str], *replies: Reply, **more: Any) -> tuple[Outcome, Result]:
    """Return what a stream of that SDK and format comes to, and the run."""
    found: list[Outcome] = []

    async def main() -> None:
        found.append(await asked(*spoken, **more))

    result = in_run(main, *replies)
    return found[0], result


def requests(result: Result) -> int:
    return sum(isinstance(each, entries.Request) for each in result.trace.entries)


OK = Reply(say=["Hel", "lo"])


def test_a_connection_lost_before_the_headers_is_tried_again(spoken: tuple[str, str]) -> None:
    found, result = outcome(spoken, Reply(lost="before-headers"), OK)
    assert (found.text, found.error, requests(result)) == ("Hello", "", 2)


@pytest.mark.parametrize(
    "reply", [Reply(lost="after-headers"), Reply(say=["Hel"], lost="mid-output")]
)
def test_a_connection_lost_after_the_headers_is_an_error(
    spoken: tuple[str, str], reply: Reply
) -> None:
    found, result = outcome(spoken, reply)
    assert (found.text, requests(result)) == ("Hel" if reply.say else "", 1)
    assert found.error in {"ReadError", "APIConnectionError"}


def test_a_stream_that_ends_early_ends_in_silence(spoken: tuple[str, str]) -> None:
    found, result = outcome(spoken, Reply(say=["Hel", "lo"], unfinished=True))
    assert (found.text, found.finish, requests(result)) == ("Hello", None, 1)


@pytest.mark.parametrize("text", ["", "Hel"])
def test_an_error_inside_the_stream(spoken: tuple[str, str], text: str) -> None:
    reply = Reply.model_validate({"say": [text] if text else [], "error": {"message": "Oh"}})
    found, result = outcome(spoken, reply)
    assert (found.text, requests(result)) == (text, 1)
    expected = {"chat": "APIError", "responses": "", "messages": "APIStatusError"}[spoken[1]]
    assert found.error == expected
    if spoken[1] == "responses":
        assert "error" in found.events[-1]


def test_a_page_of_a_gateway_is_tried_again(spoken: tuple[str, str]) -> None:
    reply = Reply(http=Http(status=502, body="<html>Bad Gateway</html>"))
    found, result = outcome(spoken, reply, OK)
    assert (found.text, requests(result)) == ("Hello", 2)


def test_an_empty_body_of_a_bad_request(spoken: tuple[str, str]) -> None:
    found, result = outcome(spoken, Reply(http=Http(status=400, body="")))
    assert (found.error, requests(result)) == ("BadRequestError", 1)


def test_a_silent_server_before_the_headers_takes_three_timeouts(spoken: tuple[str, str]) -> None:
    found, result = outcome(spoken, *[Reply(stall="before-headers")] * 3)
    assert (found.error, requests(result)) == ("APITimeoutError", 3)
    assert 1801 * 10**9 < result.elapsed_ns < 1802 * 10**9


def test_a_silent_server_after_the_headers_takes_one_timeout(spoken: tuple[str, str]) -> None:
    found, result = outcome(spoken, Reply(stall="after-headers"))
    assert found.error in {"ReadTimeout", "APITimeoutError"}
    assert (requests(result), result.elapsed_ns) == (1, 600 * 10**9)
