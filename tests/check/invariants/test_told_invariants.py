"""The invariant on changes of which the model is told that they were made before."""

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
        ({"program": True}, 1),
        ({"then": "Error: it was paid before."}, 1),
        ({"then": "Error: it takes a day"}, 0),
        ({"sent": True}, 0),
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


@pytest.mark.parametrize("keys", [{"status": 503}, {"status": 422, "once": "k"},
                                  {"program": True, "status": 1}])  # fmt: skip
def test_a_change_that_has_failed_was_not_made_before(keys: dict[str, Any]) -> None:
    (found,) = refused_in_turn(**keys).found(made_before_once, Subject(mutating={BANK, "pay"}))
    assert found.startswith("request 3 has 'It was paid before.', and the ")
    assert found.endswith("has failed")


@pytest.mark.parametrize(("of", "status", "finds"), [(1, 404, 1), (2, 404, 0), (1, 201, 0)])
def test_a_reading_that_fails_does_not_undo_a_change(of: int, status: int, finds: int) -> None:
    run = asked().call("a").finish(FinishReason.TOOL_CALLS)
    run.add(entries.ServiceRequest, 1, BANK, "POST", "/pay", "1")
    run.add(entries.ServiceReply, 1, status if of == 1 else 201)
    run.add(entries.ServiceRequest, 2, BANK, "GET", "/pay").add(entries.ServiceReply, 2, 404)
    run.request([GO, said("", "a"), returned("a")]).call("b").finish(FinishReason.TOOL_CALLS)
    run.request([GO, said("", "a"), returned("a"), said("", "b"), returned("b", "Paid before: 1")])
    assert len(run.found(made_before_once, Subject(mutating={BANK}))) == finds


def refused_in_turn(
    *, bodies: Sequence[str] = ("1", "1"), once: str = "", status: int = 0, other: str = "{}",
    again: str = "{}", then: str = "It was paid before.", sent: bool = False, program: bool = False,
    calls: int = 2,
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
            run.add(entries.ServiceRequest, number, BANK, "POST", "/pay", body, once)
            run.add(entries.ServiceReply, number, status or 201)
    results = [returned(each.id) for each in made]
    history: list[Message] = [GO, AssistantMessage("", tuple(made)), *results]
    run.request(history).call("c", again).finish(FinishReason.TOOL_CALLS)
    if sent:
        run.add(entries.ServiceRequest, 9, BANK, "POST", "/pay", "1")
    return run.request([*history, said("", "c", arguments=again), returned("c", then)])
