"""The worlds of an agent: small ones first, and each circumstance once before any comes twice."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import Raw
from offering import (
    FOUND,
    GO,
    AnswersFirst,
    Asks,
    OverHttp,
    digest_of_worlds,
    native,
    of_world,
    without_tools,
)

from simloop import Reply, Scenario, UserMessage, World, traced
from simloop.check.trial import Rules
from simloop.fuzz import course as courses
from simloop.fuzz.alphabet import TOOLS, Abilities
from simloop.fuzz.circumstances import Circumstance, WorldDraft
from simloop.fuzz.course import AgentCourse, plain_scenario
from simloop.fuzz.search import Search
from simloop.fuzz.worlds import base_of
from simloop.messages import ToolSpec
from simloop.runs.loop import loop_of
from simloop.runs.plan import Plan

BUYS = [Reply(call={"find": {"customer": "Ann"}}), Reply(say="Done.", times="always")]
ORDER = Scenario(prompt="Buy.", model=BUYS)
OTHER = Scenario(prompt="Cancel.", model=[Reply(say="No.", times="always")])


def course(agent: Any, *bases: Scenario, breaches: bool = False) -> AgentCourse:
    abilities = Abilities.of(loop_of(ORDER, {"loop": agent}))._replace(breaches=breaches)
    return AgentCourse(bases or [plain_scenario("reference")], {"loop": agent}, abilities)


@pytest.fixture(scope="module")
def shop() -> AgentCourse:
    return course(AnswersFirst)


@pytest.fixture(scope="module")
def two() -> AgentCourse:
    return course(OverHttp, ORDER, OTHER)


@traced
def read(path: str) -> str:
    return path


async def reads(prompt: str, world: World) -> str:
    offered = [ToolSpec("read", "", Raw(b'{"properties": {"path": {"type": "string"}}}'))]
    reply = await world.model.reply([UserMessage(prompt)], tools=offered)
    return " ".join(read(**json.loads(call.arguments)) for call in reply.message.calls)


def test_tools_of_the_search_are_left_out_where_an_agent_has_its_own() -> None:
    model = [Reply(call={"read": {"path": "a"}}), Reply(say="Done.", times="always")]
    stated = Scenario(prompt="Go.", model=model, tools={"search": {"returns": "found"}})
    base = base_of(stated, Abilities.of(loop_of(ORDER, {"loop": reads})), "reads")
    assert {*base.tools} == {*TOOLS}
    (found,) = course(reads, base)._bases
    assert {*found.scenario.tools} == {"search"}


def scenarios(worlds: Iterable[tuple[Plan, Rules]]) -> list[Scenario]:
    return [plan.source for plan, _ in worlds]


def test_the_first_world_is_the_course_alone_and_each_other_has_one_circumstance(
    shop: AgentCourse,
) -> None:
    (base,) = shop._bases
    worlds = [world for _, world in shop.small]
    assert len(worlds) == 1 + len(base.circumstances)
    assert worlds[0].model == [*base.offer.course, base.offer.last]
    assert worlds[0] not in worlds[1:]
    assert all(world.model[-1].times == "always" for world in worlds), "every request is answered"


def test_a_tool_that_ends_the_run_ends_each_script(shop: AgentCourse) -> None:
    assert {name for _, world in shop.small for name in world.model[-1].call} == {"answer"}
    together = scenarios(shop.together(5, 0, 40, None))
    assert {name for world in together for name in world.model[-1].call} == {"answer"}


def test_small_worlds_can_be_played_from_any_number(shop: AgentCourse) -> None:
    every = scenarios(shop.small_from(1, None))
    assert every == [world for _, world in shop.small]
    assert scenarios(shop.small_from(31, None)) == every[30:]
    assert scenarios(shop.small_from(len(every), None)) == every[-1:]


def drawn(
    course: AgentCourse, monkeypatch: pytest.MonkeyPatch, families: int
) -> list[tuple[str, str]]:
    """The first circumstance of each world with several, by scenario and name."""
    firsts: dict[WorldDraft, tuple[str, str]] = {}

    def noted(each: Circumstance) -> Circumstance:
        def act(draft: WorldDraft, place: int) -> None:
            firsts.setdefault(draft, (draft.base.prompt, each.name))
            each.act(draft, place)

        return each._replace(act=act)

    for base in course._bases:
        monkeypatch.setattr(base, "circumstances", [*map(noted, base.circumstances)])
    for number in range(families):
        list(course.together(3, number * 10, 10, None))
    return [*firsts.values()]


def test_each_circumstance_comes_once_before_any_comes_twice(
    shop: AgentCourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base,) = shop._bases
    count = len(base.circumstances)
    names = [name for _, name in drawn(shop, monkeypatch, 2 * count // 10 + 1)]
    assert len({*names[:count]}) == count
    assert len({*names[count : 2 * count]}) == count
    assert names[:count] != names[count : 2 * count], "in another order"


def test_each_circumstance_of_several_scenarios_comes_once_before_any_comes_twice(
    two: AgentCourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = max(len(base.circumstances) for base in two._bases)
    firsts = drawn(two, monkeypatch, 2 * (most // 10 + 1))
    for base in two._bases:
        names = [name for prompt, name in firsts if prompt == base.scenario.prompt]
        count = len(base.circumstances)
        assert Counter(names[:count]) == Counter(each.name for each in base.circumstances)


def test_scenarios_take_turns_and_keep_their_prompts_and_scripts(two: AgentCourse) -> None:
    prompts = [world.prompt for world in scenarios(two.small_from(1, None))]
    first, second = (len(base.circumstances) + 1 for base in two._bases)
    assert prompts == ["Buy."] * first + ["Cancel."] * second
    assert two.small[0][1].model == ORDER.model
    families = [{world.prompt for world in scenarios(two.together(0, n, 10, None))}
                for n in (0, 10, 20, 30)]  # fmt: skip
    assert families == [{"Buy."}, {"Cancel."}] * 2


def test_a_world_is_a_function_of_the_seed_and_its_number(shop: AgentCourse) -> None:
    whole = scenarios(shop.together(7, 20, 10, None))
    assert scenarios(shop.together(7, 20, 10, None)) == whole
    assert scenarios(shop.together(8, 20, 10, None)) != whole
    again = course(AnswersFirst)
    assert scenarios(again.together(7, 20, 10, None)) == whole
    assert again.small == [(again._bases[0].plan, world) for _, world in shop.small]
    assert len({repr(world.model) for world in whole}) > 5


@pytest.mark.parametrize("agent", [native, without_tools])
def test_a_search_plays_from_any_number_the_worlds_of_the_whole_search(agent: Any) -> None:
    whole, part = Search(agent, seed=4), Search(agent, seed=4)
    assert whole._course is not None
    small = len(whole._course.small)
    numbers = (1, 2, 50, small, small + 1, small + 7, small + 10, small + 11, small + 33)
    worlds = {number: whole.world(number) for number in range(1, small + 34)}
    assert [part.world(number) for number in reversed(numbers)] == [
        worlds[number] for number in reversed(numbers)
    ]
    other = Search(agent, seed=5)
    assert other.world(small) == worlds[small], "small worlds are those of each seed"
    assert other.world(small + 1) != worlds[small + 1]


def test_a_further_range_plays_what_the_whole_search_plays() -> None:
    def played(first: int, runs: int) -> list[Scenario]:
        search, found = Search(native, seed=4, invariants=()), list[Scenario]()
        search.number = first - 1
        for _ in range(runs):
            plan, _ = search._next_world()
            found.append(plan.by_itself())
        return found

    search = Search(native, seed=4)
    assert search._course is not None
    small = len(search._course.small)
    whole = played(small - 3, 30)
    assert played(small - 3, 14) + played(small + 11, 16) == whole


def test_the_course_of_a_name_is_made_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Counted(AgentCourse):
        def __init__(self, *given: Any) -> None:
            made.append(given[1]["loop"])
            super().__init__(*given)

    monkeypatch.setattr(courses, "_KNOWN", {})
    abilities = Abilities(has_engine=False)
    for breaches in (False, False, True):
        able = abilities._replace(breaches=breaches)
        Counted.of([plain_scenario("searching:asks")], {"loop": "searching:asks"}, able)
    assert made == ["searching:asks"] * 2, "the breaches are another catalogue"


@pytest.mark.slow
def test_worlds_are_equal_in_another_process_with_another_hash_seed() -> None:
    there = subprocess.run(
        [sys.executable, "-c", "import offering; print(offering.digest_of_worlds())"],
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.strip() == digest_of_worlds()


def test_scripted_tools_that_the_agent_does_not_offer_are_left_out() -> None:
    agents: list[tuple[Any, set[str]]] = [(native, set()), (of_world, {"look", "act"})]
    tools = Scenario(prompt="", tools={"look": {}, "act": {}}).tools
    base = GO.model_copy(update={"tools": tools})
    for agent, names in agents:
        assert set(course(agent, base).small[0][1].tools) == names
    scripted = ORDER.model_copy(update={"tools": tools})
    assert course(native, scripted).small[0][1].tools == tools, "a user's scenario stays"


def test_the_course_of_a_scenario_without_replies_is_found() -> None:
    search = Search(OverHttp, seed=2, scenarios=[Scenario(prompt="Buy.", then=["And now?"])])
    assert search._course is not None
    worlds = [search.world(1), search.world(len(search._course.small) + 11)]
    for world in worlds:
        called = {name for each in world.model for name in each.call}
        assert {"find", "cancel", "answer"} <= called, "a drawn world varies the course"
    assert [each.call for each in worlds[0].model[:-1]] == FOUND


@pytest.mark.parametrize(("agent", "calls"), [(OverHttp, True), (without_tools, False)])
def test_a_script_that_only_answers_is_no_course_of_an_agent_with_tools(
    agent: Any,
    calls: bool,  # noqa: FBT001
) -> None:
    (base,) = course(agent, OTHER).scripted
    assert any(each.call for each in base.model) is calls
    assert (base.model[-1].say == "No.") is not calls
    always = OTHER.model_copy(update={"model": [Reply(say="Hm.", times="always")]})
    for script in always, OTHER.model_copy(update={"model": [Reply(say="Hm."), *OTHER.model]}):
        (base,) = course(agent, base_of(script, Abilities(has_engine=False), "")).scripted
        assert any(each.call for each in base.model) is calls
    fails = OTHER.model_copy(update={"model": [Reply(lost="before-headers"), *OTHER.model]})
    critic: Any = {"when": {"system": "Judge."}, "replies": [{"say": "Good."}]}
    for script in fails, Scenario(prompt="Go.", model=OTHER.model, models={"critic": critic}):
        (base,) = course(agent, script).scripted
        assert base.model == script.model


def test_what_a_scenario_declares_holds_for_its_worlds() -> None:
    declared = Scenario(prompt="Buy.", declares={"limits": {"max_steps": 3}}, model=BUYS)
    found = course(OverHttp, OTHER, declared)
    led_to = [{each.name for each in base.circumstances if "the limit of steps" in each.name}
              for base in found._bases]  # fmt: skip
    assert led_to[0] == set()
    assert {"-1 to the limit of steps", "3 to the limit of steps"} <= led_to[1]


def test_the_user_of_an_agent_types_in_every_world() -> None:
    search = Search(Asks, seed=2)
    assert search._course is not None
    small = len(search._course.small)
    assert all(search.world(small + number).input is not None for number in range(1, 40))
    of_scenario = Search(Asks, seed=2, scenarios=[ORDER])
    assert all(of_scenario.world(number).input is not None for number in range(400, 440))


def test_a_search_is_slow_if_the_first_runs_of_its_agent_are() -> None:
    search = Search(native, seed=1)
    assert search._course is not None
    search._course.took_s = 0.5
    assert not search.is_slow
    search._course.took_s = 0.6
    assert search.is_slow
    assert not Search("reference", seed=1).is_slow
