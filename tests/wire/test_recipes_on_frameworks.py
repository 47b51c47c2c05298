"""The agents of docs/sdks.md on frameworks, from scenario files: exact times, equal runs."""

import re
from typing import NamedTuple

import pytest
from environments import PYTHONS, RECIPES, THIS, Told, built, interpreter, scenarios_of, told_by
from loopback import accepting
from publish_compare import COMMAND, PAGE, page_with
from reported_faults import check_of, missed

pytestmark = pytest.mark.frameworks

AGENTS = (
    ("approval_langgraph:agent", "approval"),
    ("approval_openai_agents:agent", "approval"),
    ("approval_pydantic_ai:agent", "approval"),
    ("handoffs_openai_agents:agent", "handoffs"),
    ("openai_chat:agent", "weather"),
    ("supervisor_langgraph:agent", "supervisor"),
    ("titles_openai_chat:agent", "titles"),
    ("traced_tools:on_langgraph", "settings"),
    ("traced_tools:on_openai_agents", "settings"),
    ("traced_tools:on_pydantic_ai", "settings"),
    ("with_langchain:agent", "weather"),
    ("with_langgraph:awaiting", "weather"),
    ("with_langgraph:blocking", "weather"),
    ("with_litellm:agent", "weather"),
    ("with_mcp:agent", "mcp"),
    ("with_openai_agents:agent", "cities"),
    ("with_openai_agents:agent", "weather"),
    ("with_pydantic_ai:agent", "weather"),
    ("with_smolagents:calling", "final_answer"),
    ("with_smolagents:coding", "code"),
)
IN_THE_ORDER_OF_A_SET = ("with_smolagents:coding", "code/forbidden.simloop.yaml")
"""What smolagents tells the model in this run changes with the hash seed."""
CANCELLED_OTHERWISE = ("supervisor_langgraph:agent", "supervisor/server-errors.simloop.yaml")
"""LangGraph makes one more task of a worker on Python 3.11, whose cancellation is an entry, too."""
RUNS = [
    each
    for each in scenarios_of(AGENTS)[::3]
    if each not in {IN_THE_ORDER_OF_A_SET, CANCELLED_OTHERWISE}
]
FINDINGS = sorted(path.relative_to(RECIPES) for path in RECIPES.glob("findings/*/*.simloop.yaml"))


_TRACED = """
import os
os.environ["OPENAI_API_KEY"] = "key"
from agents import Runner, custom_span, trace
from agents.tracing.processors import default_exporter
from with_openai_agents import agent, support
from simloop import Pace, Reply, Scenario, run
default_exporter().endpoint = {url!r}

async def leaving(question):
    async for event in Runner.run_streamed(support, question).stream_events():
        if event.type == "raw_response_event":
            return

script = Scenario(prompt="Hi", model=[Reply(say="Hello you", pace=Pace(per_part="1s"))])
for loop in agent, leaving:
    assert run(script, loop=loop).outcome == "completed"
with trace("outside of runs"):
    pass
"""


class Process(NamedTuple):
    """What one process has told, and the requests that it has sent."""

    told: Told
    sent: list[bytes]


@pytest.fixture(scope="module")
def process() -> Process:
    """The checks of agents, of faults and of findings, then the comparison, then the runs."""
    checks = [("check", folder, "--loop", loop) for loop, folder in AGENTS]
    commands = (*checks, check_of("frameworks"), ("check", *map(str, FINDINGS)), COMMAND)
    with accepting() as (url, sent):
        traced = _TRACED.format(url=url)
        told = told_by(*commands, runs=RUNS, then=traced, python=built("frameworks"))
    return Process(told, sent)


@pytest.fixture(scope="module")
def told(process: Process) -> Told:
    return process.told


@pytest.mark.parametrize("number", range(len(AGENTS)), ids=[":".join(each) for each in AGENTS])
def test_each_scenario_comes_to_what_it_expects_twice(number: int, told: Told) -> None:
    code, printed = told.commands[number]
    assert (code, " passed" in printed) == (0, True), printed


def test_each_reported_fault_is_found_by_a_scenario(told: Told) -> None:
    assert missed("frameworks", told.commands[len(AGENTS)]) == []


def test_each_finding_of_a_search_still_violates_its_invariant(told: Told) -> None:
    code, printed = told.commands[-2]
    assert (code, f"0 passed, {len(FINDINGS)} failed" in printed) == (1, True), printed
    for path in FINDINGS:
        law = re.sub(r"-\d+$", "", path.name.partition(".")[0])
        said = "max_transitions" if law == "finishes" else f"invariant {law}: "
        report = printed.partition(str(path))[2].partition("FAILED")[0]
        assert said in report, path


def test_the_table_of_the_comparison_is_what_the_runs_give(told: Told) -> None:
    assert PAGE.read_text("utf-8") == page_with(told.commands[-1][1]), "run: publish_compare.py"


def test_another_process_with_another_hash_seed_and_python_changes_no_byte(told: Told) -> None:
    """The Python is the newest that is installed and has the frameworks."""
    version = next(each for each in reversed((THIS, *PYTHONS)) if interpreter(each))
    assert (
        told.digests
        == told_by(runs=RUNS, hash_seed="2", python=built("frameworks", version)).digests
    )
    assert {line.split()[0] for line in told.digests} == {loop for loop, _ in RUNS}


def test_no_span_of_a_run_is_sent_when_the_process_ends(process: Process) -> None:
    assert [body.count(b'"object":') for body in process.sent] == [1]
    assert b"outside of runs" in process.sent[0]
