"""The invariant on changes of which the model is told that they were made before."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from recording import Recording, returned, said

from simloop.check.invariants.subject import Subject
from simloop.check.invariants.told import made_before_once
from simloop.messages import AssistantMessage, FinishReason, Message, ToolCall, UserMessage
from simloop.trace import entries

GO, BANK = UserMessage("Go."), "https://bank.example"


def asked() -> Recording:
    return Recording().prompt().request([GO])


@pytest.mark.parametrize(
    ("keys", "finds"),
    [
        ({}, 1),
        ({"once": "k", "new_keys": True}, 1),
        ({"program": True}, 1),
        ({"then": "Error: it was paid before."}, 1),
        ({"then": "Nothing to do: paid just now."}, 1),
        ({"then": "Not paid again: it was paid once."}, 1),
        ({"then": "Refused: it has a payment, or may have one."}, 1),
        ({"then": "NOT DONE AGAIN: paid 7"}, 1),
        ({"then": "It is too much. If you pay again, ask."}, 0),
        ({"status": 503, "then": "It is not sent again."}, 0),
        ({"then": "It is paid at once."}, 0),
        ({"then": "Error: it takes a day"}, 0),
        ({"sent": True}, 0),
        ({"ran": True}, 1),  # and sends nothing
        ({"calls": 1}, 0),
        ({"bodies": ("1", "2")}, 0),
        ({"bodies": ("1",)}, 0),
        ({"bodies": ("1", "1", "2")}, 0),
        ({"once": "k"}, 0),
        ({"status": 503, "bodies": ("1", "2")}, 0),
        ({"status": 503, "then": "It may have been paid before."}, 0),
        ({"status": 503, "then": "Error: it has failed before."}, 0),
        ({"other": '{"n": 2}'}, 0),
        ({"again": '{"n": 2}'}, 0),
    ],
)
def test_an_agent_that_refuses_a_second_change_refuses_it_at_once_too(
    keys: dict[str, Any], finds: int
) -> None:
    run = refused_in_turn(**keys)
    found = run.found(made_before_once, Subject(mutating={BANK, "pay"}))
    assert len(found) == finds
    assert run.found(made_before_once, Subject(mutating={"https://other.example"})) == []
    assert all("2 calls at once have each made the " in each for each in found)


def test_a_change_that_one_more_call_has_made_was_made_before() -> None:
    run = refused_in_turn(sent=True).call("d").finish(FinishReason.TOOL_CALLS)
    calls = AssistantMessage("", (ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}")))
    history: list[Message] = [
        GO,
        calls,
        returned("a"),
        returned("b"),
        said("", "c", arguments="{}"),
    ]
    history += [returned("c", "It was paid before."), said("", "d"), returned("d", "Paid before.")]
    assert run.request(history).found(made_before_once, Subject(mutating={BANK})) == []


@pytest.mark.parametrize(
    ("ends", "status", "finds"), [(503, 200, 0), (503, 503, 1), (422, 200, 1), (409, 200, 0)]
)
def test_an_agent_that_has_looked_knows_what_was_made(ends: int, status: int, finds: int) -> None:
    run, sent = asked(), list[Message]([GO])
    for number, (one, how) in enumerate(zip("ab", ("POST", "GET"), strict=True), 1):
        call = ToolCall(one, "look" if how == "POST" else "read", "{}")
        run.call(one, "{}", call.name).finish(FinishReason.TOOL_CALLS)
        run.add(entries.ServiceRequest, number, BANK, how, "/pay", "1")
        run.add(entries.ServiceReply, number, ends if how == "POST" else status)
        sent += [AssistantMessage("", (call,)), returned(one, "seen")]
        run.request([*sent])
    run.call("c", "{}").finish(FinishReason.TOOL_CALLS)
    sent += [AssistantMessage("", (ToolCall("c", "look", "{}"),)), returned("c", "Paid before.")]
    assert len(run.request(sent).found(made_before_once, Subject(mutating={BANK}))) == finds


@pytest.mark.parametrize("keys", [{"status": 503}, {"status": 422, "once": "k"},
                                  {"program": True, "status": 1}])  # fmt: skip
def test_a_change_that_has_failed_was_not_made_before(keys: dict[str, Any]) -> None:
    (found,) = refused_in_turn(**keys).found(made_before_once, Subject(mutating={BANK, "pay"}))
    assert found.startswith("request 3 has 'It was paid before.', and the ")
    assert found.endswith("was refused" if "once" in keys else "has failed")


@pytest.mark.parametrize(("status", "calls", "finds"), [(422, 1, 1), (503, 1, 0), (201, 2, 1)])
def test_a_tool_that_runs_and_sends_nothing_may_know_the_end_of_what_has_failed(
    status: int, calls: int, finds: int
) -> None:
    run = refused_in_turn(status=status, bodies=["1"] * calls, calls=calls, ran=True)
    assert len(run.found(made_before_once, Subject(mutating={BANK, "look"}))) == finds


@pytest.mark.parametrize(("of", "status", "finds"), [(1, 404, 1), (2, 404, 0), (1, 201, 0)])
def test_a_reading_that_fails_does_not_undo_a_change(of: int, status: int, finds: int) -> None:
    run = asked().call("a").finish(FinishReason.TOOL_CALLS)
    run.add(entries.ServiceRequest, 1, BANK, "POST", "/pay", "1")
    run.add(entries.ServiceReply, 1, status if of == 1 else 201)
    run.add(entries.ServiceRequest, 2, BANK, "GET", "/pay").add(entries.ServiceReply, 2, 404)
    run.request([GO, said("", "a"), returned("a")]).call("b").finish(FinishReason.TOOL_CALLS)
    run.request([GO, said("", "a"), returned("a"), said("", "b"), returned("b", "Paid before: 1")])
    assert len(run.found(made_before_once, Subject(mutating={BANK}))) == finds


@pytest.mark.parametrize(
    ("texts", "keys", "finds"),
    [
        (("paid 1", "paid 2"), {}, 1),
        (("paid", "paid"), {}, 0),  # one receipt: the function may know of the first
        (("paid", "paid"), {"kept": "UPDATE shelf"}, 1),
        (("paid 1", "It was paid before: 1"), {}, 0),
        (("paid 1", "Not paid"), {}, 0),
        (("paid 1", None), {}, 0),
        (("paid 1",), {}, 0),
        (("paid 1", "paid 2"), {"in_thread": True}, 0),
        (("paid 1", "paid 2"), {"sent": True}, 0),
        (("paid 1", "paid 2"), {"runs": True}, 0),
        (("paid 1", "paid 2"), {"calls_inside": True}, 0),
    ],
)
def test_two_runs_of_a_tool_are_two_changes(
    texts: Sequence[str | None], keys: dict[str, Any], finds: int
) -> None:
    run = run_in_turn(*texts, **keys)
    found = run.found(made_before_once, Subject(mutating={"look"}))
    assert len(found) == finds
    assert run.found(made_before_once, Subject(mutating={"other"})) == []
    assert all(each.endswith("2 calls at once have each run the tool 'look'") for each in found)


@pytest.mark.parametrize(
    ("bodies", "traced", "finds"),
    [
        (["s1", "s2", "s1"], False, 1),
        (["s1", "s2"], False, 0),
        (["s1", "s2", "s2"], False, 0),
        (["s2", "s2"], False, 0),
        (["s1", "s2", "?"], False, 0),
        (["s1 503", "s2"], False, 0),  # the other one may have been refused
        ([], True, 1),
        (["s2"], True, 0),  # what the tool does outside counts
    ],
)
def test_two_changes_beside_another_are_seen(
    *, bodies: list[str], traced: bool, finds: int
) -> None:
    given = {"a": "s1", "b": "s2", "c": "s1"}
    made = [ToolCall(each, "look", json.dumps({"sum": text})) for each, text in given.items()]
    run = asked()
    for call in made:
        run.call(call.id, call.arguments)
    run.finish(FinishReason.TOOL_CALLS)
    for call in made if traced else ():
        run.started(call.id, call.arguments).result(call.id, f"paid by {call.id}")
    for number, body in enumerate(bodies, 1):
        run.add(entries.ServiceRequest, number, BANK, "POST", "/pay", body)
        run.add(entries.ServiceReply, number, 503 if "503" in body else 201)
    last = made[0].arguments
    history: list[Message] = [GO, AssistantMessage("", tuple(made)), *map(returned, given)]
    run.request(history).call("d", last).finish(FinishReason.TOOL_CALLS)
    told = returned("d", "It was paid before.")
    run.request([*history, said("", "d", arguments=last), told])
    assert len(run.found(made_before_once, Subject(mutating={BANK, "look"}))) == finds


def test_the_results_of_two_calls_are_not_judged() -> None:
    for is_alone in True, False:
        run = asked().call("a").call("b").finish(FinishReason.TOOL_CALLS)
        run.started("a").result("a", "paid 1").started("b").result("b", "paid 2")
        history: list[Message] = [GO, said("", "a", "b"), returned("a"), returned("b")]
        calls = [ToolCall("c", "look", "{}"), ToolCall("d", "look", "[]")][: 1 if is_alone else 2]
        run.request(history)
        for call in calls:
            run.call(call.id, call.arguments)
        told = [returned(call.id, "It was paid before.") for call in calls]
        run.finish(FinishReason.TOOL_CALLS)
        run.request([*history, AssistantMessage("", tuple(calls)), *told])
        assert len(run.found(made_before_once, Subject(mutating={"look"}))) == is_alone


@pytest.mark.parametrize(
    ("text", "then", "finds"),
    [
        ("Error: full", "It was paid before, and is not paid again.", 1),
        (None, "It was paid before, and is not paid twice.", 1),
        ("Error: full", "It was paid before. If it is unknown, ask.", 1),
        ("Error: full", 'It was paid before: {"a": 1}: {"error": "full"}', 1),
        ("Error: full", 'It was tried before: {"error": "full"}', 0),
        ("Error: full", 'It was paid before: {"a": 1}, or it has failed', 0),
        ("Error: full", "It was paid before, if it is known.", 0),
        ("Error: full", "It has failed before.", 0),
        ("Error: full", f"It was paid before: {'x' * 200_000}", 1),
        ("Error: full", "It may have been paid before.", 0),
        ("paid 1", "It was paid before.", 0),
    ],
)
def test_a_tool_that_has_failed_has_made_nothing_before(
    text: str | None, then: str, finds: int
) -> None:
    found = run_in_turn(text, then=then).found(made_before_once, Subject(mutating={"look"}))
    assert len(found) == finds
    assert all(each.endswith("the tool 'look' has failed") for each in found)


def run_in_turn(
    *texts: str | None, kept: str = "", in_thread: bool = False, sent: bool = False,
    runs: bool = False, calls_inside: bool = False, then: str = "It was paid before.",
) -> Recording:  # fmt: skip
    """The tools of some equal calls return these texts, or do not end; then there is one more."""
    ids, run = [f"{number}" for number in range(len(texts))], asked()
    for each in ids:
        run.call(each)
    run.finish(FinishReason.TOOL_CALLS)
    for each, text in zip(ids, texts, strict=True):
        run.add(entries.ToolStarted, each, "look", "{}", in_thread=in_thread)
        if text is not None:
            is_error = text.startswith("Error")
            run.add(entries.ToolResult, each, "look", text, is_error, kept=kept)
    if sent:
        run.add(entries.ServiceRequest, 1, BANK, "POST", "/pay", "1")
    if calls_inside:
        run.started("own-1").result("own-1", "paid 3")
    results = [
        returned(each, text or "It takes long.") for each, text in zip(ids, texts, strict=True)
    ]
    history: list[Message] = [GO, said("", *ids), *results]
    run.request(history).call("c").finish(FinishReason.TOOL_CALLS)
    if runs:
        run.started("c").result("c", then)
    return run.request([*history, said("", "c"), returned("c", then)])


def refused_in_turn(
    *, bodies: Sequence[str] = ("1", "1"), once: str = "", status: int = 0, other: str = "{}",
    again: str = "{}", then: str = "It was paid before.", sent: bool = False, program: bool = False,
    calls: int = 2, ran: bool = False, new_keys: bool = False,
) -> Recording:  # fmt: skip
    """Two calls of a reply make a change; then the model calls a third time."""
    made = [ToolCall("a", "look", "{}"), ToolCall("b", "look", other)][:calls]
    run = asked()
    for call in made:
        run.call(call.id, call.arguments)
    run.finish(FinishReason.TOOL_CALLS)
    for number, body in enumerate(bodies, 1):
        if program:
            run.add(entries.ProgramStarted, number, ("pay", body))
            run.add(entries.ProgramEnded, number, status)
        else:
            key = once * (number if new_keys else 1)
            run.add(entries.ServiceRequest, number, BANK, "POST", "/pay", body, key)
            run.add(entries.ServiceReply, number, status or 201)
    results = [returned(each.id) for each in made]
    history: list[Message] = [GO, AssistantMessage("", tuple(made)), *results]
    run.request(history).call("c", again).finish(FinishReason.TOOL_CALLS)
    if sent:
        run.add(entries.ServiceRequest, 9, BANK, "POST", "/pay", "1")
    if ran:
        run.started("c", again).result("c", then)
    return run.request([*history, said("", "c", arguments=again), returned("c", then)])
