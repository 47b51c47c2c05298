from collections.abc import Sequence

import pytest
from msgspec import Raw, structs
from oracle.context import no_empty_replies_sent
from recording import Recording, of_machine, returned, said
from work import lines_run

from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.requests import (
    adjacent_results,
    answered_calls,
    last_message_role,
    results_in_call_order,
    unique_call_ids,
)
from simloop.check.invariants.subject import Subject
from simloop.messages import Message, StructuredOutput, SummaryMessage, UserMessage
from simloop.trace import entries

GO: Message = UserMessage("Go.")
MORE: Message = UserMessage("And?")
A: Message = said("", "a")
B: Message = said("", "b")
GOT_A: Message = returned("a")
GOT_B: Message = returned("b")
NONE, SHARED = "call 'a' has no result", "call 'a' shares its id with another call"


def breaks(run: Recording) -> list[str]:
    """Return the broken pairs of the requests of a run."""
    subject, found = Subject(), list[str]()
    for entry in run.entries:
        subject.read(entry)
        found += map(str, subject.breaks) if type(entry) is entries.Request else ()
    return found


def requested(*requests: Sequence[Message]) -> Recording:
    run = Recording().prompt()
    for messages in requests:
        run.request(messages)
    return run


@pytest.mark.parametrize(
    ("messages", "broken"),
    [
        ([GO], []),
        ([GO, A, GOT_A], []),
        ([GO, said("", "a", "b"), GOT_B, GOT_A, MORE], []),
        ([GO, A, GOT_A, B, GOT_B], []),
        ([SummaryMessage("They looked."), A, GOT_A], []),
        ([GO, A], [NONE]),
        ([GO, A, MORE], [NONE]),
        ([GO, said("", "a", "b"), GOT_B], [NONE]),
        ([GO, A, B, GOT_B], [NONE]),
        ([GO, A, GOT_A, GOT_A], ["call 'a' has more than one result"]),
        ([GO, A, GOT_A, MORE, GOT_A], ["call 'a' has a result that does not follow its message"]),
        ([GO, GOT_A], ["call 'a' has a result and is in no message before it"]),
        ([GO, said("", "a", "a"), GOT_A], [SHARED]),
        ([GO, A, GOT_A, A, GOT_A], [SHARED]),
        ([GO, A, MORE, GOT_A], [NONE, "call 'a' has a result that does not follow its message"]),
    ],
)
def test_a_request_must_pair_its_calls_and_results(
    messages: list[Message], broken: list[str]
) -> None:
    assert breaks(requested(messages)) == [f"request 1: {line}" for line in broken]
    pieces = requested(*(messages[:end] for end in range(1, len(messages) + 1)))
    alone = {line.partition(": ")[2] for line in breaks(pieces)}
    assert set(broken) <= alone, "however the requests were recorded"


def test_messages_that_a_request_no_longer_has_are_forgotten() -> None:
    whole = [GO, A, GOT_A, MORE]
    assert breaks(requested(whole, [GO, A, GOT_A])) == []
    assert breaks(requested(whole, [GO, A, MORE])) == [f"request 2: {NONE}"]
    assert breaks(requested(whole, [GO, A, GOT_A, GOT_A])) == [
        "request 2: call 'a' has more than one result"
    ]


def test_a_request_for_a_summary_is_judged_by_itself() -> None:
    run = requested([GO, A, GOT_A]).request([GO, B], purpose="summary").request([GO, A, GOT_A])
    assert breaks(run) == ["request 2: call 'b' has no result"]


def test_the_requests_of_two_conversations_are_judged_each_as_it_was_sent() -> None:
    other: list[Message] = [UserMessage("A task."), A, GOT_A]
    assert breaks(requested([GO, A], other, [GO, A, GOT_A], [*other, MORE])) == [
        f"request 1: {NONE}"
    ]


def test_the_work_grows_with_the_trace_and_not_with_its_square() -> None:
    def work_of(steps: int) -> int:
        whole: list[Message] = [
            each for n in range(steps) for each in (said("", f"{n}"), returned(f"{n}"))
        ]
        run = requested(*(whole[: 2 * n] for n in range(1, steps)))
        return lines_run(lambda: breaks(run))

    assert work_of(200) < 2.5 * work_of(100)


WRONG: list[tuple[Invariant, list[Message], str]] = [
    (answered_calls, [GO, A, MORE], NONE),
    (answered_calls, [GO, A, GOT_A, GOT_A], "call 'a' has more than one result"),
    (unique_call_ids, [GO, A, GOT_A, A, GOT_A], SHARED),
    (adjacent_results, [GO, A, MORE, GOT_A], "that does not follow its message"),
    (adjacent_results, [GO, GOT_A], "call 'a' has a result and is in no message before it"),
    (results_in_call_order, [GO, said("", "a", "b"), GOT_B, GOT_A], "result of call 'a' stands"),
    (last_message_role, [GO, said("Done.")], "the last message of request 1 is a reply"),
    (last_message_role, [GO, said("", "a")], "the last message of request 1 is a reply"),
    (last_message_role, [], "request 1 has no messages"),
]


@pytest.mark.parametrize(("invariant", "messages", "why"), WRONG)
def test_a_request_that_a_provider_refuses_is_found(
    invariant: Invariant, messages: list[Message], why: str
) -> None:
    (found,) = requested(messages).found(invariant)
    assert why in found


def test_an_answer_may_be_sent_back_to_be_put_into_a_form() -> None:
    form = StructuredOutput(Raw(b"{}"))
    run = requested([GO]).replied("Done.").request([GO, said("Done.")], tools=[])
    run.entries[-1] = structs.replace(run.entries[-1], output=form)
    assert run.found(last_message_role) == []
    run.entries[1] = structs.replace(run.entries[1], output=form)
    assert len(run.found(last_message_role)) == 1, "it has asked for the form already"


def test_a_framework_lets_a_model_go_on_that_has_only_thought() -> None:
    run = requested([GO, said("")])
    assert run.found(last_message_role) == requested([GO, said(" ")]).found(last_message_role) == []
    assert len(run.found(last_message_role, of_machine())) == 1


def test_a_tool_that_was_stopped_may_be_answered_last() -> None:
    """A framework answers first the calls that have results."""
    run = requested([GO]).replied("", "a", "b").started("a").started("b").result("b")
    run.request([GO, said("", "a", "b"), GOT_B, GOT_A])
    assert run.found(results_in_call_order) == []
    run = requested([GO]).replied("", "a", "b").started("a").started("b").result("b").result("a")
    run.request([GO, said("", "a", "b"), GOT_B, GOT_A])
    assert len(run.found(results_in_call_order)) == 1
    run.entries[-1] = structs.replace(run.entries[-1], system_prompt="You pay.")
    assert run.found(results_in_call_order) == [], "another agent takes over"


def test_results_that_come_again_may_stand_in_another_order() -> None:
    more = UserMessage("More.")
    run = requested([GO]).replied("", "a", "b")
    run.request([GO, more, said("", "a", "b"), GOT_A, GOT_B]).failed().after(1)
    run.request([GO, said("", "a", "b"), GOT_B, GOT_A])
    assert run.found(results_in_call_order) == []


@pytest.mark.parametrize(("offered", "finds"), [(["look"], 1), (["find"], 0)])
def test_a_call_of_an_unknown_tool_may_be_answered_last(offered: list[str], finds: int) -> None:
    run = Recording().prompt().request([GO], tools=offered).replied("", "a", "b")
    run.request([GO, said("", "a", "b"), GOT_B, GOT_A], tools=offered)
    assert len(run.found(results_in_call_order)) == finds


@pytest.mark.parametrize("invariant", dict.fromkeys(each for each, _, _ in WRONG))
def test_a_request_that_a_provider_takes_is_not_found(invariant: Invariant) -> None:
    taken: list[list[Message]] = [
        [GO],
        [SummaryMessage("They looked.")],
        [GO, said("", "a", "b"), GOT_A, GOT_B],
        [GO, A, GOT_A, B, GOT_B, said("Done."), MORE],
    ]
    for messages in taken:
        assert requested(messages).found(invariant) == []


def test_an_empty_reply_in_a_request_of_a_machine_is_found_and_one_with_a_call_is_not() -> None:
    def found(*messages: Message) -> list[str]:
        return requested(messages).found(no_empty_replies_sent, of_machine())

    assert found(GO, said(""), MORE) == ["request 1 has an empty reply of the model"]
    assert found(GO, A, GOT_A) == []
