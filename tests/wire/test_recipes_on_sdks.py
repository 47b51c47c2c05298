"""The agents of docs/sdks.md on providers' SDKs, from scenario files: exact times, equal runs."""

import pytest
from environments import told_by

pytestmark = pytest.mark.sdks

AGENTS = ("openai_chat:agent", "anthropic_messages:agent")


def test_each_scenario_comes_to_what_it_expects_in_each_process_and_run() -> None:
    runs = [(agent, "weather/server-errors.simloop.yaml") for agent in AGENTS]
    told = told_by(*[("check", "weather", "--loop", agent) for agent in AGENTS], runs=runs)
    for code, printed in told.commands:
        assert (code, " passed" in printed) == (0, True), printed
    assert told.digests == told_by(runs=runs, hash_seed="2").digests
