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
RUNS_OF_AGENT, RUNS_OF_DESIGN = 400, 200
_EACH = [(name, RUNS_OF_AGENT) for name in AGENTS] + [(name, RUNS_OF_DESIGN) for name in names()]


@pytest.mark.slow
@pytest.mark.parametrize(("loop", "runs"), _EACH)
def test_nothing_is_found_in_a_correct_loop(loop: str, runs: int) -> None:
    found = list(Search(loop, seed=1).run(runs=runs))
    assert [f"{each.name}: {each.failure.text}" for each in found] == []
