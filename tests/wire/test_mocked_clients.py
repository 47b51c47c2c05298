"""Libraries that mock HTTP clients, in a run: they answer what simloop does not script."""

import pytest
from projects import async_module as play

pytestmark = pytest.mark.sdks

CHAT = """
import httpx
import requests
import respx
import responses

CHAT = "https://api.openai.com/v1/chat/completions"
ASK = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}

async def asked(url, client=None, **more):
    async with client or httpx.AsyncClient() as client:
        reply = await client.post(url, **more)
        return reply.json()
"""


@pytest.fixture(autouse=True)
def libraries() -> None:
    for name in ("respx", "responses", "pytest_httpx"):
        pytest.importorskip(name)


def test_respx_answers_beside_the_script(project: pytest.Pytester) -> None:
    source = f"""{CHAT}
@pytest.mark.simloop
async def test_it(provider, sim):
    provider.script(Reply(say="Hello."))
    sim.service("https://orders.example").post("/x", json=3, takes="1s")
    with respx.mock() as mocked:
        mocked.post("https://other.example/x").respond(json=[1])
        assert await asked("https://other.example/x") == [1]
        assert await asked("https://orders.example/x") == 3
        assert (await asked(CHAT, json=ASK))["choices"][0]["message"]["content"] == "Hello."
        assert httpx.post("https://other.example/x").json() == [1]
    assert sim.now == 1.0

@pytest.mark.simloop
async def test_a_mocked_model(respx_mock):
    respx_mock.post(CHAT).respond(json={{"mocked": True}})
    assert await asked(CHAT, json=ASK) == {{"mocked": True}}
"""
    play(project, source, "-p", "respx.plugin").assert_outcomes(passed=2)


def test_pytest_httpx_answers_beside_the_script(project: pytest.Pytester) -> None:
    source = f"""{CHAT}
@pytest.mark.simloop
async def test_it(provider, sim, httpx_mock):
    provider.script(Reply(say="Hello."))
    httpx_mock.add_response(url="https://other.example/x", json=[1], is_reusable=True)
    assert await asked("https://other.example/x") == [1]
    assert (await asked(CHAT, json=ASK))["choices"][0]["message"]["content"] == "Hello."
    assert httpx.post("https://other.example/x").json() == [1]

@pytest.mark.simloop
async def test_a_mocked_model(httpx_mock):
    httpx_mock.add_response(url=CHAT, json={{"mocked": True}})
    assert await asked(CHAT, json=ASK) == {{"mocked": True}}
"""
    play(project, source, "-p", "pytest_httpx").assert_outcomes(passed=2)


def test_responses_answers_beside_the_script(project: pytest.Pytester) -> None:
    source = f"""{CHAT}
@pytest.mark.simloop
@responses.activate
def test_it(provider, sim):
    provider.script(Reply(say="Hello."))
    responses.post("https://other.example/x", json=[1])
    responses.add_passthru("https://api.openai.com")
    assert requests.post("https://other.example/x").json() == [1]
    reply = requests.post(CHAT, json=ASK).json()
    assert reply["choices"][0]["message"]["content"] == "Hello."
"""
    play(project, source).assert_outcomes(passed=1)
