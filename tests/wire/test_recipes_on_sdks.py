"""The agents of docs/sdks.md on providers' SDKs, from scenario files: exact times, equal runs."""

import pytest
from environments import Told, told_by

pytestmark = pytest.mark.sdks

AGENTS = ("openai_chat:agent", "anthropic_messages:agent")
RUNS = [(agent, "weather/server-errors.simloop.yaml") for agent in AGENTS]


@pytest.fixture(scope="module")
def told() -> Told:
    return told_by(*[("check", "weather", "--loop", agent) for agent in AGENTS], runs=RUNS)


@pytest.mark.parametrize("number", range(len(AGENTS)), ids=AGENTS)
def test_each_scenario_comes_to_what_it_expects_twice(number: int, told: Told) -> None:
    code, printed = told.commands[number]
    assert (code, " passed" in printed) == (0, True), printed


def test_another_process_with_another_hash_seed_changes_no_byte(told: Told) -> None:
    assert told.digests == told_by(runs=RUNS, hash_seed="2").digests
