"""The search of variations of a recording: what it changes, and how a finding says so."""

import pytest

from simloop.check.trial import Failure
from simloop.fuzz.alphabet import ANSWER_FAULTS, Abilities, with_answer
from simloop.fuzz.course import AgentCourse
from simloop.fuzz.executor import SearchFinding
from simloop.fuzz.search import FoundFailure, Search
from simloop.fuzz.words import changes_in_words
from simloop.fuzz.worlds import base_of
from simloop.scenario.replies import Pace, Reply, When
from simloop.scenario.schema import Scenario, ScriptedTool
from simloop.world.world import World

RECORDED = Scenario.model_validate(
    {
        "prompt": "Look around.",
        "tools": {"look": {"answers": [{"returns": f"thing {n}"} for n in range(8)]}},
        "model": [*({"call": {"look": {"at": n}}} for n in range(8)), {"say": "All seen."}],
        "models": {
            "helper": {"when": {"conversation": "Help."}, "replies": [{"say": "A."}, {"say": "B."}]}
        },
        "services": {"https://orders.example": [{"get": "/7", "times": 1, "json": {}}]},
        "expect": {"text": "All seen.", "sent": ["..."], "requests": {"max": 30}},
    }
)


async def agent(prompt: str, world: World) -> str:
    return prompt


ABILITIES = Abilities.of(Search(agent)._chosen)
BASE = base_of(RECORDED, ABILITIES, "x")
CUT = RECORDED.model[2].model_copy(update={"lost": "mid-output"})


def changed(place: int, *replies: Reply, without: int = 0) -> Scenario:
    model = list(BASE.model)
    model[place : place + without] = replies
    return BASE.model_copy(update={"model": model})


@pytest.mark.parametrize(
    ("world", "words"),
    [
        (BASE, ""),
        (changed(2, CUT), "request 3 is cut in the middle"),
        (changed(1, Reply(http={"status": 429})), "request 2: the provider answers 429"),
        (
            changed(
                1, BASE.model[1].model_copy(update={"pace": Pace(first_part="20s")}), without=1
            ),
            'request 2: the model calls look({"at":1}) after 20s',
        ),
        (changed(3, without=2), "without requests 4 to 5"),
        (changed(3, without=1), "without request 4"),
    ],
)
def test_a_finding_says_in_one_line_what_was_changed(world: Scenario, words: str) -> None:
    world = Scenario.model_validate(world.model_dump(mode="json", by_alias=True))
    assert changes_in_words(world, BASE) == words
    found = FoundFailure(Failure("a", "b", "c"), world, 1)
    assert SearchFinding.of(found, "x", [BASE], shrinks=False).world == words


def test_changes_of_parties_tools_and_services_are_said() -> None:
    helper = BASE.models["helper"]
    party = helper.model_copy(update={"replies": [Reply(http={"status": 500}), *helper.replies]})
    tool = with_answer(BASE.tools["look"], {"raises": "no", "takes": "45s"}, 2)
    world = BASE.model_copy(
        update={"models": {"helper": party}, "tools": {**BASE.tools, "look": tool}}
    )
    assert changes_in_words(world, BASE) == (
        "for helper, request 1: the provider answers 500; call 3 of look takes 45s and fails"
    )


def test_a_tool_of_the_agent_and_a_rule_that_the_course_lacks_are_said() -> None:
    rule = Reply(when=When(tools=[]), http={"status": 500}, times="always")
    tools = {**BASE.tools, "pay": ScriptedTool(takes="20s")}
    world = BASE.model_copy(update={"model": [rule, *BASE.model], "tools": tools})
    assert changes_in_words(world, BASE) == (
        "to requests without tools the provider answers 500 each time; pay takes 20s"
    )


def test_the_small_worlds_disturb_each_place_of_the_course_and_each_party() -> None:
    course = AgentCourse([BASE], {"loop": agent}, ABILITIES)
    said = " ".join(changes_in_words(world, BASE) for _, world in course.small)
    for number in range(1, 9):
        assert f"request {number}: " in said
    assert said.count(" of look fails") + said.count(" of look takes") >= len(ANSWER_FAULTS) - 1
    assert "for helper, request 1" in said
    assert "is cut in the middle" in said
    assert "orders.example" in said


def test_a_machine_meets_recorded_results_that_fail() -> None:
    search = Search("reference", scenarios=[RECORDED])
    worlds = [search.world(number) for number in range(1, 60)]
    said = " ".join(changes_in_words(each, search.bases[0]) for each in worlds)
    assert "of look fails" in said
    assert "for helper, " in said


def test_upper_bounds_are_judged_in_the_variations() -> None:
    bounded = RECORDED.model_copy(
        update={"expect": RECORDED.expect.model_validate({"requests": {"max": 9}})}
    )
    search = Search("reference", scenarios=[bounded])
    names = {found.failure.text.partition(":")[0] for found in search.run(runs=40)}
    assert names == {"expect.requests"}
    assert not list(Search("reference", scenarios=[RECORDED]).run(runs=40))


def test_a_result_takes_another_end_and_keeps_the_others() -> None:
    tool = ScriptedTool.model_validate({"answers": [{"returns": "a"}, {"returns": "b"}]})
    late = with_answer(tool, {"takes": "45s"}, 7)
    assert [each.returns for each in late.answers] == ["a", "b"]
    assert late.answers[1].takes == 45 * 10**9


def test_a_reply_that_is_said_again_has_calls_with_new_ids() -> None:
    calls = {"call": {"look": {}}, "ids": ["recorded-1"]}
    recorded = Scenario.model_validate(
        {"prompt": "Go.", "tools": {"look": {}}, "model": [calls, {"say": "Done."}]}
    )
    search = Search("reference", scenarios=[recorded])
    worlds = [search.world(number) for number in range(1, 80)]
    base = base_of(recorded, Abilities.of(search._chosen), "x")
    worlds += [each for _, each in AgentCourse([base], {"loop": agent}, ABILITIES).small]
    assert all(sum("recorded-1" in each.ids for each in world.model) < 2 for world in worlds)
    assert any(sum(bool(each.call) for each in world.model) > 1 for world in worlds)
