"""An agent finds the keys of providers in the environment, which is put back afterwards."""

import os
import sys

import pytest

from simloop import Reply, Runner, Scenario, run
from simloop.wire.api_keys import KEY, KEYS

SCENARIO = Scenario(prompt="Go.", model=[])


@pytest.fixture(autouse=True)
def no_client_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for client in ("httpx", "httpx2", "aiohttp", "urllib3"):
        monkeypatch.delitem(sys.modules, client, raising=False)
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)


def keys() -> dict[str, str]:
    return {key: os.environ[key] for key in KEYS if key in os.environ}


async def agent(prompt: str) -> str:
    return str(keys())


def test_an_agent_that_has_not_imported_a_client_yet_finds_every_key() -> None:
    assert run(SCENARIO, loop=agent).text == str(dict.fromkeys(KEYS, KEY))
    assert keys() == {}


def test_a_key_of_the_machine_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS[0], "mine")
    assert run(SCENARIO, loop=agent).text == str({**dict.fromkeys(KEYS, KEY), KEYS[0]: "mine"})
    assert keys() == {KEYS[0]: "mine"}


def test_a_runner_of_an_agent_keeps_the_keys_between_its_runs() -> None:
    with Runner(SCENARIO, loop=agent) as runner:
        texts = {runner.run(seed).text for seed in range(3)}
        between = keys()
    assert texts == {str(between)} == {str(dict.fromkeys(KEYS, KEY))}
    assert keys() == {}


def test_a_runner_of_a_machine_sets_no_key() -> None:
    with Runner(Scenario(prompt="Go.", model=[Reply(say="Done.")])) as runner:
        runner.run(0)
        assert keys() == {}


class Connects:
    def __init__(self) -> None:
        self.keys = str(keys())

    async def __call__(self, _: str) -> str:
        return self.keys


def test_the_constructor_of_an_agent_has_them() -> None:
    assert run(SCENARIO, loop=Connects).text == str(dict.fromkeys(KEYS, KEY))
    assert keys() == {}


def test_an_address_is_put_back_and_a_key_that_the_agent_sets_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def sets(_: str) -> None:
        assert "OPENAI_BASE_URL" not in os.environ
        os.environ[KEYS[0]] = "mine"

    monkeypatch.setenv("OPENAI_BASE_URL", "nowhere")
    run(SCENARIO, loop=sets)
    assert (os.environ.pop(KEYS[0]), os.environ["OPENAI_BASE_URL"]) == ("mine", "nowhere")
