"""The probe of a search: the tools of an agent, its course, and the reply that ends its run."""

import os
import re
import sys
from collections.abc import Mapping
from typing import Any

import offering
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from offering import (
    CALLED,
    FOUND,
    GO,
    RESULTS,
    SPECS,
    AnswersFirst,
    Asks,
    AsksAtLast,
    OverHttp,
    Routes,
    native,
    of_world,
    offered,
    without_tools,
)

from simloop import Line, Reply, Scenario, World
from simloop.check.trial import UNJUDGED, trial
from simloop.fuzz import offers
from simloop.fuzz.alphabet import LAST, Abilities
from simloop.fuzz.circumstances import WorldDraft
from simloop.fuzz.course import AgentCourse
from simloop.fuzz.offers import Known, Offer, Offered, keep_values
from simloop.fuzz.search import Search
from simloop.messages import Message, ToolMessage, UserMessage
from simloop.runs import patience
from simloop.runs.plan import Plan
from simloop.trace import entries


def called(offer: Offer) -> list[Any]:
    return [each.call for each in offer.course]


@pytest.mark.parametrize("agent", [native, OverHttp, AnswersFirst])
def test_each_tool_is_called_once_and_an_id_that_one_returns_is_the_argument_of_the_next(
    agent: Any,
) -> None:
    offer = offered(agent)
    assert called(offer) == FOUND
    assert offer.tools["cancel"].plain == {"order_id": "A-17"}, "worlds call it with that id, too"


class Strict(OverHttp):
    """An agent whose tool wants a date, which its schema does not say."""

    names = ("find",)

    async def conversation(self, prompt: str, more: Mapping[str, Any]) -> str:
        wants = {**RESULTS, "find": self.find}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(offering, "RESULTS", wants)
            return await super().conversation(prompt, more)

    def find(self, customer: str) -> str:
        return "three orders" if re.fullmatch(r"[\d-]{10}", customer) else f"{customer}: no date"


def test_a_text_that_a_tool_refuses_is_tried_in_another_form() -> None:
    offer = offered(Strict)
    assert called(offer) == [{"find": {"customer": "2026-03-01"}}]
    assert offer.tools["find"].plain == {"customer": "2026-03-01"}, "worlds call it so, too"


class Refuses(Strict):
    def find(self, customer: str) -> str:
        return f"no order of {customer}"


class Knows(Strict):
    """An agent that knows one customer, and whose words for success are like those of a failure."""

    def find(self, customer: str) -> str:
        return "Miller against the city" if customer == "Miller" else f"{customer} is not known"


class FindsNothing(Strict):
    def find(self, customer: str) -> str:
        return "[3]" if customer == "Ada Byron" else "[]"


@pytest.mark.parametrize(
    ("agent", "prompt", "expected"),
    [
        (Knows, "Find the case of Miller.", "Miller"),
        (Knows, 'Find the case "Miller".', "Miller"),
        (FindsNothing, "Where, in Oslo, are the orders of Ada Byron?", "Ada Byron"),
        (FindsNothing, "Find the four cases of Ada, Bob, Eve, Ada Byron.", "customer1"),
    ],
)
def test_a_tool_that_knows_one_customer_is_called_with_the_names_of_the_prompt(
    agent: Any, prompt: str, expected: str
) -> None:
    offer = offered(agent, GO.model_copy(update={"prompt": prompt}))
    assert called(offer) == [{"find": {"customer": expected}}], "three names are tried"


def test_a_tool_that_refuses_each_form_has_a_text_without_blanks() -> None:
    assert called(offered(Refuses)) == [{"find": {"customer": "customer1"}}]


def test_an_id_in_the_prompt_is_the_argument_of_a_call() -> None:
    offer = offered(OverHttp, GO.model_copy(update={"prompt": "Please cancel order B-3."}))
    assert offer.course[1].call == {"cancel": {"order_id": "A-17"}}, "the newest is that of a tool"
    known: Known = {}
    keep_values([UserMessage("Where is order B-3, of 2 parts?")], known)
    assert known == {"id": {"B-3": None}}


@pytest.mark.parametrize("prompts", [[], ["And then?"]])
@pytest.mark.parametrize("agent", [OverHttp, AnswersFirst])
def test_a_tool_that_ends_the_run_is_called_last_and_ends_each_script(
    agent: Any, prompts: list[str]
) -> None:
    offer = offered(agent, GO.model_copy(update={"then": prompts}))
    assert tuple(offer.tools) == agent.names
    assert offer.last == Reply(call={"answer": {"text": "some text"}}, times="always")


def test_the_tools_that_simloop_sees_run_are_those_of_the_world() -> None:
    base = GO.model_copy(update={"tools": Scenario(prompt="", tools={"look": {}, "act": {}}).tools})
    offer = offered(of_world, base)
    assert tuple(offer.tools) == ("look", "act")
    assert offer.ran == {"look", "act"}
    assert offer.last.say
    assert offered(OverHttp).ran == frozenset()


def test_an_agent_without_tools_has_the_answer_alone() -> None:
    offer = offered(without_tools)
    assert (tuple(offer.tools), called(offer), offer.last.say != "") == ((), [], True)


@pytest.mark.parametrize("agent", [Asks, AsksAtLast])
def test_an_object_that_the_agent_asks_for_is_the_answer_in_its_course(agent: Any) -> None:
    offer = offered(agent)
    assert called(offer) == FOUND
    (asked,) = offer.answers
    plain = {"state": "open", "sum": 1}
    assert (asked.objects.plain, asked.is_strict) == (plain, agent.strict)
    world = WorldDraft(GO.model_copy(update={"input": offer.input}), offer).scenario()
    result = trial(Plan(world, {"loop": agent})).result
    assert result is not None
    assert result.text == "1", "the user has typed y, and the object is valid"
    assert (offer.last.say == LAST.say, asked.rule is None) == (not agent.strict, agent.strict)


def test_a_forced_call_is_the_answer_to_its_own_requests_alone() -> None:
    offer = offered(Routes)
    assert (called(offer), offer.last.say) == (FOUND, LAST.say)
    (asked,) = offer.answers
    assert asked.plain.call == {"route": {"place": "shop"}}
    base = GO.model_copy(update={"then": ["Again."]})
    world = WorldDraft(base, offer).scenario()
    record = trial(Plan(world, {"loop": Routes}), UNJUDGED).entries
    texts = [each.text for each in record if type(each) is entries.Ended]
    assert texts == [f"shop: {LAST.say}"] * 2


def test_what_the_user_types_is_known_for_an_agent_that_reads_it_alone() -> None:
    async def reads_all(_: str) -> str:
        return str(len(sys.stdin.read().splitlines()))

    assert offered(Asks).input == [Line(say="y", times="always")]
    assert offered(OverHttp).input is None
    assert offered(reads_all).input == [Line(say="y", times=1)], "it would read for ever"


def test_an_agent_that_every_tool_ends_has_no_course() -> None:
    async def ends(prompt: str, world: World) -> str:
        reply = await world.model.reply([UserMessage(prompt)], tools=SPECS)
        return reply.message.text

    offer = offered(ends)
    assert tuple(offer.tools) == ("find", "cancel")
    assert called(offer) == []
    assert offer.last.call in FOUND


@pytest.mark.parametrize(("text", "asks"), [("Shall I cancel it?", True), ("Cancelled.", False)])
def test_a_question_at_the_end_of_a_run_does_not_end_the_course(text: str, *, asks: bool) -> None:
    async def agent(prompt: str, world: World) -> str:
        while True:
            reply = (await world.model.reply([UserMessage(prompt)], tools=SPECS)).message
            if not reply.calls or reply.calls[0].name == "cancel":
                return reply.text or text

    offer = offered(agent)
    assert offer.asks == asks
    names = ["find", "cancel", "", "cancel"] if asks else ["find"]
    assert ["".join(each) for each in called(offer)] == names
    assert (offer.last == LAST) == asks
    small = AgentCourse([GO], {"loop": agent}, Abilities()).small
    assert [each.then[:1] == ["yes"] for _, each in small[:2]] == [asks] * 2
    own = GO.model_copy(update={"then": ["No."]})
    assert AgentCourse([own], {"loop": agent}, Abilities()).small[0][1].then == ["No."]
    scripted = GO.model_copy(update={"model": [Reply(call={"cancel": {"order_id": "A-17"}})]})
    assert not offered(agent, scripted).asks


async def fails_at_once(_: str) -> str:
    raise ValueError("no key")


async def spins(_: str) -> str:
    while True:
        pass


@pytest.mark.parametrize("agent", [fails_at_once, spins])
def test_an_agent_that_never_asks_offers_nothing(
    agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 0.3)
    offer = offered(agent)
    assert (tuple(offer.tools), called(offer), offer.ran) == ((), [], frozenset())
    assert offer.last == Reply(say="All is done.", times="always")


def test_nothing_of_the_probe_is_left_in_the_process() -> None:
    CALLED.clear()
    folder, environment = os.getcwd(), dict(os.environ)  # noqa: PTH109

    class Changes(OverHttp):
        async def __call__(self, prompt: str) -> str:
            os.environ["OF_THE_PROBE"] = "1"
            os.chdir("/")
            return await super().__call__(prompt)

    assert called(offered(Changes)) == FOUND
    assert (os.getcwd(), dict(os.environ), CALLED) == (folder, environment, [])  # noqa: PTH109


def test_the_script_of_a_scenario_is_the_course_and_its_run_shows_the_tools() -> None:
    script = [Reply(call={"find": {"customer": "Ann"}}), Reply(say="Done.", times="always")]
    offer = offered(OverHttp, GO.model_copy(update={"model": script}))
    assert (offer.course, offer.last) == (script[:1], script[1])
    assert tuple(offer.tools) == OverHttp.names
    assert offer.tools["cancel"].plain == {"order_id": "A-17"}
    assert offer.tools["find"].plain == {"customer": "Ann"}, "worlds call it as the script does"


def test_the_calls_of_worlds_have_arguments_by_numbers() -> None:
    offer = offered(native)
    tools = Offered(offer.tools)
    assert tools.call(0, 0) == tools.call(2, 0) == FOUND[0]
    assert tools.call(1, 2) == FOUND[1], "every other one is plain"
    assert tools.arguments(0, 1) == offer.tools["find"].edges[0]
    assert [tools.broken(1, n) for n in range(3)] == [{}, {"order_id": 17}, {"order_id": ""}]
    assert Offered({}).call(3, 1) == {"nonesuch": {}}
    assert Offered({}).broken(0, 0) == {}


def kept(*texts: str) -> dict[str, list[Any]]:
    known: Known = {}
    keep_values([ToolMessage(f"{n}", text) for n, text in enumerate(texts)], known)
    return {name: [*values] for name, values in known.items()}


def test_values_are_kept_by_their_keys_the_newest_last() -> None:
    rows = '[{"id": 1, "of": {"id": 2, "name": "a"}}, {"id": 3, "tags": ["x"], "none": null}]'
    assert kept(rows, '{"id": 9}') == {"id": [1, 2, 3, 9], "name": ["a"]}
    assert kept("Booked room-12 for u7, total 30 EUR.") == {"id": ["room-12", "u7"]}
    assert kept('"a1"', "17") == {}


@pytest.mark.parametrize("text", ["[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900])
def test_a_deep_result_is_no_error(text: str) -> None:
    kept(text)


def test_a_word_of_a_long_text_is_kept_once() -> None:
    assert kept(" a1" * 50_000) == {"id": ["a1"]}


@given(st.text())
def test_no_text_of_a_tool_is_an_error(text: str) -> None:
    assert all(word in text for word in kept(text).get("id", ()) if isinstance(word, str))


async def titles(prompt: str, world: World) -> str:
    """Ask for a title first, and let an agent of its own call the tool `find`."""
    await world.model.reply([UserMessage(f"A title for: {prompt}")])
    reply = await world.model.reply([UserMessage(prompt)], tools=SPECS[1:])
    if reply.message.calls:
        await native("Find it.", world)
    reply = await world.model.reply([UserMessage(prompt), reply.message], tools=SPECS)
    return reply.message.text


def test_answers_before_a_call_are_in_the_course() -> None:
    course = offered(titles).course
    assert [[*each.call] for each in course] == [[], ["cancel"], ["find"]]
    assert course[0] == Reply(say="All is done.")
    record = trial(Plan(Search(titles).world(1), {"loop": titles}), UNJUDGED).entries
    called = [(each.request, each.name) for each in record if type(each) is entries.ToolCall]
    assert called == [(2, "cancel"), (3, "find")]


def test_the_probe_is_a_function_of_the_agent() -> None:
    one, other = (offers.offer_of(GO, {"loop": OverHttp}) for _ in range(2))
    assert (one.course, one.last, [*one.tools]) == (other.course, other.last, [*other.tools])
    assert [each.edges for each in one.tools.values()] == [
        each.edges for each in other.tools.values()
    ]


def test_an_agent_that_cannot_be_made_is_no_error_of_the_probe() -> None:
    class Broken:
        def __init__(self) -> None:
            raise ValueError("no key")

        async def __call__(self, prompt: str) -> str:
            return prompt

    assert tuple(offered(Broken).tools) == ()


async def hands_over(prompt: str, world: World) -> str:
    """Offer one tool, and after it has been called another."""
    first = await world.model.reply([UserMessage(prompt)], tools=SPECS[:1])
    calls = first.message.calls
    results = [ToolMessage(call.id, "given to another agent") for call in calls]
    messages: list[Message] = [UserMessage(prompt), first.message, *results]
    return (await world.model.reply(messages, tools=SPECS[1:])).message.text


def test_the_tools_of_the_first_request_are_those_that_are_called_first() -> None:
    offer = offered(hands_over)
    assert (offer.first, tuple(offer.tools)) == (("find",), ("find", "cancel"))
    assert [*offer.call(0)] == [*offer.call(1)] == ["find"]
    assert offered(native).first == ("find", "cancel")
    assert offered(without_tools).first == ()


async def shuffled(prompt: str, world: World) -> str:
    names = ["transfer_to_other", "cancel", "close", "remind", "find"]
    specs = [replace(SPECS[0], name=each) for each in names]
    messages: list[Message] = [UserMessage(prompt)]
    while True:
        reply = (await world.model.reply(messages, tools=specs)).message
        if not reply.calls:
            return reply.text
        messages += [reply, *[ToolMessage(each.id, "seen") for each in reply.calls]]


def test_what_undoes_a_change_comes_after_it_and_what_hands_over_at_last() -> None:
    """The tools after it are those of another agent."""
    names = [name for each in called(offered(shuffled)) for name in each]
    assert names == ["remind", "find", "cancel", "close", "transfer_to_other"]
