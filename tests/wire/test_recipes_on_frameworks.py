"""The agents of docs/sdks.md on frameworks, from scenario files: exact times, equal runs."""

import re

import pytest
from environments import RECIPES, Told, printed_by, told_by
from loopback import accepting
from publish_compare import COMMAND, PAGE, page_with

pytestmark = pytest.mark.sdks

AGENTS = (
    ("openai_chat:agent", "weather"),
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
SAME = (
    ("with_langgraph:blocking", "weather/server-errors.simloop.yaml"),
    ("with_openai_agents:agent", "cities/parallel-after-faults.simloop.yaml"),
    ("with_pydantic_ai:agent", "weather/server-errors.simloop.yaml"),
    ("with_smolagents:coding", "code/too-long.simloop.yaml"),
)
FINDINGS = sorted(path.relative_to(RECIPES) for path in RECIPES.glob("findings/*/*.simloop.yaml"))


@pytest.fixture(scope="module")
def told() -> Told:
    """What the checks of the agents print, then that of the findings, then the comparison."""
    checks = [("check", folder, "--loop", loop) for loop, folder in AGENTS]
    return told_by(*checks, ("check", *map(str, FINDINGS)), COMMAND, runs=SAME)


@pytest.mark.parametrize("number", range(len(AGENTS)), ids=[":".join(each) for each in AGENTS])
def test_each_scenario_comes_to_what_it_expects_twice(number: int, told: Told) -> None:
    code, printed = told.commands[number]
    assert (code, " passed" in printed) == (0, True), printed


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


def test_another_process_with_another_hash_seed_changes_no_byte(told: Told) -> None:
    assert told.digests == told_by(runs=SAME, hash_seed="2").digests


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
    print(run(script, loop=loop).outcome)
with trace("outside of runs"):
    pass
"""


def test_no_span_of_a_run_is_sent_when_the_process_ends() -> None:
    with accepting() as (url, bodies):
        printed = printed_by(_TRACED.format(url=url))
    assert printed == "completed\n" * 2
    assert [body.count(b'"object":') for body in bodies] == [1]
    assert b"outside of runs" in bodies[0]
