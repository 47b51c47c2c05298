"""The findings of FINDINGS.md are still there with the pinned packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.sdks

TOP = Path(__file__).resolve().parents[2]
RECIPES = Path(__file__).with_name("recipes")
FINDINGS = sorted(RECIPES.glob("findings/*/*.simloop.yaml"))


@pytest.mark.parametrize("agent", sorted({path.parent.name for path in FINDINGS}))
def test_each_scenario_still_violates_its_invariant(agent: str) -> None:
    paths = [path for path in FINDINGS if path.parent.name == agent]
    laws = [path.read_text("utf-8").splitlines()[0][2:].partition(":")[0] for path in paths]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(RECIPES), str(TOP)))}
    command = [sys.executable, "-m", "simloop", "check", *map(str, paths)]
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"0 passed, {len(paths)} failed" in done.stdout
    said = done.stdout + done.stderr
    # What the invariants on pairs of calls and results find is reported as `pairing`.
    # A run that does not end is an error, and not a violation.
    others = {
        "answered-calls": "pairing",
        "unique-call-ids": "pairing",
        "finishes": "max_transitions",
    }
    assert [law for law in laws if others.get(law, law) not in said] == []
