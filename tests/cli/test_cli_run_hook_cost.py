"""`simloop run --hook-cost` shows the real time of hooks below the verdict, and in the JSON."""

import json
from pathlib import Path

import pytest
from running import run
from writing import write

HOOKED = """\
prompt: Hi
model: [{say: Hello.}]
hooks: [{at: before_llm_call, name: guard, takes: 1s}]
"""
PLAIN = "prompt: Hi\nmodel: [{say: Hello.}]\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_table_has_each_hook_with_its_calls() -> None:
    lines = run(write("a", HOOKED), "--hook-cost").stdout.splitlines()
    heading, row = lines[-2:]
    assert heading.split()[:6] == ["hook", "point", "calls", "median", "p95", "total"]
    assert row.split()[:3] == ["guard", "before_llm_call", "1"]


def test_a_run_without_hooks_says_so() -> None:
    assert run(write("a", PLAIN), "--hook-cost").stdout.endswith("\n\nThis run has no hooks.\n")


def test_json_has_the_figures_of_each_hook() -> None:
    result = run(write("a", HOOKED), "--hook-cost", "--format", "json")
    (cost,) = json.loads(result.stdout)["runs"][0]["hook_cost"]
    assert (cost["hook"], cost["calls"]) == ("guard", 1)
    assert (cost["blocks"], cost["is_slow"]) == (False, False)
    assert 0 <= cost["median_ns"] == cost["p95_ns"] == cost["total_ns"]


def test_several_scenarios_or_all_loops_are_refused() -> None:
    several = run(write("a", PLAIN), write("b", PLAIN), "--hook-cost")
    every = run(write("a", PLAIN), "--hook-cost", "--loop", "all")
    assert (several.exit_code, every.exit_code) == (2, 2)
    assert "--hook-cost needs a single scenario, and these are 2" in several.stderr
    assert "--hook-cost needs a single loop" in every.stderr
