import pytest
from oracle.context import no_empty_replies_sent
from recording import Recording, of_machine, returned, said

from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.requests import (
    adjacent_results,
    answered_calls,
    last_message_role,
    results_in_call_order,
    unique_call_ids,
)
from simloop.check.invariants.subject import Subject
from simloop.messages import Message, SummaryMessage, UserMessage

GO, MORE = UserMessage("Go."), UserMessage("And?")


@pytest.mark.parametrize(
    ("invariant", "messages", "why"),
    [
        (answered_calls, [GO, said("", "a"), MORE], "call 'a' has no result"),
        (answered_calls, [GO, said("", "a", "b"), returned("b")], "call 'a' has no result"),
        (
            answered_calls,
            [GO, said("", "a"), returned("a"), returned("a")],
            "call 'a' has more than one result",
        ),
        (
            unique_call_ids,
            [GO, said("", "a"), returned("a"), said("", "a"), returned("a")],
            "call 'a' shares its id with another call",
        ),
        (
            adjacent_results,
            [GO, said("", "a"), MORE, returned("a")],
            "call 'a' has a result that does not follow its message",
        ),
        (
            adjacent_results,
            [GO, returned("a")],
            "call 'a' has a result and is in no message before it",
        ),
        (
            results_in_call_order,
            [GO, said("", "a", "b"), returned("b"), returned("a")],
            "the result of call 'a' stands behind that of a later call",
        ),
        (last_message_role, [GO, said("Done.")], "the last message of request 1 is a reply"),
        (last_message_role, [], "request 1 has no messages"),
    ],
)
def test_a_request_that_a_provider_refuses_is_found(
    invariant: Invariant, messages: list[Message], why: str
) -> None:
    (found,) = Recording().prompt().request(messages).found(invariant)
    assert why in found


@pytest.mark.parametrize(
    "invariant",
    [
        answered_calls,
        unique_call_ids,
        adjacent_results,
        results_in_call_order,
        last_message_role,
    ],
)
@pytest.mark.parametrize(
    "messages",
    [
        [GO],
        [SummaryMessage("They looked.")],
        [GO, said("", "a", "b"), returned("a"), returned("b")],
        [GO, said("", "a"), returned("a"), said("", "b"), returned("b"), said("Done."), MORE],
    ],
)
def test_a_request_that_a_provider_takes_is_not_found(
    invariant: Invariant, messages: list[Message]
) -> None:
    assert Recording().prompt().request(messages).found(invariant) == []


def test_a_broken_pair_that_the_scenario_expects_is_no_violation() -> None:
    run = Recording().prompt().request([GO, said("", "a"), MORE])
    known = Subject(broken_pairs=["request 1: call 'a' has no result"])
    assert run.found(answered_calls, known) == []
    assert run.request([GO, said("", "a"), MORE, said("", "b"), MORE]).found(
        answered_calls, known
    ) == ["request 2: call 'b' has no result"]


def test_an_empty_reply_in_a_request_of_a_machine_is_found_and_one_with_a_call_is_not() -> None:
    def found(*messages: Message) -> list[str]:
        return Recording().prompt().request(messages).found(no_empty_replies_sent, of_machine())

    assert found(GO, said(""), MORE) == ["request 1 has an empty reply of the model"]
    assert found(GO, said("", "a"), returned("a")) == []
