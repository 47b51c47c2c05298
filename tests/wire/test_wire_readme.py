"""The examples of docs/sdks.md stand in the agents that the tests run."""

import re
from itertools import chain
from pathlib import Path

import pytest
from environments import RECIPES, TOP
from publish_compare import PAGE
from publish_programs import PROGRAMS
from reported_faults import FAULTS, row

TEXT = (TOP / "docs" / "sdks.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
FILES = {file: file.read_text("utf-8") for file in sorted(RECIPES.glob("*.py"))}


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_stands_in_an_agent(number: int) -> None:
    assert any(EXAMPLES[number] in text for text in FILES.values())


# The drivers of whole programs, and the agents with reported faults, are tables of another page.
DRIVERS = {one.loop.partition(":")[0] for group in PROGRAMS.values() for one in group}
SCENARIOS = {each: (RECIPES / each.path).read_text("utf-8") for each in chain(*FAULTS.values())}
FAULTY = {re.findall(r"^loop: (\w+):", text, re.MULTILINE)[0] for text in SCENARIOS.values()}
SHOWN = [file for file in FILES if file.stem not in DRIVERS | FAULTY]


@pytest.mark.parametrize("file", SHOWN, ids=lambda file: Path(file).stem)
def test_each_agent_is_the_source_of_an_example(file: Path) -> None:
    assert any(example in FILES[file] for example in EXAMPLES)


@pytest.mark.parametrize("package", ["pydantic-ai-slim", "openai-agents", "smolagents", "litellm"])
def test_the_versions_are_the_pinned_ones(package: str) -> None:
    pinned = (RECIPES.parent / "environments" / "frameworks.txt").read_text("utf-8")
    found = re.search(rf"^{package}==(\d+\.\d+)", pinned, re.MULTILINE)
    assert found is not None
    assert f"{package.removesuffix('-slim')} ({found[1]})" in TEXT


@pytest.mark.parametrize("environment", FAULTS)
def test_each_reported_fault_is_a_line_of_the_table(environment: str) -> None:
    page = PAGE.read_text("utf-8")
    assert [each for each in FAULTS[environment] if row(environment, each) not in page] == []


def test_each_scenario_of_a_fault_is_checked() -> None:
    assert {RECIPES / each.path for each in SCENARIOS} == {*RECIPES.glob("faults/*.yaml")}
