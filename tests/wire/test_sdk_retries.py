"""The retries of the real SDKs on the virtual clock: when they ask again, to the nanosecond.

The table of Retry-After was measured for each generation of the SDKs; the one that is installed
selects its row.
"""

import importlib.metadata
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from wire import SDKS, in_run

from simloop import Http, Reply, Result, Scenario, ScriptUnused, run
from simloop.trace import entries
from simloop.trace.codec import encode
from simloop.virtual.seeds import Seeds

pytestmark = pytest.mark.sdks

BACKOFF, RAISES = "back-off", "raises"
AFTER: dict[str, float | str] = {"0": BACKOFF, "1.5": 1.5, "60": 60, "-5": BACKOFF, "nan": BACKOFF}
"""Retry-After in seconds, and the gap to the next request, where all generations agree."""
LONGER: dict[tuple[str, int], tuple[float | str, ...]] = {
    ("openai", 1): (BACKOFF, BACKOFF, BACKOFF, BACKOFF),
    ("anthropic", 0): (BACKOFF, BACKOFF, BACKOFF, BACKOFF),
    ("openai", 2): (61, 120, RAISES, RAISES),
    ("openai", 3): (61, 120, RAISES, RAISES),
    ("anthropic", 2): (61, 120, 121, 3600),
}
"""By generation: the gaps after 61, 120, 121 and 3600 seconds."""


def generation(name: str) -> tuple[str, int]:
    return name, int(importlib.metadata.version(name).partition(".")[0])


@pytest.fixture(params=SDKS)
def sdk(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def ask_of(sdk: str, **client: Any) -> Callable[[], Awaitable[Any]]:
    """Return a function that sends one request with a client of that SDK."""
    package = importlib.import_module(sdk)
    asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}

    async def ask() -> Any:
        if sdk == "openai":
            async with package.AsyncOpenAI(**client) as made:
                return await made.chat.completions.create(**asked)
        async with package.AsyncAnthropic(**client) as made:
            return await made.messages.create(**asked, max_tokens=9)

    return ask


def times(result: Result) -> list[int]:
    """Return when the requests were sent, in nanoseconds."""
    return [each.at_ns for each in result.trace.entries if isinstance(each, entries.Request)]


def formula(seed: int, retries: int) -> list[int]:
    """Return the times of the requests by the formula of the SDKs, with the seeded generator."""
    draw = random.Random(Seeds(seed).number("global-random")).random
    found = [0]
    for n in range(retries):
        found.append(found[-1] + round(min(0.5 * 2**n, 8.0) * (1 - 0.25 * draw()) * 1e9))
    return found


def limited(*headers: dict[str, str]) -> list[Reply]:
    return [Reply(http=Http(status=429, headers=each)) for each in headers]


def answered(sdk: str, replies: list[Reply], seed: int = 0, **client: Any) -> Result:
    return in_run(ask_of(sdk, **client), *replies, Reply(say="Hello."), seed=seed)


@pytest.mark.parametrize("seed", [0, 7, 42])
def test_retries_follow_the_formula_of_the_sdk_to_the_nanosecond(sdk: str, seed: int) -> None:
    result = answered(sdk, limited({}, {}), seed)
    assert times(result) == formula(seed, 2)
    assert result.text == ""


def test_a_synchronous_agent_retries_at_the_same_times(sdk: str) -> None:
    package = importlib.import_module(sdk)
    asked: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}

    def agent(_: str) -> str:
        if sdk == "openai":
            reply = package.OpenAI().chat.completions.create(**asked)
            return str(reply.choices[0].message.content)
        return str(package.Anthropic().messages.create(**asked, max_tokens=9).content[0].text)

    scenario = Scenario(prompt="Go.", model=[*limited({}, {}), Reply(say="Hello.")])
    result = run(scenario, loop=agent)
    assert (times(result), result.text) == (formula(0, 2), "Hello.")


def failed(sdk: str, reply: Reply, **client: Any) -> tuple[list[int], str, Result]:
    """Return when a client asked that gets `reply` thrice, the error's type, and the run."""
    package, ask, errors = importlib.import_module(sdk), ask_of(sdk, **client), []

    async def main() -> None:
        try:
            await ask()
        except package.APIError as error:
            errors.append(type(error).__name__)

    result = in_run(main, *[reply] * 3)
    return times(result), errors[0], result


def test_a_connection_that_is_refused_is_tried_again(sdk: str) -> None:
    found, error, _ = failed(sdk, Reply(lost="before-connect"))
    assert (found, error) == (formula(0, 2), "APIConnectionError")


def test_a_connection_that_is_not_made_is_tried_again_after_its_timeout(sdk: str) -> None:
    found, error, result = failed(sdk, Reply(stall="before-connect"))
    waits_ns = [5 * 10**9 * n for n in range(3)]  # 5 s is the limit that the SDKs set
    assert found == [sum(pair) for pair in zip(formula(0, 2), waits_ns, strict=True)]
    assert (error, result.elapsed_ns) == ("APITimeoutError", found[-1] + 5 * 10**9)


def gap(sdk: str, headers: dict[str, str]) -> float | str:
    """Return the seconds between two requests, or how else the SDK reacted."""
    try:
        found = times(answered(sdk, limited(headers)))
    except ScriptUnused:
        return RAISES
    return BACKOFF if found == formula(0, 1) else (found[1] - found[0]) / 1e9


def test_a_wait_that_the_provider_asks_for(sdk: str) -> None:
    assert {header: gap(sdk, {"retry-after": header}) for header in AFTER} == AFTER
    assert gap(sdk, {"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}) == 30  # in virtual time
    assert gap(sdk, {"retry-after": "60", "retry-after-ms": "1250"}) == 1.25


def test_a_longer_retry_after_is_taken_by_generation(sdk: str) -> None:
    found = tuple(gap(sdk, {"retry-after": header}) for header in ("61", "120", "121", "3600"))
    assert found == LONGER[generation(sdk)]


def test_which_statuses_are_tried_again(sdk: str) -> None:
    for status in (408, 409, 500, 502, 503, 529):
        assert times(answered(sdk, [Reply(http=Http(status=status))])) == formula(0, 1), status
    for status in (400, 401, 403, 404, 413, 422):
        result = in_run(ask_of(sdk), Reply(http=Http(status=status)))
        assert (times(result), str(status) in result.message) == ([0], True)
    told = {"x-should-retry": "true"}, {"x-should-retry": "false"}
    again = answered(sdk, [Reply(http=Http(status=400, headers=told[0]))])
    never = in_run(ask_of(sdk), Reply(http=Http(status=503, headers=told[1])))
    assert (times(again), times(never)) == (formula(0, 1), [0])


def test_no_key_is_in_any_trace(sdk: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    replies = [*limited({}), Reply(http=Http(status=401))]
    result = in_run(ask_of(sdk), *replies, keep_bodies=True)
    assert b"secret" not in encode(result.trace)
    assert not any(b"secret" in body for body in result.bodies.values())
