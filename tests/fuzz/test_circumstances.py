"""The circumstances of agents: each makes a world that can be played and kept in a file."""

import importlib
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from offering import (
    AROUND,
    GO,
    AnswersFirst,
    Asks,
    AsksAtLast,
    OverHttp,
    Routes,
    circumstances_of,
    native,
    of_world,
    offered,
    without_tools,
    world_with,
)

from simloop import Limits, Program, Reply, Scenario, Then, parse_scenario
from simloop.fuzz.alphabet import CONTENTS, Abilities
from simloop.fuzz.arguments import Arguments
from simloop.fuzz.circumstances import FURTHER, Circumstance, WorldDraft
from simloop.fuzz.offers import Offer
from simloop.fuzz.search import Search
from simloop.fuzz.worlds import usual_weights
from simloop.messages import json_value
from simloop.runs.loop import loop_of
from simloop.runs.plan import Plan
from simloop.scenario.conversation import calls_of
from simloop.scenario.schema import Trigger
from simloop.scenario.writing import scenario_text
from simloop.world.faults import BODIES, NO_SECONDS, STATUSES, WAITS

WITH_TOOLS = Scenario(prompt="Go.", tools={"look": {"returns": "seen"}, "install": {}})
CASES: dict[str, tuple[Any, Scenario]] = {
    "native": (native, GO),
    "world": (of_world, WITH_TOOLS),
    "http": (OverHttp, GO),
    "ends": (AnswersFirst, GO),
    "from": (OverHttp, AROUND),
    "none": (without_tools, GO),
}


@pytest.fixture(params=CASES, scope="module")
def case(request: pytest.FixtureRequest) -> tuple[Any, Scenario, Offer]:
    agent, base = CASES[request.param]
    return agent, base, offered(agent, base)


@pytest.mark.slow
def test_each_world_can_be_played_and_a_file_can_hold_it(case: Any) -> None:
    agent, base, offer = case
    plan = Plan(base, {"loop": agent})
    for each in circumstances_of(*case):
        places = [world_with(each, base, offer, place) for place in (0, 1, 4)]
        for made in (one for n, one in enumerate(places) if one not in places[:n]):
            text = scenario_text(made)
            assert parse_scenario(text).read_from("") == made.read_from(""), text
            assert plan.playing(made).source is made


PARTIES: dict[str, tuple[str, list[str]]] = {
    "the model": ("both", [
        *(f"http {status}" for status in STATUSES), "16 times http 500", "16 times http 429",
        *(f"http {status} {wait}" for status, most in ((429, None), (503, 6))
          for wait in WAITS[1:most] if not NO_SECONDS.search(str(wait))), "16 times http 503",
        "16 lost connections", "lost mid output in a text", "finish length in a call", "overflow",
        "pace {'first_part': '170s'}", "malformed arguments", "9 pieces", "two calls",
        "malformed arguments behind a call",
        "unknown tool", "a wait, then nothing",
    ]),
    "a tool of the world": ("both", [
        *(f"{name} {fault}" for name in ("find", "cancel") for fault in (
            {"raises": "the disk is full"}, {"raises": "late", "takes": "30s"},
            *({"takes": f"{n}s"} for n in (20, 30, 45, 60, 120)))),
        "find is stopped", "cancel is stopped", "find takes 2s beside cancel",
    ]),
    "the user": ("both", [
        *(f"abort after {phase} {n}" for n in (1, 2) for phase in (
            "request", "part", "text-delta", "tool-call", "finish", "tool-started",
            "tool-result")),
        "a further prompt after a failure", "a long conversation, summed up",
        "two messages after request",
        *(f"the user types {each}" for each in (
            "n", "n 12 times", "an empty line", "an empty line 12 times", "the end", "late",
            "an odd text")),
    ]),
    "a service": ("around", [
        "https://orders.example is late with the first of two calls",
        *(f"{n} service.{fault} of https://orders.example" for n in (1, 4)
          for fault in ("slow", "503", "lost"))]),
    "a program": ("around", [
        "git takes an hour, and is stopped",
        *(f"{n} program.{fault} of git" for n in (1, 4) for fault in ("slow", "fails", "killed"))]),
    "another agent": ("around", [
        *(f"http {status} for critic" for status in STATUSES), "16 times http 500 for critic",
        "lost mid output in a text for critic", "finish length in a text for critic"]),
}  # fmt: skip


@pytest.mark.parametrize("party", PARTIES)
def test_each_fault_of_each_party_is_drawn_once(party: str) -> None:
    which, expected = PARTIES[party]
    if which == "both":
        offer = structs.replace(offered(Asks), ran=frozenset({"find", "cancel"}))
        found = circumstances_of(Asks, GO, offer, breaches=False)
    else:
        found = circumstances_of(OverHttp, AROUND, offered(OverHttp, AROUND), breaches=False)
    assert Counter(expected) - Counter(each.name for each in found) == Counter()


def answers(agent: Any, **changes: Any) -> dict[str, Scenario]:
    """The worlds with other answers to a request for an object, by their texts."""
    offer = offered(agent)
    made = [world_with(each, GO, offer) for each in circumstances_of(agent, GO, offer, **changes)
            if each.name.startswith("the answer")]  # fmt: skip
    said = [next(one for one in each.model if one.times == 1) for each in made]
    return {str(one.say or one.finish): each for one, each in zip(said, made, strict=True)}


VALID, HALF = '{"state": "open", "sum": 0}', '{"state": "op'
NEARLY = ('{"state": "open"}', '{"state": "no open", "sum": 1}', "null", "[]", "{}",
          '```json\n{"state": "open", "sum": 1}\n```')  # fmt: skip


def test_a_strict_provider_sends_valid_objects_that_may_be_cut() -> None:
    strict = answers(Asks, breaches=False)
    assert {VALID, HALF, "I cannot do that.", "content_filter"} <= strict.keys()
    assert not strict.keys() & {*NEARLY}
    assert strict[HALF].model[-2].finish == "length"
    assert {VALID, *NEARLY} <= answers(Asks).keys(), "the others break its contract"


def test_an_object_without_a_strict_schema_may_be_nearly_valid() -> None:
    found = answers(AsksAtLast, breaches=False)
    assert {VALID, *NEARLY} <= found.keys()
    for made in found.values():
        first, *_, last = [each for each in made.model if each.when is not None]
        assert (first.times, last.times) == (1, "always"), "it comes once, then the valid object"
        assert first.when == last.when


def test_no_text_comes_in_the_place_of_an_object() -> None:
    search = Search(Asks, seed=3)
    assert search._course is not None
    small = len(search._course.small)
    is_valid = offered(Asks).answers[0].objects.is_valid
    whole = 0
    for number in range(1, small + 100):
        for reply in search.world(number).model:
            if reply.say and not (reply.call or reply.half_call or reply.finish):
                assert is_valid(json_value("".join(reply.say))), reply
                whole += number > small
    assert whole > 100, "those of drawn worlds are objects, too"


def test_an_agent_with_two_tools_has_more_than_200_small_worlds() -> None:
    search = Search(native, seed=1)
    assert search._course is not None
    assert len(search._course.small) > 200


def test_a_program_that_a_stop_has_left_may_end_before_the_next_prompt() -> None:
    offer = offered(OverHttp, AROUND)
    found = {each.name: each for each in circumstances_of(OverHttp, AROUND, offer)}
    made = world_with(found["git takes an hour, and is stopped"], AROUND, offer)
    assert made.abort == Trigger(at="5s")
    assert {each.after for each in made.then if isinstance(each, Then)} == {
        60 * 10**9, 300 * 10**9,
    }  # fmt: skip


def test_each_circumstance_changes_the_course_and_has_a_name_of_its_own(case: Any) -> None:
    _, base, offer = case
    found = circumstances_of(*case)
    names = [each.name for each in found]
    assert len({*names}) == len(names) > 100
    plain = WorldDraft(base, offer).scenario()
    worlds = [world_with(each, base, offer) for each in found]
    idle = {name for name, made in zip(names, worlds, strict=True) if made == plain}
    assert idle <= ({name for name in names if name.endswith(" of sh") or "db.example" in name}
                    | ({"a further prompt"} if base.then else set()))  # fmt: skip
    twins = {(names[n], names[m]) for n, one in enumerate(worlds) for m in range(n)
             if one == worlds[m] and names[n] not in idle}  # fmt: skip
    assert len(twins) < len(worlds) / 20, twins


def test_only_a_provider_that_breaks_its_contract_is_left_out(case: Any) -> None:
    every, kept = circumstances_of(*case), circumstances_of(*case, breaches=False)
    assert {each.name for each in every if not each.is_breach} == {each.name for each in kept}
    left_out = {each.name for each in every} - {each.name for each in kept}
    assert {"no calls", "raises", "empty body", "finish weird_reason in a text"} <= left_out
    assert {"http 429", "lost mid output in a text"} <= {each.name for each in kept}
    # A model calls no tool where there is none.
    assert ("unknown tool" in left_out) is (not case[2].tools)


def kinds(found: Sequence[Circumstance], base: Scenario, offer: Offer) -> set[str]:
    """The kinds of what happens in the worlds of circumstances."""
    said: set[str] = set()
    for each in found:
        made = world_with(each, base, offer)

        new = [reply for reply in made.model if reply not in offer.course and reply != offer.last]
        said |= {"failure" for reply in new if reply.http or reply.lost == "before-headers"}
        said |= {"cut" for reply in new if reply.finish == "length" or reply.lost == "mid-output"}
        said |= {"calls" for reply in new if isinstance(reply.call, list) and len(reply.call) > 1}
        said |= {"tool"} if made.tools != base.tools else set()
        said |= {"abort"} if made.abort else set()
        said |= (
            {"others"}
            if (made.services, made.programs) != (base.services, base.programs)
            else set()
        )
    return said


def test_all_kinds_come_among_the_first_sixty(case: Any) -> None:
    _, base, offer = case
    expected = {"failure", "cut", "abort"}
    expected |= {"calls"} if offer.tools else set()
    expected |= {"tool"} if offer.ran else set()
    expected |= {"others"} if base.services else set()
    assert kinds(circumstances_of(*case, breaches=False)[:60], base, offer) == expected


def test_no_result_is_scripted_for_a_function_of_the_agent_itself() -> None:
    offer = offered(native)
    seen = structs.replace(offer, ran=frozenset({"find"}), own=frozenset({"find"}))
    changed = [world_with(each, GO, seen).tools for each in circumstances_of(native, GO, seen)]
    scripted = [tools["find"] for tools in changed if "find" in tools]
    assert any(each.raises for each in scripted)
    stated = {"returns", "returns_chars", "cancels"}
    assert not any(each.model_fields_set & stated for each in scripted)
    of_a_world = offered(of_world, WITH_TOOLS)
    found = circumstances_of(of_world, WITH_TOOLS, of_a_world)
    tools = [world_with(each, WITH_TOOLS, of_a_world).tools for each in found]
    assert any(each.returns_chars for own in tools for each in own.values())


def test_a_stall_is_left_out_for_an_agent_that_nothing_bounds_and_a_tool_of_that_name_is_not() -> (
    None
):
    offer = offered(of_world, WITH_TOOLS)
    stalls = [
        each
        for each in circumstances_of(of_world, WITH_TOOLS, offer, bounds_streams=True)
        if each.stalls
    ]
    stalled = [
        [reply.stall for reply in world_with(each, WITH_TOOLS, offer).model] for each in stalls
    ]
    assert {place for made in stalled for place in made if place} == {
        "before-headers", "before-connect", "after-headers", "mid-output",
    }  # fmt: skip
    assert any(made[-2] == "mid-output" for made in stalled), "the answer itself"
    unbounded = circumstances_of(of_world, WITH_TOOLS, offer)
    worlds = [world_with(each, WITH_TOOLS, offer) for each in unbounded]
    assert not any(reply.stall for made in worlds for reply in made.model)
    assert sum("install" in each.name for each in unbounded) > 8


def test_a_stopped_run_and_a_failed_one_are_asked_again() -> None:
    offer = offered(without_tools)
    found = {
        each.name: world_with(each, GO, offer)
        for each in circumstances_of(without_tools, GO, offer)
    }
    assert all(
        made.then[:1] in ([FURTHER], [Then(say=FURTHER, after="1m")])
        for name, made in found.items()
        if made.abort and "in a summary" not in name
    )
    late = found["many prompts, stopped in a summary"]
    assert (late.abort and late.abort.at, late.then[0]) == (
        20 * 10**9,
        Then(say="Prompt 2.", after="19s"),
    )
    stopped = found["the second prompt is stopped"]
    assert (len(stopped.then), stopped.abort and stopped.abort.nth) == (2, 2)
    refused = found["the second prompt is refused"].model
    assert [each.http and each.http.status for each in refused] == [None, 401, None]
    after = found["a further prompt after a failure"]
    assert (after.model[0].http and after.model[0].http.status, after.model[0].times) == (500, 16)
    cut = found["a further prompt after a cut in `say`"]
    assert (cut.model[0].say, cut.model[0].finish, cut.then[0]) == ("Some", "length", FURTHER)
    assert "a further prompt after a cut in `call`" not in found, "it has no tools"
    offer = offered(OverHttp, AROUND)
    assert {
        world_with(each, AROUND, offer).then[0]
        for each in circumstances_of(OverHttp, AROUND, offer)
    } == {
        "And its price?",
        Then(say="And its price?", after="1m"),
    }, "the further prompts of the user's scenario are kept"


def test_a_tool_that_a_stop_leaves_has_time_to_end_before_the_next_prompt() -> None:
    offer = structs.replace(offered(Asks), ran=frozenset({"find"}))
    (stopped,) = [
        each for each in circumstances_of(Asks, GO, offer) if each.name == "find is stopped"
    ]
    made = world_with(stopped, GO, offer)
    (then,) = made.then
    assert isinstance(then, Then)
    assert then.after > Then(say="", after="9s").after == made.tools["find"].takes
    assert not any(len(calls_of(each.call)) > 1 for each in made.model)
    offer = structs.replace(offer, ran=frozenset({"find", "cancel"}))
    (stopped,) = [
        each for each in circumstances_of(Asks, GO, offer) if each.name == "find is stopped"
    ]
    both = [
        [name for name, _ in calls_of(each.call)] for each in world_with(stopped, GO, offer).model
    ]
    assert ["cancel", "find"] in both, "the other one has ended before the stop"


def test_each_call_of_the_course_comes_again_for_another_thing() -> None:
    offer = offered(OverHttp, AROUND)
    call = Reply(call={"find": {"customer": "Ann", "day": "Mon"}})
    offer = structs.replace(offer, course=[call])
    name = "each call of the course, then for another thing"
    (again,) = (each for each in circumstances_of(OverHttp, AROUND, offer) if each.name == name)
    calls = [calls_of(each.call) for each in world_with(again, AROUND, offer).model[:2]]
    assert calls == [
        [("find", '{"customer":"Ann","day":"Mon"}')],
        [("find", '{"customer":"Ann","day":"other-Mon"}')],
    ]
    schema = {"type": "object", "properties": {"customer": {}, "day": {"enum": ["Mon", "Tue"]}}}
    offer = structs.replace(offer, tools={**offer.tools, "find": Arguments(schema)})
    _, other = world_with(again, AROUND, offer).model[:2]
    assert [json_value(text)["day"] for _, text in calls_of(other.call)] == ["Tue"]


@pytest.mark.parametrize(
    ("given", "other"),
    [
        ({"lamp": "hall", "on": True}, {"lamp": "hall", "on": False}),
        ({"lamp": "hall", "level": 3}, {"lamp": "hall", "level": 4}),
        ({"lamp": "hall"}, {"lamp": "other-hall"}),
        ({}, {}),
    ],
)
def test_one_thing_is_changed_twice_in_a_reply(given: Any, other: Any) -> None:
    offer = structs.replace(offered(OverHttp, AROUND), course=[Reply(call={"turn": given})])
    name = "each call of the course, also with another last argument at once"
    (twice,) = (each for each in circumstances_of(OverHttp, AROUND, offer) if each.name == name)
    calls = calls_of(world_with(twice, AROUND, offer).model[0].call)
    assert [json_value(text) for _, text in calls] == [given, other]


def test_one_thing_is_changed_by_its_first_words_too() -> None:
    given = {"guest": "Bo", "lesson": "G1"}
    offer = structs.replace(offered(OverHttp, AROUND), course=[Reply(call={"join": given})])
    name = "each call of the course, also with another first argument at once"
    (twice,) = (each for each in circumstances_of(OverHttp, AROUND, offer) if each.name == name)
    made = world_with(twice, AROUND, offer)
    calls = calls_of(made.model[0].call)
    assert [json_value(text) for _, text in calls] == [given, given | {"guest": "other-Bo"}]
    assert Then(say="Do it again.", after="5m") in made.then


def test_a_long_prompt_has_the_calls_of_the_course_and_no_output() -> None:
    calls = [Reply(call={"find": {"customer": "Ann"}}), Reply(call={"final_result": {"sum": 1}})]
    offer = structs.replace(offered(OverHttp, AROUND), course=calls)
    for limits, times in (None, 11), (Limits(max_steps=4), 3):
        found = {
            each.name: each for each in circumstances_of(OverHttp, AROUND, offer, limits=limits)
        }
        made = world_with(found["a long prompt, and further ones"], AROUND, offer)
        names = [[name for name, _ in calls_of(each.call)] for each in made.model[:-1]]
        assert names == [[], *[["find"]] * times, []]
        assert made.then[-1] == "And at last?"


def test_each_of_many_prompts_begins_with_failures() -> None:
    offer = offered(native)
    found = {each.name: each for each in circumstances_of(native, GO, offer)}
    cases = (
        (1, "1 failures", 500),
        (3, "3 failures", 500),
        (16, "16 overflows", 400),
        (1, "a refusal", 401),
    )
    for times, what, status in cases:
        made = world_with(found[f"many prompts, each with {what} at first"], GO, offer)
        failures = [(each.times, each.http.status) for each in made.model if each.http]
        assert [(times or 1, status) for times, status in failures] == [(times, status)] * 12
        assert len(made.then) == 12


@pytest.mark.parametrize(("agent", "statuses"), [(Asks, {"400"}), (native, {"400", "413"})])
def test_an_sdk_looks_at_the_status_of_an_error_itself(agent: Any, statuses: set[str]) -> None:
    found = [each.name for each in circumstances_of(agent, GO, offered(agent))]
    assert {each.split()[1] for each in found if "prompt is too long: 2" in each} == statuses


def test_a_quota_in_the_words_of_openai_or_a_blank_is_a_breach_of_another_provider() -> None:
    offer = offered(native)
    for asks, is_breach in (True, False), (False, True):
        found = circumstances_of(native, GO, offer, asks_openai=asks)
        quotas = [each for each in found if "quota" in each.name or each.name == "blank"]
        assert len(quotas) > 1
        assert all(each.is_breach is is_breach for each in quotas)


@pytest.mark.parametrize(
    ("source", "asks"),
    [("import openai", True), ("import anthropic", False), ("import anthropic, openai", True)],
)
@pytest.mark.parametrize("parameters", ["prompt", "prompt, world"])
def test_an_agent_on_anthropic_alone_asks_no_openai(
    source: str, parameters: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, asks: bool
) -> None:
    (tmp_path / "on_one.py").write_text(
        f"TEXT = {source!r}\nasync def bot({parameters}): return prompt\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "on_one", raising=False)
    bot = importlib.import_module("on_one").bot
    abilities = Abilities.of(loop_of(GO, {"loop": bot}))
    assert abilities.asks_openai is asks
    assert abilities.bounds_streams
    quotas = [n for n, body in enumerate(BODIES) if body.is_of_openai]
    weights = usual_weights(abilities).axes["body"]
    assert quotas
    assert all((weights[n] > 0) is asks for n in quotas)
    contents = usual_weights(abilities._replace(breaches=False)).contents
    for content in "blank", "interleaved":
        assert (contents[[*CONTENTS].index(content)] > 0) is asks


def test_each_tool_gets_half_of_its_arguments() -> None:
    offer = offered(Asks)
    found = {each.name: each for each in circumstances_of(Asks, GO, offer)}
    replies = [
        world_with(each, GO, offer).model[1] for key, each in found.items() if "broken" in key
    ]
    texts = [pair for reply in replies for pair in calls_of(reply.call)]
    for name in offer.first:
        halves = [text for tool, text in texts if tool == name and json_value(text) is None]
        plain = json.dumps(offer.tools[name].plain)
        assert any(plain.startswith(text) for text in halves if text)


def test_users_and_services_have_two_turns() -> None:
    names = [each.name for each in circumstances_of(OverHttp, AROUND, offered(OverHttp, AROUND))]
    one, other = (
        names.index(f"changes are refused at {shop}, which is late") for shop in AROUND.services
    )
    assert other - one == 2, "one of the user is between them"
    one, other = (
        names.index(each)
        for each in ("the second prompt is refused", "the second prompt is stopped")
    )
    assert other - one < 8


def test_the_edges_of_all_tools_come_together_once_and_four_times() -> None:
    offer = offered(Asks)
    found = {each.name: each for each in circumstances_of(Asks, GO, offer)}
    assert {sum(f", {n} at once" in each and "edge" in each for each in found) for n in (1, 4)} == {
        11,
        6,
    }
    assert len(offer.first) > 1
    for times in (1, 4):
        edge = found[f"edge 0 of each tool, {times} at once"]
        made = [
            (name, json_value(text))
            for name, text in calls_of(world_with(edge, GO, offer).model[1].call)
        ]
        edges = [(name, dict(offer.tools[name].edges[0])) for name in offer.first]
        assert made == edges * times


def test_a_date_is_a_breach_of_the_model_of_another_party_too() -> None:
    offer = offered(OverHttp, AROUND)
    found = circumstances_of(OverHttp, AROUND, offer, bounds_streams=True)
    dates = [each for each in found if "GMT" in each.name and each.name.endswith("for critic")]
    assert dates
    assert all(each.is_breach for each in dates)


def test_a_cut_reply_is_made_whole_when_the_model_is_asked_again() -> None:
    offer = offered(native)
    (cut,) = [
        each
        for each in circumstances_of(native, GO, offer)
        if each.name == "finish length in a call"
    ]
    made = world_with(cut, GO, offer, 0)
    assert [reply.call for reply in made.model[:2]] == [offer.course[0].call] * 2
    assert [reply.finish for reply in made.model[:2]] == ["length", None]


def led_to(limits: Limits | None) -> dict[str, Scenario]:
    offer = offered(native)
    found = circumstances_of(native, GO, offer, limits=limits)
    return {
        each.name: world_with(each, GO, offer) for each in found if " to the limit" in each.name
    }


def test_the_limit_of_steps_comes_behind_the_calls_of_the_course() -> None:
    offer, name = offered(native), "the limit of steps after the calls"
    for limits, count in (None, 0), (Limits(max_steps=41), 0), (Limits(max_steps=4), 1):
        found = [
            each for each in circumstances_of(native, GO, offer, limits=limits) if each.name == name
        ]
        assert len(found) == count
    made = world_with(found[0], GO, offer)
    *calls, looks, _ = made.model
    assert [each.call for each in calls] == [each.call for each in offer.course]
    assert (looks.call, looks.times, made.abort) == (offer.call(0), 4, None)
    assert made.then == [FURTHER, "And at last?"]


def test_declared_limits_are_led_up_to_and_passed() -> None:
    """The course comes after them, because its calls would count too."""
    worlds = led_to(Limits(max_steps=4, max_error_count=2))
    first = {name: made.model[0] for name, made in worlds.items() if "then nothing" not in name}
    made_in_course = dict(call for each in offered(native).course for call in calls_of(each.call))
    for name, text in made_in_course.items():
        reply = first.pop(f"{name} to the limit of steps")
        assert (calls_of(reply.call), reply.times) == ([(name, text)], 7)
        assert worlds[f"{name} to the limit of steps"].then == [FURTHER]
    assert {name: reply.times for name, reply in first.items()} == {
        "-1 to the limit of steps": 3, "3 to the limit of steps": 7,
        "-1 to the limit of errors": 1, "3 to the limit of errors": 5,
    }  # fmt: skip
    for name, reply in first.items():
        assert bool(reply.call) is ("steps" in name)
        assert (reply.http is not None) is ("errors" in name)
        then = worlds[f"{name}, then nothing"].model
        assert then[0] == reply
        assert (then[1].finish, then[1].say, then[1].call) == ("stop", "", {})


def test_a_stop_is_followed_by_a_prompt_to_the_same_instance() -> None:
    offer, later = offered(native), Then(say="Later.", restart=True)
    base = GO.model_copy(update={"then": [later]})
    found = {each.name: each for each in circumstances_of(native, base, offer)}
    assert world_with(found["a further prompt"], base, offer).then == [FURTHER, later]
    base = GO.model_copy(update={"then": ["More.", later]})
    assert world_with(found["a further prompt"], base, offer).then == ["More.", later]


@pytest.mark.parametrize("where", [0, 1])
def test_a_reply_breaks_amid_the_answer_wherever_the_place_is(where: int) -> None:
    offer = offered(native)
    (broken,) = [
        e for e in circumstances_of(native, GO, offer) if e.name == "lost mid output in the answer"
    ]
    made = world_with(broken, GO, offer, where)
    assert [bool(reply.lost) for reply in made.model] == [*[False] * len(offer.course), True, False]


def test_the_answer_of_a_script_is_the_one_that_breaks() -> None:
    offer = offered(native)
    told = Reply(say="It is done.")
    offer = structs.replace(offer, course=[*offer.course, told])
    (broken,) = (
        e for e in circumstances_of(native, GO, offer) if e.name == "lost mid output in the answer"
    )
    replies = world_with(broken, GO, offer, 0).model
    assert [each.say for each in replies[-3:]] == ["Some words", "It is done.", offer.last.say]
    (broken,) = (
        e for e in circumstances_of(native, GO, offer) if e.name == "finish length in the answer"
    )
    replies = world_with(broken, GO, offer, 0).model
    assert [(each.say, each.finish) for each in replies[-3:]] == [
        ("Some words", "length"), ("It is done.", None), (offer.last.say, None),
    ]  # fmt: skip


def test_a_summary_that_an_agent_names_so_is_cut_off() -> None:
    offer = offered(native)
    name = "a long conversation, a summary that is cut off"
    (cut,) = (each for each in circumstances_of(native, GO, offer) if each.name == name)
    (summary,) = world_with(cut, GO, offer, 0).summaries
    assert (summary.say, summary.finish, summary.times) == ("The user has ask", "length", "always")


def test_summaries_break_one_after_the_other_amid_many_prompts() -> None:
    offer = offered(native)
    found = {each.name: each for each in circumstances_of(native, GO, offer)}
    made = world_with(found["many prompts, with summaries that break"], GO, offer)
    sums = [each for each in made.model if each.when is not None and each.when.tools == []]
    assert [(each.http and each.http.status, each.finish, each.times) for each in sums] == [
        *((500, None, 1), (None, "stop", 1), (None, "length", 1), (None, None, 1)) * 2,
        (None, None, "always"),
    ]  # fmt: skip


def test_two_prompts_follow_a_run_that_breaks_after_all_its_calls() -> None:
    offer = offered(native)
    found = {each.name: each for each in circumstances_of(native, GO, offer)}
    calls = [each.call for each in offer.course]
    for end in ("refusal", "stop"):
        made = world_with(found[f"a {end} after the calls"], GO, offer)
        assert [each.call for each in made.model[: len(calls)]] == calls
        assert made.then == [FURTHER, "And at last?"]
        refused = made.model[len(calls)].http
        assert (end == "refusal") == (refused is not None and refused.status == 401)
        stop = made.abort and (made.abort.after, made.abort.nth)
        assert stop == (None if end == "refusal" else ("request", len(calls) + 1))


def test_summaries_break_in_turn_amid_a_long_talk() -> None:
    offer = offered(native)
    talks = [
        one for one in circumstances_of(native, GO, offer) if one.name.startswith("a long talk")
    ]
    made, twice = (world_with(each, GO, offer) for each in talks)
    assert len(twice.then) == 4
    assert not any(each.http or each.finish for each in twice.model)
    sums = [each for each in made.model if each.when is not None and each.when.tools == []]
    assert [each.times for each in sums] == [1] * 8 + ["always"]
    assert not any(each.call for each in made.model)
    assert len(made.then) == 4


def test_a_tool_is_slow_in_more_calls_than_run_at_once() -> None:
    offer = structs.replace(offered(Asks), ran=frozenset({"find"}))
    (each,) = (
        one for one in circumstances_of(Asks, GO, offer) if one.name.endswith("12 times at once")
    )
    made = world_with(each, GO, offer)
    (slow,) = (tool for tool in made.tools.values() if tool.takes)
    calls = next(one.call for one in made.model if len(one.call) == 12)
    assert slow.takes == 20 * 10**9
    assert len({str(call) for call in calls}) > 1


def test_a_message_comes_after_the_last_request() -> None:
    for base in GO, AROUND:
        offer = offered(native, base)
        found = {each.name: each for each in circumstances_of(native, base, offer)}
        for name, nth in ("last", len(offer.course) + 1), ("last but one", len(offer.course) or 1):
            (told,) = world_with(found[f"a message after the {name} request"], base, offer).queue
            assert (told.after, told.nth) == ("request", nth)


def test_an_answer_with_calls_is_none_of_anthropic() -> None:
    offer = offered(native)
    for asks in True, False:
        found = {each.name: each for each in circumstances_of(native, GO, offer, asks_openai=asks)}
        each = found["a call that ends as an answer"]
        assert each.is_breach is found["pieces in turn"].is_breach is not asks
        assert not found["9 pieces"].is_breach
        made = world_with(each, GO, offer, 0).model[0]
        assert (made.finish, bool(made.call)) == ("stop", True)


def test_summaries_fail_also_amid_many_prompts() -> None:
    offer = offered(native)
    found = {each.name: each for each in circumstances_of(native, GO, offer)}
    for what, status in ((", summed up", None), (", a summary that fails", 500)):
        made = world_with(found[f"many prompts{what}"], GO, offer)
        summary = next(each for each in made.model if each.times == "always")
        assert summary.when is not None
        assert (summary.when.tools, summary.http and summary.http.status) == ([], status)
        assert len(made.then) == 12


def test_more_prompts_come_than_most_agents_keep_turns_with_calls_that_have_no_period() -> None:
    offer = offered(native)
    (often,) = (
        e
        for e in circumstances_of(native, GO, offer)
        if e.name == "more prompts than most agents keep"
    )
    made = world_with(often, GO, offer)
    assert len({*made.then}) == 40
    script = [each for each in made.model if each.when is None]
    assert [len(each.call) for each in script[-9:]] == [0, 1, 1, 0, 0, 0, 2, 0, 0]


def test_a_failure_comes_before_each_reply_and_a_deadline_is_passed_by_slow_ones() -> None:
    offer, limits = (
        offered(native),
        Limits(max_steps=9, max_error_count=2, max_wall_clock_ms=90_000),
    )
    found = {each.name: each for each in circumstances_of(native, GO, offer, limits=limits)}
    spread = world_with(found["a failure before each reply"], GO, offer, 1).model[:8]
    assert [reply.http is not None for reply in spread] == [True, False] * 4
    assert all(reply.call for reply in spread[1::2])
    amid = world_with(found["3 failures before the last step"], GO, offer, 1).model[:3]
    assert [(bool(reply.call), reply.times) for reply in amid] == [(True, 8), (False, 3), (True, 9)]
    late = world_with(found["slow replies past the deadline"], GO, offer, 1).model[0]
    assert late.pace is not None
    assert (late.times, late.pace.first_part) == (16, 15 * 10**9)
    lost = world_with(found["slow replies that are lost past the deadline"], GO, offer, 1).model[0]
    assert lost.pace is not None
    assert (len(lost.say), lost.times, lost.lost) == (3, 4, "mid-output")
    assert lost.pace.per_part == 20 * 10**9
    few = {each.name for each in circumstances_of(native, GO, offer, limits=Limits(max_steps=3))}
    assert not few & {"a failure before each reply", "slow replies past the deadline"}


def test_each_call_of_the_course_comes_twice_with_its_arguments() -> None:
    offer = offered(native)
    (twice,) = (
        e for e in circumstances_of(native, GO, offer) if e.name == "each call of the course twice"
    )
    made, plain = world_with(twice, GO, offer).model, [*offer.course, offer.last]
    for reply, own in zip(made, plain, strict=False):
        assert [*calls_of(reply.call)] == [call for call in calls_of(own.call) for _ in range(2)]
    (again,) = (
        e for e in circumstances_of(native, GO, offer) if e.name.endswith("course twice, and again")
    )
    both = [each for one, own in zip(made, plain, strict=True) for each in (one, own)]
    assert [calls_of(each.call) for each in world_with(again, GO, offer).model] == [
        calls_of(each.call)
        for each in both[:-1]  # the last one has no call
    ]
    slow = world_with(again, GO, structs.replace(offer, ran=frozenset({"find", "cancel"}))).tools
    assert {name: tool.takes for name, tool in slow.items()} == {"cancel": 10**9, "find": 10**9}
    text = Reply(say="Hm.")
    draft = WorldDraft(GO, offer)
    draft.replies = [text, offer.course[0]]
    again.act(draft, 0)
    assert draft.replies[0] == text
    assert len(draft.replies) == 1 + 2


@pytest.mark.parametrize(("steps", "answers"), [(None, []), (9, []), (5, [4]), (3, [2, 5, 8])])
def test_a_course_that_comes_twice_keeps_below_the_limit_of_steps(
    steps: int | None, answers: list[int]
) -> None:
    offer = offered(native)
    assert len(offer.course) == 2
    four = structs.replace(offer, course=[*offer.course, *offer.course])
    limits = None if steps is None else Limits(max_steps=steps)
    for name in "twice, and again", "then for another thing":
        (twice,) = (
            e for e in circumstances_of(native, GO, four, limits=limits) if e.name.endswith(name)
        )
        made = world_with(twice, GO, four)
        assert [n for n, each in enumerate(made.model[:-1]) if not each.call] == answers
        assert made.then == ["And then?"] * len(answers)


def test_calls_with_numbers_have_large_ones_too() -> None:
    numbers, texts = {"cents": 5, "to": "Ann"}, {"lamp": "hall"}
    calls = [Reply(call={"pay": numbers}), Reply(call={"turn": texts})]
    found = [sized(calls)[name] for name in ("200000", "1000")]
    for size, made in zip((200_000, 1_000), found, strict=True):
        given = [json_value(text) for each in made.model for _, text in calls_of(each.call)]
        assert given[:2] == [{"cents": size, "to": "Ann"}, {"cents": size, "to": "other-Ann"}]
        assert given[2:] == [texts, {"lamp": "other-hall"}]
    assert sized([Reply(call={"turn": texts})]) == {}


def sized(course: list[Reply]) -> dict[str, Scenario]:
    offer = structs.replace(offered(OverHttp, AROUND), course=course)
    return {
        each.name.split()[-4].strip(","): world_with(each, AROUND, offer)
        for each in circumstances_of(OverHttp, AROUND, offer)
        if each.name.startswith("each call of the course with the number")
    }


def test_only_limits_that_a_short_world_reaches_are_led_up_to() -> None:
    assert led_to(None) == {}
    assert {name.split()[-1] for name in led_to(Limits(max_steps=41, max_error_count=40))} == {
        "errors", "nothing",
    }  # fmt: skip
    assert "-1 to the limit of errors" not in led_to(Limits(max_error_count=1))


@pytest.mark.parametrize(("agent", "breaches", "dates"), [(Asks, False, 0), (Asks, True, 2),
                                                          (native, False, 4)])  # fmt: skip
def test_a_provider_asks_for_a_wait_by_a_date_where_it_may_break_its_contract(
    agent: Any, breaches: bool, dates: int,  # noqa: FBT001
) -> None:  # fmt: skip
    """An agent without an SDK may have any provider."""
    found = [each.name for each in circumstances_of(agent, GO, offered(agent), breaches=breaches)]
    assert sum("2026" in name for name in found) == dates


def test_only_tools_of_the_first_request_are_called_in_circumstances() -> None:
    offer = structs.replace(offered(native), first=("cancel",))
    plain = [calls_of(reply.call) for reply in offer.course]
    made = (
        each
        for each in circumstances_of(native, GO, offer)
        if "call of the course" not in each.name
    )
    called = {name for each in made for reply in world_with(each, GO, offer, 0).model
              for name, _ in calls_of(reply.call) if calls_of(reply.call) not in plain}  # fmt: skip
    assert "find" not in called
    assert "cancel" in called


def test_the_tools_of_an_agent_that_takes_over_are_called_from_then_on() -> None:
    assert [*offered(Routes).later] == ["find", "cancel"]
    offer = structs.replace(offered(native), first=("find",), later={"cancel": 1})
    later = [each for each in circumstances_of(native, GO, offer) if each.name.endswith(", later")]
    assert {"two calls, later", "broken 0 of each tool, 1 at once, later"} <= {
        each.name for each in later
    }
    for each in later:
        first, *rest = [calls_of(reply.call) for reply in world_with(each, GO, offer, 0).model]
        assert [name for name, _ in first] == ["find"], "before it takes over"
        assert "cancel" in {name for calls in rest for name, _ in calls}


def test_a_program_that_is_not_there_has_no_faults() -> None:
    agent, base = CASES["from"]
    offer = offered(agent, base)
    known = {each.name: each for each in circumstances_of(agent, base, offer)}
    draft = WorldDraft(base, offer)
    for name in ("git is not there", "1 program.slow of git"):
        known[name].act(draft, 0)
    assert {*draft.scenario().programs} == {"sh"}


def test_a_program_is_there_with_all_that_it_does_or_not_at_all() -> None:
    agent, base = CASES["from"]
    base = base.model_copy(update={"programs": {"git add": Program(), "git log": Program()}})
    draft = WorldDraft(base, offered(agent, base))
    known = {each.name: each for each in circumstances_of(agent, base, draft.offer)}
    known["git add is not there"].act(draft, 0)
    assert draft.scenario().programs == {}
    known["git log takes an hour"].act(draft, 0)
    assert [*draft.scenario().programs] == ["git log"]


def test_a_model_that_calls_without_end_is_for_agents_that_declare_limits() -> None:
    offer = offered(OverHttp)
    for ends, times in ((True, "always"), (False, 16)):
        found = circumstances_of(OverHttp, GO, offer, ends=ends)
        (each,) = (one for one in found if one.name == "a call again and again")
        assert [reply.times for reply in world_with(each, GO, offer).model if reply.times] == [
            times, "always",
        ]  # fmt: skip


def test_what_a_stop_breaks_off_is_called_again_and_another_thing_twice() -> None:
    offer = structs.replace(offered(OverHttp, AROUND), course=[Reply(call={"turn": {"to": "a"}})])
    (stop,) = (
        each
        for each in circumstances_of(OverHttp, AROUND, offer)
        if each.name == "git takes an hour, and is stopped"
    )
    made = world_with(stop, AROUND, offer)
    calls = [[json_value(text)["to"] for _, text in calls_of(each.call)] for each in made.model]
    course = [["a"], ["other-a"], ["other-a"], []]
    assert calls[:8] == course * 2
    assert made.abort is not None
    assert Then(say="Do it again.", after="5m") in made.then


def test_of_two_calls_with_one_program_each_has_a_run_that_fails() -> None:
    found = {
        each.name: each for each in circumstances_of(OverHttp, AROUND, offered(OverHttp, AROUND))
    }
    made = world_with(found["git takes an hour, for two calls"], AROUND, offered(OverHttp, AROUND))
    answers: Any = made.programs["git"]
    assert [each.takes for each in answers] == [3_600 * 10**9]
    first, again = calls_of(made.model[0].call)
    assert first == again


@pytest.mark.parametrize(
    ("schema", "other"),
    [({}, {"customer": "other-Ann", "day": "other-Mon"}),
     ({"enum": ["Mon", "Tue"]}, {"customer": "other-Ann", "day": "Mon"}),
     ({"enum": ["Mon"]}, {"customer": "other-Ann", "day": "Mon"})],
)  # fmt: skip
def test_the_second_of_two_calls_has_other_texts_that_the_tool_allows(
    schema: Any, other: dict[str, str]
) -> None:
    offer = offered(OverHttp, AROUND)
    given = {"customer": "Ann", "day": "Mon"}
    tool = Arguments({"type": "object", "properties": {"customer": {}, "day": schema}})
    course = [Reply(call={"find": given})]
    offer = structs.replace(offer, course=course, tools={**offer.tools, "find": tool})
    found = {each.name: each for each in circumstances_of(OverHttp, AROUND, offer)}
    for name, ends in ("two things in each call of the course", 0), (
        "two things in each call of the course, and a refusal after", 1,
    ):  # fmt: skip
        made = world_with(found[name], AROUND, offer)
        assert [json_value(text) for _, text in calls_of(made.model[0].call)] == [given, other]
        assert sum(each.http is not None and each.http.status == 401 for each in made.model) == ends


def test_the_second_of_two_calls_has_another_word_if_it_has_no_other_text() -> None:
    offer, day = offered(OverHttp, AROUND), {"enum": ["Mon", "Tue"]}
    tool = Arguments({"type": "object", "properties": {"day": day}})
    course = [Reply(call={"find": {"day": "Mon"}})]
    offer = structs.replace(offer, course=course, tools={**offer.tools, "find": tool})
    found = {each.name: each for each in circumstances_of(OverHttp, AROUND, offer)}
    made = world_with(found["two things in each call of the course"], AROUND, offer)
    calls = [json_value(text) for _, text in calls_of(made.model[0].call)]
    assert calls == [{"day": "Mon"}, {"day": "Tue"}]
