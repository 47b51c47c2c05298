"""Everything that the README shows is run here; its set-up commands are run by .ci/run."""

import re
from pathlib import Path
from typing import Any

import pytest

import simloop

README = (Path(__file__).resolve().parent.parent / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    """The README's code blocks in that language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(blocks("python"))))
def test_a_python_block_runs(number: int, simloop_run: object) -> None:
    names: dict[str, Any] = {}
    exec(blocks("python")[number], names)
    for name, test in names.items():
        if name.startswith("test_"):
            test(simloop_run)


@pytest.mark.parametrize("number", range(len(blocks("yaml"))))
def test_a_scenario_passes(number: int) -> None:
    simloop.run(simloop.parse_scenario(blocks("yaml")[number])).check()


def test_a_mistake_in_it_gives_the_line_that_the_readme_shows() -> None:
    text = blocks("yaml")[0]
    wrong = text.replace("http:", "htpp:")
    with pytest.raises(simloop.ScenarioError) as raised:
        simloop.parse_scenario(wrong, "my-first.simloop.yaml")
    assert str(raised.value) in README


def test_two_commands_do_all_the_set_up() -> None:
    commands = [line for block in blocks("console") for line in block.splitlines()]
    run, tests = [line for line in commands if not line.startswith("simloop ")]
    assert run.startswith("python3 -m venv .venv && ")
    assert run.endswith(".venv/bin/simloop run quickstart")
    assert tests.startswith("python3 -m venv .venv-test && ")
    assert tests.endswith(".venv-test/bin/python -m pytest -q")


def test_the_outcomes_that_it_names_are_all_there_are() -> None:
    (row,) = [line for line in README.splitlines() if line.startswith("| `result.outcome` |")]
    assert re.findall(r"`([a-z-]+)`", row.partition("|")[2].partition("|")[2]) == [
        str(outcome) for outcome in simloop.Outcome
    ]
