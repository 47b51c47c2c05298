from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from simloop import (
    AssistantMessage,
    Compaction,
    Reply,
    Request,
    Scenario,
    ToolMessage,
    UserMessage,
    run,
)
from simloop.messages import FinishReason, Message, StopCause, ToolCall, ToolSpec
from simloop.trace import entries
from simloop.trace.entries import Ended, Prompt, StopRequested
from simloop.trace.facts import Facts
from simloop.trace.requests import RequestCoder, requests


def look() -> str:
    return "seen " * 50


@given(rounds=st.integers(1, 12), window=st.integers(50, 2000))
def test_each_main_request_is_read_as_it_was_sent(rounds: int, window: int) -> None:
    """Also after compactions."""
    scenario = Scenario(
        prompt="Go.",
        model=[Reply(call={"look": {}}, times=rounds), Reply(say="Done.")],
        compaction=Compaction(window=window, keep_turns=1, strategy="drop-oldest"),
    )
    result = run(scenario, tools=[look])
    facts = Facts()
    read: list[Request] = []
    for entry in result.trace.entries:
        facts.read(entry)
        if facts.request is not None and facts.request not in read[-1:]:
            read.append(facts.request)
    assert read == [each for each in requests(result.trace.entries) if each.purpose == "main"]


def test_the_reply_and_the_running_tools_are_known_at_every_entry() -> None:
    model = [Reply(say="I look.", call={"look": {}}), Reply(say="Done.")]
    result = run(Scenario(prompt="Go.", model=model), tools=[look])
    facts, seen = Facts(), []
    for entry in result.trace.entries:
        facts.read(entry)
        text = "" if facts.reply is None else facts.reply.text
        seen.append((text, len(facts.running), facts.ended is not None))
    assert ("I look.", 1, False) in seen
    assert seen[-1] == ("Done.", 0, True)


def test_the_stops_and_replies_of_a_run_are_those_of_no_earlier_run() -> None:
    model = [Reply(say="One."), Reply(say="Two."), Reply(say="Three.")]
    scenario = Scenario(prompt="Go.", then=["And now?", "And then?"], model=model)
    facts, seen = Facts(), []
    for entry in run(scenario).trace.entries:
        facts.read(entry)
        if isinstance(entry, Ended):
            stop = StopRequested(entry.seq, entry.at_ns, StopCause.ABORT)
            for other in (stop, stop):
                facts.read(other)
            own = [reply.text for reply in facts.main_replies[facts.earlier_replies :]]
            seen.append((own, len(facts.stops)))
    assert seen == [([said], 2) for said in ("One.", "Two.", "Three.")]


def test_no_reply_is_known_before_the_first_request_of_a_run() -> None:
    scenario = Scenario(prompt="Go.", then=["And now?"], model=[Reply(say="One."), Reply(say="2")])
    facts, texts = Facts(), []
    for entry in run(scenario).trace.entries:
        facts.read(entry)
        if isinstance(entry, Prompt | Ended):
            texts.append(None if facts.reply is None else facts.reply.text)
    assert texts == [None, "One.", None, "2"]


class Asked(NamedTuple):
    """A request of an agent, and its reply; agents `a` and `b` are of no party.

    If it `waits`, its reply comes when the next request has been sent. It may `offer` a tool.
    """

    agent: str
    messages: list[Message]
    reply: AssistantMessage = AssistantMessage("ok")
    waits: bool = False
    offers: bool = False


NEXT_RUN = None
LOOK = ToolSpec("look", "", Raw(b"{}"))


def requests_before(sent: list[Asked | None], *, is_one: bool = False) -> list[int]:
    """Return the request before each one in its conversation; 0 is none."""
    facts, coder, found, late = Facts(), RequestCoder(), list[int](), list[tuple[int, Asked]]()
    facts.is_one = is_one
    for asked in (NEXT_RUN, *sent):
        if asked is None:
            facts.read(Prompt(0, 0, "Go."))
            continue
        number = len(found) + 1
        party = "" if asked.agent in "ab" else asked.agent
        tools = (LOOK,) if asked.offers else ()
        request = Request(number, "main", asked.agent, asked.messages, tools, party)
        facts.read(coder.code(request, number, 0, 0)[0])
        found.append(facts.before.number if facts.before else 0)
        late.append((number, asked))
        if not asked.waits:
            for each in late:
                hear(facts, *each)
            late.clear()
    return found


def hear(facts: Facts, number: int, asked: Asked) -> None:
    facts.read(entries.TextDelta(0, 0, number, asked.reply.text))
    for call in asked.reply.calls:
        facts.read(entries.ToolCall(0, 0, number, call.id, call.name, call.arguments))
    facts.read(entries.Finish(0, 0, number, FinishReason.STOP, "stop"))


def offers(messages: list[Message], reply: AssistantMessage) -> Asked:
    return Asked("a", messages, reply, offers=True)


def calls(name: str, text: str = "") -> AssistantMessage:
    return AssistantMessage(text, (ToolCall(name, "look", "{}"),))


Q, R, S, OK = UserMessage("Q?"), UserMessage("R?"), UserMessage("S?"), AssistantMessage("ok")
ONE, TWO = AssistantMessage("one"), AssistantMessage("two")
SEEN = ToolMessage("c1", "seen")
BEFORE: dict[str, tuple[list[Asked | None], list[int]]] = {
    "it goes on": ([Asked("a", [Q]), Asked("a", [Q, OK, R])], [0, 1]),
    "a note at the end is dropped": (
        [Asked("a", [Q, OK]), Asked("b", [S]), Asked("a", [Q, R])], [0, 0, 1],
    ),
    "another party adds nothing": ([Asked("a", [Q]), Asked("reviewer", [Q])], [0, 0]),
    "a handoff": (
        [Asked("a", [Q]), Asked("reviewer", [Q, OK, R]), Asked("a", [Q, OK, R, OK, Q])], [0, 1, 2],
    ),
    "its own party goes first": (
        [Asked("a", [Q]), Asked("reviewer", [Q]), Asked("a", [Q, OK, R])], [0, 0, 1],
    ),
    "the longest goes first": (
        [Asked("reviewer", [Q, OK, R]), Asked("a", [Q]), Asked("boss", [Q, OK, R, OK, Q])],
        [0, 0, 1],
    ),
    "two in turn": (
        [Asked("a", [Q]), Asked("b", [R]), Asked("a", [Q, OK, Q]), Asked("b", [R, OK, Q])],
        [0, 0, 1, 2],
    ),
    "two that are asked alike, by their replies": (
        [Asked("a", [Q], ONE, waits=True), Asked("b", [Q], TWO), Asked("a", [Q, ONE, R]),
         Asked("b", [Q, TWO, R])],
        [0, 0, 1, 2],
    ),
    "two that are asked alike, by their calls": (
        [Asked("a", [Q], calls("c1"), waits=True), Asked("b", [Q], calls("c2")),
         Asked("a", [Q, calls("c1"), SEEN])],
        [0, 0, 1],
    ),
    "three that are asked at once, and a further prompt": (
        [*[Asked("a", [Q], ONE, waits=True)] * 2, Asked("a", [Q], ONE), NEXT_RUN,
         *[Asked("a", [Q, ONE, R], TWO, waits=True)] * 2, Asked("a", [Q, ONE, R], TWO)],
        [0, 0, 0, 3, 2, 1],
    ),
    "agents that are called as a tool, side by side": (
        [offers([Q], AssistantMessage("", tuple(
            ToolCall(each, "look", f'{{"at": "{at}"}}') for each, at in (("c1", "R"), ("c2", "S"))
         ))), Asked("b", [R], ONE), Asked("b", [S], TWO), Asked("b", [S, TWO, Q])],
        [0, 0, 0, 3],
    ),
    "two calls of one, with the same words": (
        [offers([Q], AssistantMessage("", tuple(
            ToolCall(each, "look", '{"at": "R"}') for each in ("c1", "c2")
         ))), *[Asked("b", [R], ONE)] * 3],
        [0, 0, 0, 3],
    ),
    "two calls of one, with the same words and no prompt of its own": (
        [offers([Q], AssistantMessage("", tuple(
            ToolCall(each, "look", '{"at": "R"}') for each in ("c1", "c2")
         ))), *[Asked("a", [R], ONE)] * 3],
        [0, 0, 0, 3],
    ),
    "two calls of one, each with work of its own": (
        [offers([Q], AssistantMessage("", tuple(
            ToolCall(each, "look", '{"at": "R"}') for each in ("c1", "c2")
         ))), *[Asked("b", [R], calls("d1")), Asked("b", [R, calls("d1"), SEEN], ONE)] * 2,
         Asked("b", [R])],
        [0, 0, 2, 0, 4, 5],
    ),
    "it may have been shortened": ([Asked("a", [Q]), Asked("a", [R])], [0, 1]),
    "or was it another one": (
        [Asked("a", [Q]), Asked("a", [R]), Asked("a", [Q, OK, R])], [0, 1, 1],
    ),
    "the newest one was shortened": (
        [Asked("a", [Q]), Asked("b", [R]), Asked("b", [S])], [0, 0, 2],
    ),
    "it is begun again": ([Asked("a", [Q, OK, R]), Asked("a", [Q])], [0, 1]),
    "it is begun again with another system prompt": (
        [Asked("a", [Q, OK, R]), Asked("b", [Q])], [0, 1],
    ),
    "it was shortened to a message": (
        [Asked("a", [Q, OK, R]), Asked("a", [R]), Asked("a", [Q, OK, R, OK, Q])], [0, 1, 2],
    ),
    "it was shortened to its reply": (
        [Asked("a", [Q]), Asked("a", [S, OK, R]), Asked("a", [Q, OK, R])], [0, 1, 2],
    ),
    "it was shortened to its call": (
        [Asked("a", [Q], calls("c1")), Asked("a", [S, calls("c1", "So"), SEEN]),
         Asked("a", [Q, R])],
        [0, 1, 2],
    ),
    "another call was kept": (
        [Asked("a", [Q], calls("c1")), Asked("a", [S, calls("c9")]),
         Asked("a", [Q, calls("c1"), SEEN])],
        [0, 1, 1],
    ),
    "it does not wait for the reply": ([Asked("a", [Q], waits=True), Asked("a", [R])], [0, 0]),
    "another run begins with another system prompt": (
        [Asked("a", [Q]), NEXT_RUN, Asked("b", [R])], [0, 1],
    ),
    "another one tries again and again": (
        [Asked("b", [R]), *[Asked("a", [Q])] * 17, Asked("b", [R, OK, Q])],
        [0, 0, *range(2, 18), 1],
    ),
    "a summary of older messages is an aside": (
        [offers([Q], calls("c1")), Asked("a", [Q, S]), offers([Q, calls("c1"), SEEN], OK)],
        [0, 0, 1],
    ),
    "which fails, and is asked for again": (
        [offers([Q], calls("c1")), *[Asked("a", [Q, S])] * 2, offers([R, calls("c1"), SEEN], OK)],
        [0, 0, 2, 1],
    ),
    "an aside without the newest message": (
        [offers([Q], ONE), NEXT_RUN, Asked("a", [Q, S]), offers([Q, ONE, R], OK)], [0, 0, 1],
    ),
    "an aside without a reply that was said before": (
        [offers([Q, ONE, R], ONE), Asked("a", [Q, ONE, R, S])], [0, 0],
    ),
    "a summary of all messages behind the answer": (
        [offers([Q], ONE), Asked("a", [Q, ONE, S]), NEXT_RUN, offers([Q, ONE, R], OK)], [0, 0, 1],
    ),
    "amid the work it goes on": (
        [offers([Q], calls("c1")), Asked("a", [Q, calls("c1"), SEEN, S])], [0, 1],
    ),
    "an agent that is a tool begins anew with each call": (
        [offers([Q], calls("c1")), Asked("reviewer", [R], ONE),
         offers([Q, calls("c1"), SEEN], calls("c2")), Asked("reviewer", [R])],
        [0, 0, 1, 0],
    ),
    "also if it has come to its limit": (
        [offers([Q], calls("c1")), Asked("b", [R], calls("d1"), offers=True),
         Asked("b", [R, calls("d1"), SEEN], calls("d2"), offers=True),
         offers([Q, calls("c1"), SEEN], calls("c2")), Asked("b", [R], offers=True)],
        [0, 0, 2, 1, 0],
    ),
    "also beside another one that is called at once": (
        [offers([Q], calls("c1")), Asked("b", [R], calls("d1"), offers=True),
         Asked("b", [R, calls("d1"), SEEN], calls("d2"), offers=True),
         offers([Q, calls("c1"), SEEN], calls("c2")), Asked("b", [S], offers=True, waits=True),
         Asked("b", [R], offers=True)],
        [0, 0, 2, 1, 3, 0],
    ),
    "so does a try without tools": ([offers([Q], AssistantMessage("")), Asked("a", [Q])], [0, 1]),
    "the oldest of 17 is forgotten": (
        [*[Asked("a", [UserMessage(f"{n}?")], waits=True) for n in range(17)],
         Asked("b", [UserMessage("0?"), OK, R])],
        [0] * 18,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sent", "before"), BEFORE.values(), ids=BEFORE)
def test_a_request_goes_on_from_one_before_it(sent: list[Asked | None], before: list[int]) -> None:
    assert requests_before(sent) == before


def test_the_requests_of_a_machine_are_one_conversation() -> None:
    sent: list[Asked | None] = [Asked("a", [Q]), Asked("b", [R])]
    assert requests_before(sent, is_one=True) == [0, 1]
