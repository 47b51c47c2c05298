"""The agents of README.md on providers' SDKs, from scenario files: exact times, equal runs."""

import pytest
from environments import check_recipe, digests_of

pytestmark = pytest.mark.sdks


@pytest.mark.parametrize("loop", ["openai_chat:agent", "anthropic_messages:agent"])
def test_each_scenario_comes_to_what_it_expects_twice(loop: str) -> None:
    check_recipe(loop, "weather")


def test_another_process_with_another_hash_seed_changes_no_byte() -> None:
    scenario = "weather/server-errors.simloop.yaml"
    runs = [("openai_chat:agent", scenario), ("anthropic_messages:agent", scenario)]
    assert digests_of(runs, "1") == digests_of(runs, "2")
