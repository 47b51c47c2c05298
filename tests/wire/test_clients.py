"""The options of the fixture `provider`, and agents that never end, with real clients."""

import contextlib
import importlib
import os
from typing import Any, Literal

import pytest
from wire import ASK, CHAT, HTTPX

from simloop import (
    Pace,
    Provider,
    Reply,
    Scenario,
    Trigger,
    WireOptions,
    run,
)
from simloop.errors import RunawayRun, ScenarioError, ScriptExhausted
from simloop.world.world import current_world

pytestmark = pytest.mark.sdks
HI = [{"role": "user", "content": "Hi"}]
FRAMINGS: tuple[Literal["lf", "crlf"], ...] = ("lf", "crlf")


@pytest.fixture(params=HTTPX)
def module(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.simloop
async def test_options_change_the_wire_from_then_on(provider: Provider, module: str) -> None:
    provider.script(Reply(say="Hi", times="always"))
    asked, seen = {**ASK, "stream": True}, []
    client = importlib.import_module(module).AsyncClient()
    async with client:
        for framing in FRAMINGS:
            provider.options = WireOptions(framing=framing)
            seen.append(b"\r\n" in (await client.post(CHAT, json=asked)).content)
    assert seen == [False, True]


@pytest.mark.simloop
@pytest.mark.parametrize("given", [None, {"framing": "crlf"}])
async def test_options_of_another_type_are_refused(provider: Provider, given: Any) -> None:
    with pytest.raises(
        ScenarioError, match=r"not (NoneType|dict) \(write provider\.options = Wire"
    ):
        provider.options = given


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
