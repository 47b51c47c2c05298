"""The search accuses no correct loop: what it reports is a fault."""

import pytest

from simloop.fuzz.search import Search
from simloop.scenario.designs import names

AGENTS = (
    "sequential_agent:Sequential",
    "parallel_agent:Parallel",
    "managed_agent:Managed",
    "gathering:gathering",
    "windowed:Windowed",
    "summarising:Summarising",
    "native:Native",
)


@pytest.mark.slow
@pytest.mark.parametrize("loop", [*AGENTS, *names()])
def test_nothing_is_found_in_a_correct_loop(loop: str) -> None:
    found = list(Search(loop, seed=1).run(runs=100))
    assert [f"{each.name}: {each.failure.text}" for each in found] == []
