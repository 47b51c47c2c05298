"""The clients of the fixture `provider`, and its options, with real SDKs."""

import pytest
from wire import ASK

from simloop import Http, Pace, Provider, Reply, WireOptions, simulate
from simloop.errors import ScenarioError

pytestmark = pytest.mark.sdks
HI = [{"role": "user", "content": "Hi"}]


@pytest.mark.simloop
async def test_an_unchanged_agent_survives_a_rate_limit(provider: Provider) -> None:
    openai = pytest.importorskip("openai")
    provider.script(
        Reply(http=Http(status=429, retry_after="7s")),
        Reply(say="Hello.", pace=Pace(first_part="1s")),
    )
    client = openai.AsyncOpenAI()
    reply = await client.chat.completions.create(model="m", messages=HI)
    assert reply.choices[0].message.content == "Hello."
    provider.expect(requests=2, elapsed={"min": "8s", "max": "8s"})


@pytest.mark.simloop
async def test_clients_with_an_address_and_a_key_of_their_own(provider: Provider) -> None:
    pytest.importorskip("openai"), pytest.importorskip("anthropic")
    provider.script(Reply(say="One."), Reply(say="Two."))
    one = await provider.openai().chat.completions.create(model="m", messages=HI)
    two = await provider.anthropic().messages.create(model="m", messages=HI, max_tokens=9)
    assert (one.choices[0].message.content, two.content[0].text) == ("One.", "Two.")
    assert [message.text for request in provider.requests for message in request.messages] == [
        "Hi",
        "Hi",
    ]
    assert [b"Hi" in body for body in provider.bodies.values()] == [True, True]


@pytest.mark.simloop
async def test_a_transport_is_answered(provider: Provider) -> None:
    httpx2 = pytest.importorskip("httpx2")
    provider.script(Reply(say="Hi"))
    async with httpx2.AsyncClient(transport=provider.transport("httpx2")) as client:
        reply = await client.post(f"{provider.base_url}/chat/completions", json=ASK)
    assert reply.json()["choices"][0]["message"]["content"] == "Hi"


@pytest.mark.simloop
async def test_options_change_the_wire_from_then_on(provider: Provider) -> None:
    httpx2 = pytest.importorskip("httpx2")
    provider.script(Reply(say="Hi", times="always"))
    asked, seen = {**ASK, "stream": True}, []
    async with httpx2.AsyncClient(base_url=provider.base_url) as client:
        for framing in ("lf", "crlf"):
            provider.options = WireOptions(framing=framing)
            seen.append(b"\r\n" in (await client.post("/chat/completions", json=asked)).content)
    assert seen == [False, True]


def test_a_transport_outside_of_runs_says_so() -> None:
    httpx2 = pytest.importorskip("httpx2")

    async def main() -> None:
        async with httpx2.AsyncClient(transport=Provider().transport("httpx2")) as client:
            await client.get("https://a.test")

    with pytest.raises(ScenarioError, match="only in a run"):
        simulate(main())
