"""The agents of README.md on frameworks, from scenario files: exact times, equal runs."""

import pytest
from environments import check_recipe, digests_of, printed_by
from loopback import accepting

pytestmark = pytest.mark.sdks

RECIPES = (
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


@pytest.mark.parametrize(("loop", "folder"), RECIPES)
def test_each_scenario_comes_to_what_it_expects_twice(loop: str, folder: str) -> None:
    check_recipe(loop, folder)


SAME = (
    ("with_langgraph:blocking", "weather/server-errors.simloop.yaml"),
    ("with_openai_agents:agent", "cities/parallel-after-faults.simloop.yaml"),
    ("with_pydantic_ai:agent", "weather/server-errors.simloop.yaml"),
    ("with_smolagents:coding", "code/too-long.simloop.yaml"),
)


def test_another_process_with_another_hash_seed_changes_no_byte() -> None:
    assert digests_of(SAME, "1") == digests_of(SAME, "2")


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
if {loop!r} == "none":
    with trace("outside of runs"), custom_span("outside"):
        pass
else:
    print(run(script, loop={loop}).outcome)
"""


@pytest.mark.parametrize(("loop", "sent"), [("agent", 0), ("leaving", 0), ("none", 1)])
def test_no_span_of_a_run_is_sent_when_the_process_ends(loop: str, sent: int) -> None:
    with accepting() as (url, bodies):
        printed = printed_by(_TRACED.format(url=url, loop=loop))
    assert (len(bodies), printed) == (sent, "completed\n" * (not sent))
