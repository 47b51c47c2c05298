"""The clients of the fixture `provider`, and its options, with real SDKs."""

import contextlib
import importlib
import os
import sys
from typing import Any, Literal

import pytest
from installed import HTTPX, SDKS
from wire import ASK

from simloop import (
    Pace,
    Provider,
    Reply,
    Scenario,
    Trigger,
    UserMessage,
    WireOptions,
    run,
    simulate,
)
from simloop.errors import RunawayRun, ScenarioError, ScriptExhausted
from simloop.world.current import current_world

pytestmark = pytest.mark.sdks
HI = [{"role": "user", "content": "Hi"}]
FRAMINGS: tuple[Literal["lf", "crlf"], ...] = ("lf", "crlf")


@pytest.fixture(params=HTTPX)
def module(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.simloop
@pytest.mark.parametrize("sdk", SDKS)
async def test_a_client_of_the_provider_needs_no_key(provider: Provider, sdk: str) -> None:
    provider.script(Reply(say="Hello."))
    if sdk == "openai":
        reply = await provider.openai().chat.completions.create(model="m", messages=HI)
        assert reply.choices[0].message.content == "Hello."
    else:
        reply = await provider.anthropic().messages.create(model="m", messages=HI, max_tokens=9)
        assert reply.content[0].text == "Hello."
    (request,) = provider.requests
    assert request.messages == (UserMessage("Hi"),)
    assert b"Hi" in provider.bodies[1]


@pytest.mark.simloop
async def test_a_transport_is_answered(provider: Provider, module: str) -> None:
    provider.script(Reply(say="Hi"))
    httpx = importlib.import_module(module)
    async with httpx.AsyncClient(transport=provider.transport(module)) as client:
        reply = await client.post(f"{provider.base_url}/chat/completions", json=ASK)
    assert reply.json()["choices"][0]["message"]["content"] == "Hi"


@pytest.mark.simloop
async def test_options_change_the_wire_from_then_on(provider: Provider, module: str) -> None:
    provider.script(Reply(say="Hi", times="always"))
    asked, seen = {**ASK, "stream": True}, []
    client = importlib.import_module(module).AsyncClient(base_url=provider.base_url)
    async with client:
        for framing in FRAMINGS:
            provider.options = WireOptions(framing=framing)
            seen.append(b"\r\n" in (await client.post("/chat/completions", json=asked)).content)
    assert seen == [False, True]


def test_a_transport_outside_of_runs_says_so(module: str) -> None:
    async def main() -> None:
        transport = Provider().transport(module)
        async with importlib.import_module(module).AsyncClient(transport=transport) as client:
            await client.get("https://a.test")

    with pytest.raises(ScenarioError, match="only in a run"):
        simulate(main())


@pytest.mark.simloop
@pytest.mark.parametrize("given", [None, {"framing": "crlf"}])
async def test_options_of_another_type_are_refused(provider: Provider, given: Any) -> None:
    with pytest.raises(
        ScenarioError, match=r"not (NoneType|dict) \(write provider\.options = Wire"
    ):
        provider.options = given


def test_a_package_without_a_transport_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"no transport for `aiohttp` \(.* httpx and httpx2;"):
        Provider().transport("aiohttp")


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ScenarioError, match="needs the package anthropic"):
        Provider().anthropic()


async def asks_for_ever(prompt: str) -> None:
    while True:
        with contextlib.suppress(BaseException):  # that is the defect
            client = importlib.import_module("openai").AsyncOpenAI()
            await client.chat.completions.create(model="m", messages=HI)


def blocks_for_ever(prompt: str) -> None:
    while True:
        with contextlib.suppress(BaseException):
            client = importlib.import_module("openai").OpenAI()
            client.chat.completions.create(model="m", messages=HI)


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
