import copy
from dataclasses import replace

import pytest
from recording import Recording, returned, said

from simloop import Limits
from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.subject import Subject
from simloop.check.invariants.user import (
    changes_of_broken_runs_kept,
    continued_answers_are_whole,
    conversation_kept_between_prompts,
    queued_messages_delivered,
)
from simloop.messages import (
    AssistantMessage,
    FinishReason,
    Message,
    Outcome,
    Queue,
    ToolCall,
    UserMessage,
)
from simloop.trace import entries

GO, ONE, TWO = UserMessage("Go."), UserMessage("One?"), UserMessage("Two?")
NEXT, LAST = UserMessage("Next."), UserMessage("Last.")


def asked() -> Recording:
    return Recording().prompt().request([GO])


def answered(text: str = "Yes.", outcome: Outcome = Outcome.COMPLETED) -> Recording:
    return asked().replied(text).ended(outcome).prompt("Next.")


def queued() -> Recording:
    return asked().queued("One?").queued("Two?").replied("Yes.")


def continued(answer: str, asks: str = "Go on.", *, keeps: bool = True) -> Recording:
    run, begun = asked().text("The first ").finish(FinishReason.LENGTH), [said("The first ")]
    run.request([GO, *begun * keeps, UserMessage(asks)]).replied("and the last.")
    return run.ended(text=answer)


YES = said("Yes.")
LOOKED: list[Message] = [GO, said("", "a"), returned("a")]
BAD: list[tuple[Invariant, Recording, str]] = [
    (continued_answers_are_whole, continued("and the last."), "lacks its beginning: 'The first '"),
    (queued_messages_delivered, queued().request([GO, YES, TWO, ONE]),
     "'Two?' is delivered before 'One?'"),
    (queued_messages_delivered, queued().request([GO, YES, TWO]),
     "'Two?' is delivered before 'One?'"),
    (queued_messages_delivered, queued().ended().prompt("Two?").request([GO, YES, TWO]),
     "'Two?' is delivered before 'One?'"),
    (queued_messages_delivered, queued().ended(),
     "'One?' was taken from the queue, and no request has"),
    (queued_messages_delivered, queued().request([GO, YES, ONE]).replied("Yes.").ended(),
     "'Two?' was taken"),
    (queued_messages_delivered,
     queued().ended(Outcome.ABORTED).prompt("Next.").request([GO, YES, NEXT]),
     "'One?' was taken from the queue, and request 2 lacks it"),
    (queued_messages_delivered,
     queued().ended(Outcome.ABORTED).prompt("Two?").request([GO, YES, TWO]),
     "'Two?' is delivered before 'One?'"),
    (queued_messages_delivered, queued().ended(Outcome.FAILED).prompt("Next.").request([NEXT]),
     "'One?' was taken from the queue, and request 2 lacks it"),
    (conversation_kept_between_prompts,
     asked().replied("Yes.").ended().prompt("Next.").request([GO, YES, NEXT]).failed()
     .ended(Outcome.FAILED).prompt("Last.").request([LAST]).replied("Yes.").ended(),
     "and request 3 has forgotten it"),
    (conversation_kept_between_prompts,
     answered().request([GO, YES, NEXT]).replied("No.").ended().prompt("Last.")
     .request([NEXT, said("No."), LAST]), "request 3 lacks an earlier prompt: 'Go.'"),
    (conversation_kept_between_prompts,
     asked().replied("", "a").ended().prompt("Next.")
     .request([GO, said("", "a"), returned("a"), NEXT]).failed().ended(Outcome.FAILED)
     .prompt("Last.").request([LAST]).replied("Yes.").ended(), "and request 3 has forgotten it"),
]  # fmt: skip


def long_prompt(*kept: Message) -> Recording:
    """A prompt with ten calls, and a further one."""
    history = list[Message]([GO, YES, NEXT])
    run = asked().replied("Yes.").ended(text="Yes.").prompt("Next.").request(history)
    for number in range(10):
        history += [said("", f"c{number}"), returned(f"c{number}")]
        run.replied("", f"c{number}").request(history)
    run.replied("All is done.").ended(text="All is done.").prompt("Last.")
    return run.request([*kept, LAST]).replied("Yes.").ended()


def test_a_summary_may_stand_for_a_conversation() -> None:
    for sums_up, finds in (False, 1), (True, 0):
        run = answered().request([GO, YES, NEXT]).failed().ended(Outcome.FAILED).prompt("Last.")
        if sums_up:
            run.request([GO, YES, UserMessage("Sum up.")], purpose="summary").replied("Short.")
        run.request([LAST]).replied("Yes.").ended()
        assert len(run.found(conversation_kept_between_prompts)) == finds


@pytest.mark.parametrize(
    ("summary", "first", "finds"),
    [("Short.", "So far: Short.", 0), ("Short.", "So far: Long.", 1), (" ", "So far: Long.", 1)],
)
def test_a_summary_by_another_prompt_may_stand_for_a_conversation(
    summary: str, first: str, finds: int
) -> None:
    """It is asked for a second time: so it is known as what comes before an answer."""
    sums_up = UserMessage("Sum up: Go. Yes.")
    run = asked().request([sums_up], system_prompt="Sum up.", tools=[]).replied("So.")
    run.request([UserMessage("So far: So."), GO]).replied("Yes.").ended(text="Yes.")
    run.prompt("Next.").request([UserMessage("So far: So."), GO, YES, NEXT]).replied("No.")
    run.ended(text="No.").prompt("Last.")
    run.request([sums_up], system_prompt="Sum up.", tools=[]).replied(summary)
    run.request([UserMessage(first), LAST]).replied("Fine.").ended(text="Fine.")
    found = run.found(conversation_kept_between_prompts, Subject(is_instance=True))
    assert len(found) == finds


@pytest.mark.parametrize(
    ("steps", "calls", "finds"),
    [(None, 10, 1), (None, 11, 0), (12, 13, 1), (12, 14, 0), (99, 15, 1), (99, 16, 0)],
)
def test_a_prompt_up_to_its_limit_counts_as_short(
    steps: int | None, calls: int, finds: int
) -> None:
    run, sent = asked(), list[Message]([GO])
    for number in range(calls):
        run.call(f"{number}", f"[{number}]").finish(FinishReason.TOOL_CALLS)
        run.started(f"{number}").result(f"{number}")
        sent += [said("", f"{number}"), returned(f"{number}")]
        if number < calls - 1:
            run.request(sent)
    run.ended(Outcome.FAILED).prompt("And?").request([UserMessage("And?")])
    limits = None if steps is None else Limits(max_steps=steps)
    subject = Subject(is_instance=True, mutating={"look"}, limits=limits)
    assert len(run.found(changes_of_broken_runs_kept, subject)) == finds


def test_a_message_need_not_be_in_a_request_without_tools() -> None:
    for tools, finds in (["look"], 1), ([], 0):
        run = queued().ended(Outcome.FAILED).prompt("Next.")
        run.request([NEXT], tools=tools).replied("So.").request([GO, YES, ONE, TWO, NEXT])
        assert len(run.found(queued_messages_delivered)) == finds


def test_a_long_prompt_is_not_forgotten_as_a_whole() -> None:
    (found,) = long_prompt().found(conversation_kept_between_prompts, Subject(is_instance=True))
    assert "request 13 goes on" in found or "has nothing of the conversation" in found
    assert not kept(long_prompt(said("All is done.")))
    assert not kept(long_prompt(GO, YES))


def talked(*kept: Message, outcome: Outcome = Outcome.COMPLETED) -> Recording:
    """Three prompts, and the messages of the user in the request for the last one."""
    run = asked().replied("Yes.").ended().prompt("Next.").request([GO, YES, NEXT])
    return run.replied("No.").ended(outcome).prompt("Last.").request([*kept, LAST])


def test_the_request_for_the_answer_has_the_conversation_not_those_before_it() -> None:
    def asks(run: Recording, *messages: Message) -> Recording:
        run.request([UserMessage("Sort it.")], system_prompt="Sort.").replied("Sorted.")
        return run.request([*messages, NEXT], system_prompt="Answer.").replied("No.").ended()

    first = Recording().prompt().request([GO], system_prompt="Sort.").replied("Sorted.")
    first.request([GO], system_prompt="Answer.").replied("Yes.").ended(text="Yes.").prompt("Next.")
    instance = Subject(is_instance=True)
    assert not asks(copy.deepcopy(first), GO, YES).found(
        conversation_kept_between_prompts, instance
    )
    assert asks(first).found(conversation_kept_between_prompts, instance)


def kept(run: Recording) -> list[str]:
    return run.found(conversation_kept_between_prompts, Subject(is_instance=True))


def test_a_critic_behind_the_answer_and_a_summary_before_it_need_no_conversation() -> None:
    def critic(run: Recording) -> Recording:
        return run.request([UserMessage("A letter.")], system_prompt="Judge.").replied("Fine.")

    run = critic(asked().replied("Yes.")).ended(text="Yes.").prompt("Next.")
    assert kept(critic(run.request([GO, YES, NEXT]).replied("No.")).ended(text="No.")) == []
    run, said_so_far = asked().replied("Yes.").ended(text="Yes."), list[Message]([GO, YES])
    for text in ("Next.", "More.", "Last."):
        run.prompt(text).request([UserMessage("Sum up.")], system_prompt="Sum up.").replied("So.")
        said_so_far += [UserMessage(text)]
        run.request(said_so_far).replied("Yes.").ended(text="Yes.")
        said_so_far += [YES]
    assert kept(run) == []


def test_a_conversation_is_kept_by_a_request_that_prepares_the_answer() -> None:
    def judged(run: Recording, letter: str) -> Recording:
        return run.request([UserMessage(letter)], system_prompt="Judge.").replied("Yes.")

    run = judged(asked().replied("Yes."), "A letter.").ended(text="Yes.").prompt("Next.")
    run.request([GO, YES, NEXT]).replied("Yes.")
    assert kept(judged(run, "Another one.").ended(text="Yes.")) == []


def test_a_transcript_in_one_message_has_the_answer() -> None:
    run = Recording().prompt().request([UserMessage("<talk>User: Go.</talk>")]).replied("Yes.")
    run.ended(text="Yes.").prompt("Next.")
    told = "<talk>User: Go.\nBot: Yes.\nUser: Next.</talk>"
    assert kept(run.request([UserMessage(told)]).replied("No.").ended(text="No.")) == []


def test_a_transcript_has_the_answer_before_a_failed_prompt() -> None:
    def told(*lines: str) -> list[Message]:
        return [UserMessage("\n".join(["<talk>", *lines, "</talk>"]))]

    run = Recording().prompt().request(told("Go.")).replied("Yes.").ended(text="Yes.")
    run.prompt("Next.").request(told("Go.", "Yes.", "Next.")).failed(401).ended(Outcome.FAILED)
    run.prompt("Last.").request(told("Go.", "Yes.", "Last.")).replied("No.").ended(text="No.")
    assert kept(run) == []


@pytest.mark.parametrize(("first", "then"), [(True, False), (False, True), (True, True)])
def test_a_change_is_kept_after_a_stop_as_after_a_failure(first: bool, then: bool) -> None:  # noqa: FBT001
    def paid(prompt: Message, call_id: str, *, is_kept: bool) -> list[Message]:
        return [prompt, said("", call_id), returned(call_id)] if is_kept else []

    run = Recording().prompt().request([GO]).call("a", name="pay").finish()
    run.add(entries.ToolResult, "a", "pay", "paid").ended(Outcome.FAILED).prompt("Next.")
    run.request([*paid(GO, "a", is_kept=first), NEXT]).call("b", '{"n": 2}', name="pay").finish()
    run.add(entries.ToolResult, "b", "pay", "paid").stop().ended(Outcome.ABORTED).prompt("Last.")
    run.request([*paid(GO, "a", is_kept=first), *paid(NEXT, "b", is_kept=then), LAST])
    found = run.found(changes_of_broken_runs_kept, Subject(mutating={"pay"}))
    assert len(found) == (first is not then)  # without a kept prompt, each begins anew
    assert run.found(changes_of_broken_runs_kept, Subject(mutating={"look"})) == []


@pytest.mark.parametrize(
    ("steps", "calls", "text", "finds"),
    [
        (2, True, "I had to stop.", 1),
        (3, True, "I had to stop.", 0),
        (2, False, "I had to stop.", 0),
        (2, True, "I had to stop after pay.", 0),
    ],
)
def test_a_run_that_reaches_its_limit_keeps_its_changes(
    steps: int, calls: bool, text: str, finds: int  # noqa: FBT001
) -> None:  # fmt: skip
    run = asked().call("a", "{}", "pay").finish(FinishReason.TOOL_CALLS)
    run.add(entries.ToolResult, "a", "pay", "paid").request([GO, said("", "a"), returned("a")])
    run = run.replied("", "b").result("b") if calls else run.replied("Yes.")
    run.ended(text=text).prompt("Next.").request([GO, said(text), NEXT])
    subject = replace(INSTANCE, limits=Limits(max_steps=steps))
    assert len(run.found(changes_of_broken_runs_kept, subject)) == finds
    assert run.found(changes_of_broken_runs_kept, INSTANCE) == []


@pytest.mark.parametrize("is_told", [True, False])
def test_a_change_that_a_summary_tells_of_is_not_lost_with_the_run(*, is_told: bool) -> None:
    run = asked().call("a", "{}", "pay").finish(FinishReason.TOOL_CALLS)
    run.add(entries.ToolResult, "a", "pay", "paid")
    history: list[Message] = [GO, said("", "a"), returned("a"), said("", "b"), returned("b")]
    run.request(history[:3]).call("b").finish(FinishReason.TOOL_CALLS).result("b")
    told = [UserMessage("Before: it was done."), GO, *history[3:]]
    run.request(told if is_told else history).stop().ended(Outcome.ABORTED).prompt("Next.")
    run.request([*told, NEXT] if is_told else [GO, NEXT])
    assert len(run.found(changes_of_broken_runs_kept, Subject(mutating={"pay"}))) == 1 - is_told


def test_the_same_prompt_again_does_not_show_that_a_function_keeps_it() -> None:
    run = asked().call("a", "{}", "pay").finish(FinishReason.TOOL_CALLS)
    run.add(entries.ToolResult, "a", "pay", "paid").ended(Outcome.FAILED).prompt(GO.text)
    assert run.request([GO]).found(changes_of_broken_runs_kept, Subject(mutating={"pay"})) == []


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.ABORTED])
@pytest.mark.parametrize(
    ("sent", "finds"),
    [
        ([GO, NEXT], 1),
        ([GO, said("I was stopped."), NEXT], 1),
        ([GO, UserMessage("I was stopped."), NEXT], 0),
        ([GO, said("I was stopped; a change may have been made."), NEXT], 0),
        ([GO, said("I was stopped after pay."), NEXT], 0),
        ([GO, said("I was stopped amid Ada."), NEXT], 0),
        ([GO, said("Stopped, with I-9 done."), NEXT], 0),
        ([GO, said("I am here."), NEXT], 0),
        ([GO, UserMessage("I was stopped. Next.")], 0),
        ([GO, said("", "a"), returned("a"), NEXT], 0),
        ([NEXT], 0),
    ],
)
def test_who_keeps_the_prompt_of_a_broken_run_keeps_what_it_changed(
    sent: list[Message], finds: int, outcome: Outcome
) -> None:
    for system, expected in ("", finds), ("He has paid.", 0):
        run = Recording().prompt().request([GO]).text("I am here.")
        run.call("a", '{"to": "Ada", "bill": "I-9"}', name="pay").finish()
        run.add(entries.ToolResult, "a", "pay", "paid").ended(outcome).prompt("Next.")
        run.request(sent, system_prompt=system)
        assert len(run.found(changes_of_broken_runs_kept, Subject(mutating={"pay"}))) == expected
        assert run.found(changes_of_broken_runs_kept, Subject(mutating={"look"})) == []


INSTANCE = Subject(mutating={"pay", "https://b.example"}, is_instance=True)
ANEW = replace(INSTANCE, deviations={"conversation-kept-between-prompts": "each begins anew"})


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.ABORTED])
@pytest.mark.parametrize(
    ("subject", "sent", "finds"),
    [
        (INSTANCE, [GO, YES, LAST], 1),
        (INSTANCE, [GO, YES, NEXT, said("", "a"), returned("a"), LAST], 0),
        (INSTANCE, [GO, YES, UserMessage("a has paid."), LAST], 0),
        (INSTANCE, [LAST], 0),  # another conversation
        (replace(INSTANCE, is_instance=False), [GO, YES, LAST], 1),  # it has kept the first prompt
        (replace(INSTANCE, mutating={"look"}), [GO, YES, LAST], 0),
    ],
)
def test_an_instance_keeps_what_a_broken_run_has_changed(
    subject: Subject, sent: list[Message], finds: int, outcome: Outcome
) -> None:
    run = answered().request([GO, YES, NEXT]).call("a", name="pay").finish()
    run.add(entries.ToolResult, "a", "pay", "paid").ended(outcome).prompt("Last.").request(sent)
    assert len(run.found(changes_of_broken_runs_kept, subject)) == finds


@pytest.mark.parametrize(
    ("calls", "text", "finds"), [(3, "seen", 1), (20, "seen", 0), (3, "seen " * 500, 0)]
)
def test_a_window_of_messages_may_have_no_room_for_a_long_run(
    calls: int, text: str, finds: int
) -> None:
    run = asked().call("a", name="pay").finish().add(entries.ToolResult, "a", "pay", "paid")
    ids = ["a", *map(str, range(calls))]
    results = [returned(each, text) for each in ids]
    run.request([GO, said("", *ids), *results]).failed(401).ended(Outcome.FAILED)
    run.prompt("Next.").request([NEXT])
    assert len(run.found(changes_of_broken_runs_kept, INSTANCE)) == finds


@pytest.mark.parametrize(("text", "finds"), [("I pay.", 1), ("I pay." * 2_000, 0)])
def test_a_long_reply_may_leave_no_room_for_its_run(text: str, finds: int) -> None:
    run = asked().text(text).call("a", name="pay").finish()
    run.add(entries.ToolResult, "a", "pay", "paid").ended(Outcome.FAILED)
    run.prompt("Next.").request([NEXT])
    assert len(run.found(changes_of_broken_runs_kept, INSTANCE)) == finds


@pytest.mark.parametrize(("subject", "finds"), [(INSTANCE, 1), (ANEW, 0)])
def test_who_begins_anew_with_each_prompt_keeps_no_change(subject: Subject, finds: int) -> None:
    run = asked().call("a", name="pay").finish().add(entries.ToolResult, "a", "pay", "paid")
    run.ended(Outcome.FAILED).prompt("Next.").request([NEXT])
    assert len(run.found(changes_of_broken_runs_kept, subject)) == finds


@pytest.mark.parametrize(
    ("name", "result", "finds"),
    [("pay", "paid", 1), ("pay", "Error: no money", 0), ("look", "paid", 0)],
)
def test_a_run_does_not_begin_again_behind_its_changes(name: str, result: str, finds: int) -> None:
    run = asked().call("a", name=name).finish()  # no trace shows the run of the tool
    told = AssistantMessage("", (ToolCall("a", name, "{}"),)), returned("a", result)
    run.request([GO, *told]).failed(503).request([GO])
    assert len(run.found(changes_of_broken_runs_kept, INSTANCE)) == finds
    run = asked().call("a", name=name).finish().request([GO, *told]).failed(503)
    assert run.request([GO, *told]).found(changes_of_broken_runs_kept, INSTANCE) == []
    run = asked().call("a", name=name).finish().request([GO, *told]).replied("Done.")
    assert run.request([GO]).found(changes_of_broken_runs_kept, INSTANCE) == []


@pytest.mark.parametrize(("undoes", "finds"), [(True, 0), (False, 1)])
def test_a_change_that_nobody_has_asked_for_may_undo_the_others(
    finds: int, *, undoes: bool
) -> None:
    run = asked().call("a", name="pay").finish()
    run.add(entries.ServiceRequest, 1, "https://b.example", "POST", "/pay", "{}")
    run.add(entries.ServiceReply, 1, 201).request([GO, said("", "a"), returned("a")]).failed(401)
    if undoes:
        run.add(entries.ServiceRequest, 2, "https://b.example", "DELETE", "/pay/1", "")
        run.add(entries.ServiceReply, 2, 204)
    run.ended(Outcome.FAILED).prompt("Next.").request([NEXT])
    assert len(run.found(changes_of_broken_runs_kept, INSTANCE)) == finds


@pytest.mark.parametrize(("person", "finds"), [("ben", 0), ("ann", 1)])
def test_each_of_several_people_has_a_conversation(person: str, finds: int) -> None:
    def paid(run: Recording, call_id: str, arguments: str) -> Recording:
        run.call(call_id, arguments, name="pay").finish()
        return run.add(entries.ToolResult, call_id, "pay", "paid")

    run = paid(Recording().prompt("ann: Pay.").request([GO]), "a", "{}").ended(Outcome.FAILED)
    run.prompt("ann: Next.").request([GO, said("", "a"), returned("a"), NEXT])
    paid(run, "b", '{"n": 2}').stop().ended(Outcome.ABORTED).prompt(f"{person}: Last.")
    run.request([GO, said("", "a"), returned("a"), LAST])
    assert len(run.found(changes_of_broken_runs_kept, Subject(mutating={"pay"}))) == finds


def test_a_change_at_a_service_is_kept_after_a_stop_as_after_a_failure() -> None:
    def paying(run: Recording, number: int, status: int, arguments: str = "{}") -> Recording:
        run.call(f"{number}", arguments).finish()
        run.add(entries.ServiceRequest, number, "https://b.example", "POST", "/pay", "{}")
        return run.add(entries.ServiceReply, number, status, "", "" if status else "closed")

    given = '{"n": 2}'
    for status, arguments, finds in (201, given, 1), (201, "{}", 0), (503, given, 0), (0, given, 1):
        run = paying(Recording().prompt().request([GO]), 1, 201).ended(Outcome.FAILED)
        run.prompt("Next.").request([GO, said("", "1"), returned("1"), NEXT])
        paying(run, 2, status, arguments).stop().ended(Outcome.ABORTED).prompt("Last.")
        run.request([GO, said("", "1"), returned("1"), LAST])
        subject = Subject(mutating={"https://b.example"})
        assert len(run.found(changes_of_broken_runs_kept, subject)) == finds


def test_a_request_that_has_all_but_the_newest_change_has_lost_it() -> None:
    looked: list[Message] = [GO, said("", "a"), returned("a")]
    run = asked().replied("", "a").request(looked).call("b", name="pay").finish()
    run.add(entries.ToolResult, "b", "pay", "paid").stop().ended(Outcome.ABORTED).prompt("Next.")
    run.request([*looked, NEXT])
    assert len(run.found(changes_of_broken_runs_kept, Subject(mutating={"pay"}))) == 1


def test_the_result_of_a_question_is_no_request_to_continue() -> None:
    run = asked().call("a", name="ask").finish().ended().prompt("Half.")
    run.request([GO, said("", "a"), returned("a", "Half.")]).text("Some words")
    run.finish(FinishReason.LENGTH).ended(Outcome.FAILED).prompt("Next.")
    run.request([GO, said("", "a"), returned("a", "Next.")]).replied("You owe 19.")
    assert run.ended(text="You owe 19.").found(continued_answers_are_whole) == []


@pytest.mark.parametrize(("chars", "finds"), [(100, 1), (6_000, 0)])
def test_a_long_prompt_may_leave_no_room_for_the_others(chars: int, finds: int) -> None:
    text = "x" * chars
    run = asked().replied("Yes.").ended(text="Yes.").prompt(text).request([UserMessage(text)])
    assert len(kept(run.replied("No.").ended(text="No."))) == finds


@pytest.mark.parametrize(("chars", "finds"), [(100, 1), (6_000, 0)])
def test_a_long_answer_may_go_with_its_prompt(chars: int, finds: int) -> None:
    text = "x" * chars
    run = asked().replied(text).ended(text=text).prompt("Next.").request([NEXT])
    assert len(kept(run.replied("No.").ended(text="No."))) == finds


@pytest.mark.parametrize(("chars", "finds"), [(100, 1), (6_000, 0)])
def test_a_long_call_may_go_with_its_prompt(chars: int, finds: int) -> None:
    called = AssistantMessage("", (ToolCall("a", "look", f'{{"at": "{"x" * chars}"}}'),))
    run = asked().replied("", "a").request([GO, called, returned("a")])
    run.replied("Yes.").ended(text="Yes.").prompt("Next.").request([NEXT])
    assert len(kept(run.replied("No.").ended(text="No."))) == finds


@pytest.mark.parametrize(("seconds", "finds"), [(60, 1), (3_600, 0)])
def test_a_session_may_end_while_nobody_says_anything(seconds: int, finds: int) -> None:
    run = asked().replied("Yes.").ended(text="Yes.").after(seconds).prompt("Next.")
    run.request([NEXT]).replied("No.")
    assert len(kept(run.ended(text="No."))) == finds


@pytest.mark.parametrize(("seconds", "finds"), [(60, 1), (3_600, 0)])
def test_a_session_that_has_ended_is_not_gone_on_with(seconds: int, finds: int) -> None:
    yes = said("Yes.")
    run = asked().replied("Yes.").ended(text="Yes.").prompt("Next.").request([GO, yes, NEXT])
    run.replied("Yes.").ended(text="Yes.").after(seconds).prompt("Later.")
    run.request([UserMessage("Later.")]).failed(400).ended(Outcome.FAILED).prompt("Last.")
    run.request([LAST]).replied("No.")
    assert bool(kept(run.ended(text="No."))) == bool(finds)


def test_a_prompt_without_a_name_is_of_nobody_else() -> None:
    run = asked().replied("Yes.").ended(text="Yes.").prompt("ann: Who?")
    run.request([UserMessage("Who?")]).replied("No.")
    assert kept(run.ended(text="No.")) == []


def test_of_several_agents_some_need_no_conversation() -> None:
    run = asked().replied("Yes.").ended(text="Yes.").prompt("Next.").request([GO, YES, NEXT])
    run.replied("No.").ended(text="No.").prompt("Do it.").request([LAST], system_prompt="Do.")
    assert kept(run.replied("Done.").ended(text="Done.")) == []


def test_a_failed_run_shows_no_request_for_the_answer() -> None:
    def judged(run: Recording, page: str = "A page.") -> Recording:
        return run.request([UserMessage(page)], system_prompt="Judge.").replied("yes")

    run = judged(Recording().prompt()).request([GO]).failed(400).ended(Outcome.FAILED, "yes")
    run.prompt("Next.").request([NEXT]).replied("Yes.").ended(text="Yes.").prompt("Last.")
    run = judged(run, "Another page.")
    assert kept(run.request([NEXT, YES, LAST]).replied("No.").ended(text="No.")) == []


def test_a_prompt_of_a_function_goes_on_with_its_own_requests() -> None:
    run = asked().replied("Yes.").ended(text="Yes.")
    for prompt in (NEXT, LAST):
        run.prompt(prompt.text).request([prompt], system_prompt="Sort.").replied("", "a")
        run.request([prompt, said("", "a"), returned("a")], system_prompt="Answer.").replied("Yes.")
        run.ended(text="Yes.")
    assert run.found(conversation_kept_between_prompts) == []


@pytest.mark.parametrize(("name", "found"), [("ann", 1), ("bob", 0)])
def test_each_user_whose_name_is_before_the_prompt_has_a_conversation(
    name: str, found: int
) -> None:
    first, second = "ann: Go.", f"{name}: Next."
    run = Recording().prompt(first).request([UserMessage(first)]).replied("Yes.").ended(text="Yes.")
    run.prompt(second).request([UserMessage(second)]).replied("No.").ended(text="No.")
    judged = run.found(conversation_kept_between_prompts, Subject(is_instance=True))
    assert len(judged) == found


@pytest.mark.parametrize(("invariant", "run", "why"), BAD)
def test_a_message_that_is_lost_or_late_is_found(
    invariant: Invariant, run: Recording, why: str
) -> None:
    (found,) = run.found(invariant)
    assert why in found


@pytest.mark.parametrize(
    "invariant",
    [queued_messages_delivered, conversation_kept_between_prompts],
)
@pytest.mark.parametrize(
    "run",
    [
        queued().request([GO, YES, ONE, TWO]).replied("Yes.").ended(),
        queued().request([GO, YES, UserMessage("One?\n\nTwo?")]).replied("Yes.").ended(),
        queued().request([GO, YES, ONE]).replied("Yes.").request([GO, YES, ONE, YES, TWO])
         .replied("Yes.").ended(),
        queued().ended().prompt("One?").request([ONE]).replied("Yes.").ended().prompt("Two?")
         .request([TWO]).replied("Yes.").ended(),
        asked().queued("Two?", Queue.FOLLOW_UP).queued("One?").replied("Yes.")
         .request([GO, YES, ONE, TWO]).replied("Yes.").ended(),
        queued()
        .stop()
        .ended(Outcome.ABORTED)  # the agent had taken the first message
        .prompt("Two?")
        .request([GO, YES, ONE, TWO])
        .replied("Yes.")
        .ended(),
        asked().queued("One?").stop().ended(Outcome.ABORTED),
        # A run after the abort is completed without a request, so no request lacks the messages.
        queued().stop().ended(Outcome.ABORTED).prompt("Next.").ended(),
        # The messages that an aborted run may have taken are the next prompts all the same.
        queued().stop().ended(Outcome.ABORTED).prompt("One?").request([ONE])
         .queued("Three?", Queue.FOLLOW_UP).replied("Yes.").ended().prompt("Two?").request([TWO])
         .replied("Yes.").ended().prompt("Three?").request([UserMessage("Three?")]).replied("Yes.")
         .ended(),
        # An agent that begins anew had taken the first message, or both, when the abort came.
        Recording().prompt().queued("One?").queued("Two?").stop().ended(Outcome.ABORTED)
         .prompt("Two?").request([TWO]).replied("Yes.").ended(),
        queued().stop().ended(Outcome.ABORTED).prompt("Go.").request([GO]).queued("Three?")
         .replied("Yes.").request([GO, YES, UserMessage("Three?")]).replied("Yes.").ended(),
        asked().replied("Yes.").ended().queued("One?"),
        asked().replied("Yes.").ended().queued("One?").prompt("Next.").request([GO, YES, NEXT])
         .replied("Yes.").request([GO, YES, NEXT, YES, ONE]).replied("Yes.").ended(),
        asked().replied("Yes.").ended().prompt("Next.").request([NEXT]).replied("Yes.").ended()
         .prompt("Last.").request([LAST]).replied("Yes.").ended(),
        queued().ended(Outcome.ABORTED).prompt("Next.").request([GO, YES, ONE, TWO, NEXT])
         .replied("Yes.").ended(),
        # A prompt that has failed may go, and the next one is kept.
        asked().failed().ended(Outcome.FAILED).prompt("Next.").request([NEXT]).replied("Yes.")
         .ended().prompt("Last.").request([NEXT, YES, LAST]),
    ],
)  # fmt: skip
def test_a_message_that_arrives_is_not_found(invariant: Invariant, run: Recording) -> None:
    assert run.found(invariant) == []


def test_a_conversation_that_goes_on_has_the_answer_before_its_prompt() -> None:
    (found,) = answered().request([GO, NEXT]).found(conversation_kept_between_prompts)
    assert found == "request 2 lacks the answer before its prompt: 'Yes.'"
    said_by_user = answered().request([GO, UserMessage("Yes."), NEXT])
    assert said_by_user.found(conversation_kept_between_prompts)


@pytest.mark.parametrize(
    "run",
    [
        answered().request([GO, YES, NEXT]),
        answered().request([GO, said("They said: Yes. Well."), NEXT]),
        answered(" ").request([GO, NEXT]),
        answered(outcome=Outcome.ABORTED).request([GO, NEXT]),
        answered().request([NEXT]),
        asked().text("Ye").finish(FinishReason.LENGTH).ended().prompt("Next.").request([GO, NEXT]),
    ],
)
def test_a_conversation_may_lack_what_was_no_answer(run: Recording) -> None:
    assert run.found(conversation_kept_between_prompts) == []


@pytest.mark.parametrize(
    "run",
    [
        continued("The first and the last."),
        continued("and the last.", asks="Too long: answer in five words."),
        continued("It is done."),
        continued("and the last.", asks="It was cut off. Be shorter.", keeps=False),
        continued("and the last.", asks="It was cut off.\nWrite it again, much shorter."),
    ],
)
def test_a_continued_answer_may_be_joined_replaced_or_told_in_own_words(run: Recording) -> None:
    assert not run.found(continued_answers_are_whole)


TOO_LONG = "prompt is too long"


@pytest.mark.parametrize(("words", "finds"), [("no", 1), (TOO_LONG, 0)])
def test_an_agent_may_drop_what_the_model_has_called_too_long(words: str, finds: int) -> None:
    run = asked().call("a", name="pay").finish().add(entries.ToolResult, "a", "pay", "paid")
    run.request([GO, said("", "a"), returned("a")]).failed(400, words=words)
    run.ended(Outcome.FAILED).prompt("Next.").request([NEXT])
    assert len(run.found(changes_of_broken_runs_kept, INSTANCE)) == finds
    run = answered().request([GO, YES, NEXT]).failed(400, words=words).request([NEXT])
    run.replied("No.").ended(text="No.").prompt("Last.").request([LAST]).replied("So.")
    assert len(kept(run.ended(text="So."))) == finds


@pytest.mark.parametrize(("fails", "finds"), [(True, 0), (False, 1)])
def test_a_failure_that_is_told_as_the_answer_completes_no_prompt(
    finds: int, *, fails: bool
) -> None:
    run = asked()
    run = run.failed(400).ended(text="Sorry.") if fails else run.replied("Yes.").ended(text="Yes.")
    run.prompt("Next.").request([NEXT]).replied("No.").ended(text="No.").prompt("Last.")
    run.request([NEXT, said("No."), LAST]).replied("So.").ended(text="So.")
    assert len(run.found(conversation_kept_between_prompts)) == finds


@pytest.mark.parametrize(("long", "finds"), [("Short.", 1), ("Long. " * 900, 0)])
def test_a_long_prompt_leaves_no_room_for_those_before_it(long: str, finds: int) -> None:
    run = answered().request([GO, YES, NEXT]).replied("No.").ended(text="No.")
    run.prompt(long).request([UserMessage(long)]).replied("So.").ended(text="So.")
    run.prompt("Next.").request([NEXT]).replied("Yes.").ended(text="Yes.")
    assert len(kept(run)) == finds


@pytest.mark.parametrize(
    ("first", "then", "finds"),
    [(ONE, ONE, 0), (GO, GO, 1), (UserMessage("Sum up: One?"), GO, 1), (GO, ONE, 0)],
)
def test_a_message_may_first_be_in_a_request_for_a_plan(
    first: Message, then: Message, finds: int
) -> None:
    run, history = asked().replied("", "a").queued("One?"), [*LOOKED]
    run.request([*history, first], tools=[]).replied("Plan.")
    run.request([*history, then]).replied("Yes.").ended()
    run.prompt("Next.").request([*history, then, YES, NEXT])
    assert len(run.found(queued_messages_delivered)) == finds


def test_a_plan_for_a_message_is_none_for_the_same_message_later_on() -> None:
    run, history = asked().replied("", "a").queued("One?"), [*LOOKED, ONE]
    run.request(history, tools=[]).replied("Plan.").request(history).replied("", "b")
    run.queued("One?").request([*history, said("", "b"), returned("b")]).replied("Yes.").ended()
    run.add(entries.Footer)
    assert run.found(queued_messages_delivered) == [
        "'One?' was taken from the queue, and no request has it"
    ]
