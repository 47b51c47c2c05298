"""The agents of README.md on frameworks, from scenario files: exact times, equal runs."""

import pytest
from environments import check_recipe, digests_of

pytestmark = pytest.mark.sdks

RECIPES = (
    ("openai_chat:agent", "weather"),
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
