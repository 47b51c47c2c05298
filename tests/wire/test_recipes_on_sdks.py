"""The agents of docs/sdks.md on providers' SDKs, from scenario files: exact times, equal runs."""

import pytest
from environments import Told, told_by

pytestmark = pytest.mark.sdks

AGENTS = ("openai_chat:agent", "anthropic_messages:agent")
SERVED = "two_services:agent"
RUNS = [
    *((agent, "weather/server-errors.simloop.yaml") for agent in AGENTS),
    *((SERVED, f"tickets/{name}.simloop.yaml") for name in ("retried", "silent", "chance")),
]
COMMANDS = [
    *(("check", "weather", "--loop", agent) for agent in AGENTS),
    ("check", "tickets", "--loop", SERVED),
]


@pytest.fixture(scope="module")
def told() -> Told:
    return told_by(*COMMANDS, runs=RUNS)


@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=[each[-1] for each in COMMANDS])
def test_each_scenario_comes_to_what_it_expects_twice(number: int, told: Told) -> None:
    code, printed = told.commands[number]
    assert (code, " passed" in printed) == (0, True), printed


def test_another_process_with_another_hash_seed_changes_no_byte(told: Told) -> None:
    assert told.digests == told_by(runs=RUNS, hash_seed="2").digests
