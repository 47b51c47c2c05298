"""The simulated network raises in real clients what a real server raises that breaks off.

What SDKs make of each fault, with its exact times, is in the scenarios of the recipes.
"""

import asyncio
import importlib
from typing import Any

import pytest
from loopback import HEAD, End, serving, unreachable
from wire import ASK, HTTPX, in_run

from simloop import Reply

pytestmark = pytest.mark.sdks

FRAME = (
    b'data: {"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"}}]}\n\n'
)
CHUNK = b"%x\r\n%b\r\n" % (len(FRAME), FRAME)


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
