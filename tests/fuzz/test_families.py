import pytest

from simloop import Reply, Scenario
from simloop.fuzz.choices import SeededChoices
from simloop.fuzz.families import new_settings, with_reply_at
from simloop.fuzz.replies import LAST
from simloop.fuzz.search import Search
from simloop.fuzz.settings import Abilities
from simloop.fuzz.swarm import Arm
from simloop.kernel.policies import HookOrder
from simloop.runs.chosen_loop import choose_loop


def test_a_changed_world_stays_so_short_that_a_loop_without_a_bound_comes_to_its_end() -> None:
    choices, abilities = SeededChoices(1), Abilities(ends=False)
    _, weights = new_settings(choices, abilities, Arm.STEERED, "pi")
    world = Scenario(prompt="Go.", model=[Reply(call={"look": {}}, times=50), LAST])
    family = Search("pi")._family(world, weights)
    for _ in range(200):
        world = family.changed(choices, world, world)
        times = [reply.times for reply in world.model]
        assert sum(each for each in times if type(each) is int and each > 1) <= 60
        assert times[-1] == "always"


@pytest.mark.parametrize(
    ("loop", "key", "drawn"),
    [
        ("react", "react", {"all_calls", "max_rounds"}),
        ("pi@0.87.1", "pi", {"steering", "follow_up", "parallel"}),
        ("opencode", "opencode", {"steps", "max_retries", "first_delay"}),
        ("opencode@1.18.33", "opencode@1.18.33", set()),
    ],
)
def test_the_options_of_a_design_are_drawn_also_for_its_versions(
    loop: str, key: str, drawn: set[str]
) -> None:
    seen: set[str] = set()
    for seed in range(60):
        settings, _ = new_settings(SeededChoices(seed), Abilities(), Arm.LIMITS, loop)
        seen |= settings.loops.model_dump(by_alias=True, exclude_defaults=True).get(key, {}).keys()
    assert seen == drawn


@pytest.mark.parametrize(
    ("place", "times"),
    [
        (0, [1, 3, "always"]),
        (1, [1, 1, 2, "always"]),
        (3, [3, 1, "always"]),
        (5, [3, 2, 1, "always"]),
    ],
)
def test_a_reply_is_added_before_any_of_the_repetitions_of_another(
    place: int, times: list[object]
) -> None:
    world = Scenario(prompt="Go.", model=[Reply(call={"look": {}}, times=3), LAST])
    changed = with_reply_at(world, place, Reply(say="New.", times=1))
    assert [reply.times for reply in changed.model] == times
    assert [reply.say for reply in changed.model].count("New.") == 1


@pytest.mark.parametrize(("loop", "drawn"), [("reference", True), ("react", False)])
def test_hooks_run_at_once_in_the_worlds_of_loops_with_hooks(loop: str, drawn: bool) -> None:  # noqa: FBT001
    abilities = Abilities.of(choose_loop(Scenario(prompt="Go.", loop=loop), {}).design)
    worlds = [new_settings(SeededChoices(n), abilities, Arm.LIMITS, loop)[0] for n in range(60)]
    policies = [world.hook_execution for world in worlds if world.hook_execution is not None]
    assert any(policy.order is HookOrder.PARALLEL for policy in policies) is drawn
