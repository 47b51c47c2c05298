from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from regenerate import GENERATED

from simloop import Scenario
from simloop import strategies as sim
from simloop.check.invariants import machines
from simloop.check.invariants.judge import in_module
from simloop.scenario.designs import names

FILES = (
    *("docs/scenarios.md", "docs/loops.md"),
    *("scenarios/README.md", "scenarios/schema.json"),
    *("docs/replayer.svg", "simloop/cli/answered.json"),
)
PROOFS = "docs/proofs.md"
"""tests/prove/test_proof.py proves it current, where the same proofs are tested."""
WITH_SDKS = ("README.md", "docs/testing-a-bot.md", "docs/fuzz.md", "docs/recordings.md")
"""Have reports of agents on an SDK: tests/wire/test_page_examples.py proves them current."""
LONG = ("scenarios/README.md", "docs/replayer.svg")
"""Need all scenarios, or the replayer."""


def test_these_files_are_generated() -> None:
    top = Path(__file__).resolve().parent.parent
    assert {path.relative_to(top).as_posix() for path in GENERATED} == {*WITH_SDKS, *FILES, PROOFS}


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.slow] * (one in LONG)) for one in FILES]
)
def test_a_generated_file_is_current(name: str) -> None:
    path = Path(__file__).resolve().parent.parent / name
    assert path.read_text("utf-8") == GENERATED[path](), "run: python tests/regenerate.py"


@pytest.mark.slow
@given(st.sampled_from(names()).flatmap(sim.scenarios))
def test_every_loop_keeps_counters_compaction_backoff_and_termination(scenario: Scenario) -> None:
    sim.check(scenario, invariants=in_module(machines))
