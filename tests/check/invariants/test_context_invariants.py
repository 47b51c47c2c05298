import copy
from itertools import product
from typing import Any

import msgspec
import pytest
from incases import in_cases
from recording import Recording, of_machine, returned, said

from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.requests import (
    newest_user_message_sent,
    no_duplicate_messages,
    no_failed_replies_in_context,
    no_incomplete_replies_in_context,
    replies_with_calls_kept,
)
from simloop.check.invariants.subject import Subject
from simloop.check.invariants.tools import sent_result_matches_tool_result
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.policies import ReplyReading
from simloop.messages import (
    AssistantMessage,
    FinishReason,
    Message,
    Outcome,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from simloop.trace import entries

GO, MORE = UserMessage("Go."), UserMessage("And?")
LOOKED: list[Message] = [GO, said("I look.", "a"), returned("a")]
ALL = [
    newest_user_message_sent,
    no_failed_replies_in_context,
    no_incomplete_replies_in_context,
    replies_with_calls_kept,
]
OF_AGENTS = [
    newest_user_message_sent,
    no_failed_replies_in_context,
    no_incomplete_replies_in_context,
    no_duplicate_messages,
    replies_with_calls_kept,
    sent_result_matches_tool_result,
]


def asked() -> Recording:
    return Recording().prompt().request([GO])


def looked() -> Recording:
    """A run whose tool has returned; the machine has answered its call."""
    run = asked().replied("I look.", "a").started("a").result("a")
    return run.answered("a")


def compacted(run: Recording) -> Recording:
    return run.add(entries.Compaction, False, "summarise", 90, 10, 2)  # noqa: FBT003


BAD: list[tuple[Invariant, Recording, str]] = [
    (newest_user_message_sent, Recording().prompt("Stop.").request([GO]), "user's message 'Stop.'"),
    (newest_user_message_sent, Recording().prompt("Let us go.").request([UserMessage("o.")]),
     "'Let us go.'"),
    (newest_user_message_sent,
     asked().replied("Done.").ended().prompt("And?").request([GO, said("Done."), GO]),
     "user's message 'And?'"),
    (newest_user_message_sent,
     compacted(looked().request(LOOKED)).request([SummaryMessage("They looked."), *LOOKED[1:]]),
     "user's message 'Go.'"),
    (replies_with_calls_kept, looked().request([GO, MORE]), "lacks the reply to the one before it"),
    (replies_with_calls_kept,
     asked().replied("I look.", "a").started("own-1").ended().prompt().request([GO, MORE]),
     "lacks the reply to the one before it"),
    (replies_with_calls_kept, looked().request([GO, said("", "a"), returned("a")]),
     "has the reply '', and the model said 'I look.'"),
    (replies_with_calls_kept,
     looked().request([GO, said("I look.", "a", arguments='{"x":1}'), returned("a")]),
     "has other calls"),
    (no_failed_replies_in_context, asked().text("Half").failed().request([GO, said("Half")]),
     "has the reply 'Half'"),
    (no_failed_replies_in_context,
     asked().text("Half").failed().request([GO]).replied("Half a day.").ended().prompt("And?")
     .request([GO, said("HalfHalf a day."), MORE]), "has the reply 'HalfHalf a day.'"),
    (no_incomplete_replies_in_context, asked().text("Half").cut().request([GO, said("Half")]),
     "the reply 'Half'"),
    (no_incomplete_replies_in_context, asked().text("Half").request([GO, said("Half"), MORE]),
     "the reply 'Half'"),
    (sent_result_matches_tool_result,
     looked().request([GO, said("I look.", "a"), returned("a", "nothing")]),
     "the result of call 'a' is 'nothing', and its tool returned 'seen'"),
    (no_duplicate_messages, Recording().prompt().request([GO, GO]), "has 'Go.' 2 times"),
    (no_duplicate_messages,
     asked().replied("Yes.").queued("And?").request([GO, said("Yes."), MORE]).replied("No.")
     .request([GO, said("Yes."), MORE, said("No."), MORE]), "has 'And?' 2 times"),
    (no_duplicate_messages,
     asked().replied("Yes.").ended().prompt("And?").request([GO, said("Yes."), said("Yes."), MORE]),
     "has 'Yes.' 2 times"),
]  # fmt: skip


@in_cases(BAD)
def test_a_context_that_is_not_what_was_said_is_found(
    invariant: Invariant, run: Recording, why: str
) -> None:
    subjects = [of_machine()] if invariant in ALL else []
    subjects += [Subject()] if invariant in OF_AGENTS else []
    for subject in subjects:
        (found,) = run.found(invariant, subject)
        assert why in found


GOOD = [
    asked().call("a").started("a").result("a").finish(FinishReason.INTERRUPTED).answered("a")
     .request([GO]),
    asked().queued("And?").replied("Yes.").ended().prompt("So?")
     .request([GO, said("Yes."), UserMessage("So?")]).replied("No.")
     .request([GO, said("Yes."), UserMessage("So?"), said("No."), MORE]).replied("So.")
     .add(entries.Compaction, strategy="", forced=True, tokens_before=9, tokens_after=1)
     .request([said("No."), MORE]),
    compacted(Recording().prompt().queued("And?").stop().ended().prompt("So?")
     .request([GO, MORE, UserMessage("So?")]).failed()).request([UserMessage("So?")]),
    Recording().prompt("And?").request([MORE]).queued("So?").queued("Well?")
     .request([MORE, UserMessage("So?")]).replied("Yes.")
     .request([said("..."), MORE, UserMessage("So?"), said("Yes.")])
     .request([UserMessage("So?"), said("Yes.")]),
    looked().request(LOOKED).replied("Done.").ended().prompt("And?")
     .request([*LOOKED, said("Done."), MORE]),
    asked().text("Half").failed().request([GO]).replied("Half").queued("And?")
     .request([GO, said("Half"), MORE]),
    asked().text("Half").stop().ended().prompt("And?").request([GO, said("Half"), MORE]),
    asked().queued("And?").failed().request([GO, MORE]),
    looked().request([*LOOKED, said("The steps are used up.")]).failed().request(LOOKED),
    Recording().prompt().request([GO]).replied("Yes.").ended().prompt()
     .request([GO, said("Yes."), GO]),
    compacted(looked().request(LOOKED)).request([SummaryMessage("They looked."), GO]),
    asked().request([UserMessage("Summarise.")], purpose="summary").text("Short").cut().failed()
     .request([GO], tools=[]),
]  # fmt: skip


@in_cases(product(dict.fromkeys([*ALL, *OF_AGENTS]), GOOD))
def test_a_context_that_is_what_was_said_is_not_found(invariant: Invariant, run: Recording) -> None:
    if invariant in ALL:
        assert run.found(invariant, of_machine()) == []
    if invariant in OF_AGENTS:
        assert run.found(invariant) == []


@pytest.mark.parametrize("invariant", OF_AGENTS)
def test_an_agent_may_shorten_its_context_and_add_words_of_its_own(invariant: Invariant) -> None:
    run = looked().request([UserMessage("You are asked: Go."), *LOOKED[1:]])
    run.replied("", "b").started("b").result("b", "x" * 2000)
    short = ToolMessage("b", "xx (cut)")
    run.request([GO, said("", "b"), short, UserMessage("Go on.")]).replied("Done.")
    run.request([UserMessage("A task for another agent.")]).replied("Fine.")
    assert run.ended(text="I am done.").found(invariant) == []


def test_a_summary_of_an_agent_without_tools_may_come_before_the_prompt() -> None:
    def summed(*messages: Message) -> Recording:
        run = Recording().prompt().request([GO], tools=[]).replied("Yes.").ended().prompt("And?")
        run.request([UserMessage("Sum up: Go.")], tools=[]).replied("In short.")
        return run.request([*messages], tools=[]).replied("No.").ended()

    assert summed(UserMessage("In short."), MORE).found(newest_user_message_sent) == []
    (found,) = summed(UserMessage("In short.")).found(newest_user_message_sent)
    assert found == "request 2 does not hold the user's message 'And?'"
    alone = Recording().prompt().request([MORE], tools=[]).replied("Yes.")
    assert alone.found(newest_user_message_sent) == []
    assert alone.ended().found(newest_user_message_sent)


@pytest.mark.parametrize(("what", "finds"), [("thread", 0), ("program", 1)])
def test_work_that_a_run_has_left_behind_repeats_its_request(what: str, finds: int) -> None:
    run = asked().replied("Yes.").ended().add(entries.LeftBehind, what, "", "bot.py:9")
    assert len(run.prompt("And?").request([GO]).found(newest_user_message_sent)) == finds


def test_a_planner_without_tools_holds_the_prompt_for_its_workers() -> None:
    run = asked().replied("Yes.").ended().prompt("And?").request([MORE], tools=[]).replied("Plan.")
    assert run.request([UserMessage("A part.")]).found(newest_user_message_sent) == []


@pytest.mark.parametrize(
    ("sent", "finds"),
    [([UserMessage("So far: Plan.")], 1), ([UserMessage("So far: Plan."), MORE], 0),
     ([UserMessage("Plan.")], 0)],
)  # fmt: skip
def test_a_summary_does_not_take_the_place_of_a_prompt(sent: list[Message], finds: int) -> None:
    """A reply that is sent by itself says the prompt in other words."""
    run = asked().replied("Yes.").ended().prompt("And?")
    run.request([GO, MORE, UserMessage("Sum up.")], tools=[]).replied("Plan.")
    found = run.request(sent).found(newest_user_message_sent)
    assert found == ["request 3 does not hold the user's message 'And?'"] * finds


@pytest.mark.parametrize("form", ['{"said": "F\\u00fcr <A & B>"}', "<p>Für &lt;A &amp; B&gt;</p>"])
def test_a_prompt_may_be_a_part_of_json_or_of_xml(form: str) -> None:
    run = Recording().prompt("Für <A & B>").request([UserMessage(form)])
    assert run.found(newest_user_message_sent) == []


@pytest.mark.parametrize(
    ("note", "mutating", "keys", "finds"),
    [
        ("Nothing was done.", {"look"}, {}, 1),
        ("Nothing was done.", {"look"}, {"is_error": True}, 0),
        ("Nothing was done.", {"look"}, {"returns": False}, 0),  # the stop has ended its tool
        ("Nothing was done.", {"look"}, {"returns": False, "sends": "POST"}, 1),
        ("Nothing was done.", {"pay"}, {}, 0),
        ("Nothing was done.", {"pay", "https://b.example"}, {"sends": "POST"}, 1),
        ("Nothing was done.", {"pay", "https://b.example"}, {"sends": "GET"}, 0),
        ("Nothing was done.", {"pay", "https://b.example"}, {"sent": True}, 0),
        ("Nothing was done.", {"pay"}, {"sends": "POST"}, 0),
        ("Nothing was done.", None, {}, 1),
        ("It was a look.", {"look"}, {}, 0),
        ("Seen: Oslo.", {"look"}, {}, 0),
        ("", {"pay"}, {}, 1),
    ],
)
def test_a_note_tells_what_a_stopped_run_has_changed(
    note: str, mutating: set[str] | None, keys: dict[str, Any], finds: int
) -> None:
    run = Recording().prompt().request([GO])
    if keys.get("sent"):  # before the reply that is stopped
        run.add(entries.ServiceRequest, 9, "https://b.example", "POST", "/pay")
        run.failed(503).request([GO])
    run.call("a", '{"in": "Oslo"}').finish().started("a", '{"in": "Oslo"}')
    if method := keys.get("sends"):
        run.add(entries.ServiceRequest, 1, "https://b.example", method, "/pay")
    if keys.get("returns", True):
        run.result("a", is_error=keys.get("is_error", False))
    run.ended(Outcome.FAILED).prompt("And?")
    run.request([GO, *[AssistantMessage(note)] * bool(note), MORE])
    assert len(run.found(replies_with_calls_kept, Subject(mutating=mutating))) == finds


@pytest.mark.parametrize(("first", "finds"), [("{", 0), ("{}", 1)])
def test_calls_without_json_may_be_sent_behind_the_others(first: str, finds: int) -> None:
    one, other = ToolCall("a", "look", first), ToolCall("b", "find", '{"n": 1}')
    run = asked().call("a", first).call("b", other.arguments, "find").finish()
    sent = AssistantMessage("", (other, one))
    run.request([GO, sent, returned("b"), returned("a")])
    assert len(run.found(replies_with_calls_kept)) == finds


PLAN = '{"steps": ["Buy milk"]}'


@pytest.mark.parametrize(("text", "finds"), [("1. Buy milk", 0), ("Do it.", 1)])
def test_a_prompt_may_agree_to_a_proposal_that_the_request_has(text: str, finds: int) -> None:
    run = asked().replied(PLAN).ended(text="Buy milk. Shall I? (yes/no)").prompt("yes")
    run.request([UserMessage(text)], system_prompt="Carry it out.")
    assert len(run.found(newest_user_message_sent)) == finds


def test_a_proposal_stays_when_the_run_after_it_fails() -> None:
    run = asked().replied(PLAN).ended(text="Buy milk. Shall I? (yes/no)").prompt("More.")
    run.request([UserMessage("More.")]).replied("?").ended(Outcome.FAILED).prompt("yes")
    run.request([UserMessage("Do this: Buy milk.")], system_prompt="Do.").replied("Done.")
    assert run.ended(text="Done.").found(newest_user_message_sent) == []


def test_an_agent_may_strip_the_name_before_a_prompt() -> None:
    run = Recording().prompt("ann: Go.").request([GO])
    assert run.found(newest_user_message_sent) == []


def test_an_agent_may_not_have_got_a_result_that_came_as_it_was_to_stop() -> None:
    def run(seconds_before: float) -> Recording:
        made = asked().replied("", "a", "b").started("a").started("b").result("a")
        made.after(seconds_before).stop().result("b").ended().prompt("And?")
        lost = [returned("a", "aborted"), returned("b", "aborted")]
        return made.request([GO, said("", "a", "b"), *lost, MORE])

    assert run(0).found(sent_result_matches_tool_result) == []
    assert run(1).found(sent_result_matches_tool_result)


@pytest.mark.parametrize(
    ("begins", "waits_s", "text", "finds"),
    [
        (True, 1, "It is not known whether it was done.", 1),
        (True, 1, "I saw it.", 0),
        (True, 0, "It is not known whether it was done.", 0),  # they may have begun at once
        (False, 1, "It is not known whether it was done.", 0),
    ],
)
def test_who_has_begun_with_the_next_call_knows_the_result_before_it(
    waits_s: int, text: str, finds: int, *, begins: bool
) -> None:
    run = asked().replied("", "a", "b").add(entries.ToolStarted, "a", "look", "{}", own=True)
    run.after(waits_s).result("a")
    if begins:
        run.add(entries.ToolStarted, "b", "look", "{}", own=True)
    run.stop().ended().prompt("And?")
    lost = [returned("a", text), returned("b", "It is not known whether it was done.")]
    run.request([GO, said("", "a", "b"), *lost, MORE])
    assert len(run.found(sent_result_matches_tool_result)) == finds


def test_who_runs_several_tools_may_not_know_which_of_them_has_ended() -> None:
    run = asked().replied("", "a", "b", "c").started("a").started("b").after(1).result("a")
    run.started("c")
    run.stop().ended().prompt("And?")
    lost = [returned(each, "It is not known whether it was done.") for each in "abc"]
    run.request([GO, said("", "a", "b", "c"), *lost, MORE])
    assert run.found(sent_result_matches_tool_result) == []


def test_a_policy_may_keep_failed_replies() -> None:
    subject = of_machine()
    assert subject.settings is not None
    subject.settings = msgspec.structs.replace(
        subject.settings, replies=ReplyReading(keep_failed=True)
    )
    run = asked().text("Half").failed().request([GO, said("Half")])
    assert run.found(no_failed_replies_in_context, subject) == []
    assert run.found(no_failed_replies_in_context, Subject())


def test_an_agent_that_breaks_off_its_tools_for_a_message_may_miss_that_one_has_failed() -> None:
    def run(*, is_error: bool, is_first: bool = False) -> Recording:
        made = asked().replied("", "a").started("a")
        made = made if is_first else made.queued("And?")
        made.result("a", "Error: late", is_error=is_error)
        made = made.queued("And?") if is_first else made
        return made.request([GO, said("", "a"), returned("a", "broken off"), MORE])

    assert run(is_error=True).found(sent_result_matches_tool_result) == []
    assert run(is_error=True, is_first=True).found(sent_result_matches_tool_result) == []
    assert run(is_error=False).found(sent_result_matches_tool_result)


def test_an_agent_may_clear_a_result_that_the_model_has_seen() -> None:
    cleared: list[Message] = [GO, said("I look.", "a"), returned("a", "[cleared]"), MORE]
    assert looked().request(LOOKED).request(cleared).found(sent_result_matches_tool_result) == []
    assert looked().request(cleared).found(sent_result_matches_tool_result)


def test_a_result_in_a_request_counts_as_that_of_a_tool_that_nobody_recorded() -> None:
    run = asked().replied("I look.", "a")
    changed: list[Message] = [GO, said("", "a"), returned("a")]
    (found,) = run.request(changed).found(replies_with_calls_kept)
    assert "has the reply '', and the model said 'I look.'" in found
    rights: list[list[Message]] = [
        [GO, said("I look.", "a"), returned("a")], [GO, MORE],
        [GO, said(" I look.\n", "a"), returned("a")],
    ]  # fmt: skip
    for right in rights:
        assert asked().replied("I look.", "a").request(right).found(replies_with_calls_kept) == []


def test_a_call_that_breaks_off_may_look_whole_to_an_agent() -> None:
    run = asked().text("I look.").call("a").add(entries.ToolCallDelta, 1, "b", "look", "")
    sent: list[Message] = [GO, said("I look.", "a", "b"), returned("a"), returned("b")]
    assert run.finish(FinishReason.TOOL_CALLS).request(sent).found(replies_with_calls_kept) == []


@pytest.mark.parametrize(
    ("sent", "is_kept"),
    [
        ('{"path": "a", "lines": [1, 2]}', True),
        ('{"lines":[1,2],"path":"a"}', True),
        ('{"path":"b","lines":[1,2]}', False),
        ('{"path":"a","lines":[1,2]', False),
    ],
)
def test_arguments_that_an_agent_has_parsed_and_written_again_are_the_same(
    sent: str, *, is_kept: bool
) -> None:
    made = asked().text("I look.").call("a", '{"path":"a","lines":[1,2]}')
    run = made.finish(FinishReason.TOOL_CALLS)
    run = run.request([GO, said("I look.", "a", arguments=sent), returned("a")])
    assert (run.found(replies_with_calls_kept) == []) is is_kept


def test_a_note_after_a_stop_may_say_what_ran() -> None:
    run = asked().replied("", "a").started("a").stop().ended(Outcome.ABORTED).prompt("And?")
    for note, finds in (("I was stopped after a call of look.", 0), ("I was stopped.", 1)):
        again = copy.deepcopy(run).request([GO, said(note), MORE])
        assert len(again.found(replies_with_calls_kept)) == finds


@pytest.mark.parametrize(("system", "finds"), [("The list: eggs", 0), ("It is Monday.", 1)])
def test_a_system_prompt_may_show_what_a_call_has_changed(system: str, finds: int) -> None:
    run = asked().call("a", '{"what":"eggs"}').finish(FinishReason.TOOL_CALLS)
    run.started("a", '{"what":"eggs"}').stop().ended(Outcome.ABORTED).prompt("And?")
    run.request([GO, MORE], system_prompt=system)
    assert len(run.found(replies_with_calls_kept)) == finds


def test_a_message_may_lack_the_name_of_its_user() -> None:
    run = Recording().prompt("ann: Who leads?")
    run.request([UserMessage("Who leads?"), said("", "a"), returned("a")])
    assert run.found(newest_user_message_sent) == []


@pytest.mark.parametrize(("sent", "finds"), [("I am [mail]. And you?", 0), ("I am [mail].", 1)])
def test_an_agent_may_mask_addresses_and_long_numbers(sent: str, finds: int) -> None:
    run = Recording().prompt("I am ada@example.org. And you?").request([UserMessage(sent)])
    assert len(run.ended().found(newest_user_message_sent)) == finds


@pytest.mark.parametrize(("end", "finds"), [("\n\nThe order is refused.", 0), (" is kept.", 1)])
def test_the_text_of_a_retry_may_be_that_of_the_failed_reply(end: str, finds: int) -> None:
    run = asked().text("It").failed().request([GO]).replied("It").ended().prompt("And?")
    run.request([GO, said(f"It{end}"), MORE])
    assert len(run.found(no_failed_replies_in_context)) == finds


def test_a_conversation_that_is_taken_up_again_has_each_message_once() -> None:
    yes, no, more = said("Yes."), said("No."), UserMessage("More.")
    run = asked().replied("Yes.").ended().prompt("And?").request([GO, yes, MORE]).replied("No.")
    run.ended().prompt("More.").request([MORE, no, more]).replied("No.").ended().prompt("More.")
    assert run.request([GO, yes, MORE, no, more, no, more]).found(no_duplicate_messages) == []


def test_a_tool_that_ran_for_an_earlier_reply_says_nothing_about_the_calls_of_a_later_one() -> None:
    run = looked().request([MORE]).replied("", "b").stop().ended().prompt().request([MORE, GO])
    assert run.found(replies_with_calls_kept) == []


@pytest.mark.parametrize(
    "invariant", [no_failed_replies_in_context, no_incomplete_replies_in_context]
)
def test_a_broken_reply_may_stay_if_its_tools_have_run_meanwhile(invariant: Invariant) -> None:
    def run(*, ran: bool) -> Recording:
        made = asked().text("I look.").call("a")
        made = made.result("a", "Error: unknown", is_error=True) if ran else made
        made = made.failed() if invariant is no_failed_replies_in_context else made.cut()
        return made.after(1).ended(Outcome.FAILED).prompt("And?").request([*LOOKED, MORE])

    assert run(ran=True).found(invariant) == []
    assert run(ran=False).found(invariant)


def test_the_first_of_two_replies_that_arrive_at_once_may_be_used() -> None:
    run = asked().text("Answer").request([GO]).text("Ans")
    run.add(entries.TextDelta, 1, ".").add(entries.Finish, 1, FinishReason.STOP, "")
    run.request([GO, said("Answer."), MORE])
    assert run.found(no_incomplete_replies_in_context) == []


def test_an_error_that_is_sent_as_none_is_found() -> None:
    run = asked().replied("", "a").started("a").result("a", "Error: no", is_error=True)
    sent: list[Message] = [GO, said("", "a"), ToolMessage("a", "Error: no")]
    assert run.request(sent).found(sent_result_matches_tool_result) == [
        "request 2: whether the result of call 'a' is an error has changed"
    ]


def test_a_failed_reply_may_stay_if_the_run_was_to_stop_before_the_loop_dealt_with_it() -> None:
    def run(seconds: float, *, waits: bool = False) -> Recording:
        made = asked().text("Half").failed()
        if waits:
            made.add(entries.Backoff, 1, 9, ErrorClass.SERVER)
        made.after(seconds).stop().ended(Outcome.ABORTED).prompt("And?")
        return made.request([GO, said("Half"), MORE])

    assert run(0).found(no_failed_replies_in_context) == []
    assert run(1).found(no_failed_replies_in_context)
    assert run(1).found(no_failed_replies_in_context, of_machine()) == []
    assert run(1, waits=True).found(no_failed_replies_in_context, of_machine())


def test_an_id_that_the_model_gave_twice_has_two_results() -> None:
    run = asked().replied("", "a", "a").started("a").result("a", "one").started("a")
    run.result("a", "two")
    sent: list[Message] = [GO, said("", "a", "a"), returned("a", "one"), returned("a", "two")]
    assert run.request(sent).found(sent_result_matches_tool_result) == []


def test_an_agent_whose_clean_up_may_have_been_cut_off_need_not_keep_the_reply() -> None:
    ran = asked().replied("I look.", "a").started("own-1").stop()
    assert ran.after(1).ended().prompt().request([GO, MORE]).found(replies_with_calls_kept) == []


def test_an_agent_that_ends_at_the_moment_of_a_stop_keeps_the_reply_whose_tool_ran() -> None:
    ran = asked().replied("I look.", "a").started("own-1").stop()
    (found,) = ran.ended().prompt().request([GO, MORE]).found(replies_with_calls_kept)
    assert "lacks the reply to the one before it" in found


@pytest.mark.parametrize(("sent", "is_kept"), [('{"a": 1}', True), ('{"a":2}', False)])
def test_arguments_that_are_no_json_may_be_sent_in_other_words(sent: str, is_kept: bool) -> None:  # noqa: FBT001
    for made, kept in (('{"a":1}', is_kept), ('{"a":', True)):
        run = Recording().prompt().request([GO]).call("a", made).finish(FinishReason.TOOL_CALLS)
        reply = AssistantMessage("", (ToolCall("a", "look", sent),))
        run.request([GO, reply, ToolMessage("a", "seen")])
        assert (run.found(replies_with_calls_kept) == []) is kept


@pytest.mark.parametrize(
    ("history", "finds"),
    [
        ([said("I look.", "a"), returned("a")], 1),
        ([GO, said("I look.", "a"), returned("a")], 0),
        ([said("", "z"), returned("z")], 0),  # it may be that of another agent
    ],
)
def test_a_history_that_is_cut_amid_a_turn_has_its_prompt(
    history: list[Message], finds: int
) -> None:
    run = looked().request(history).replied("Yes.").ended(text="Yes.")
    found = run.found(newest_user_message_sent)
    assert found == ["request 2 does not hold the user's message 'Go.'"] * finds


def test_a_prompt_may_be_sent_without_the_blanks_around_it() -> None:
    run = Recording().prompt(" Go.\n").request([GO])
    assert run.found(newest_user_message_sent) == []


@pytest.mark.parametrize(("ends", "finds"), [(True, 0), (False, 1)])
def test_a_turn_that_was_broken_off_may_be_told_by_its_calls_alone(
    finds: int, *, ends: bool
) -> None:
    run = looked().stop().ended(Outcome.ABORTED).prompt("More.") if ends else looked()
    run.request([GO, said("", "a"), returned("a"), MORE])
    assert len(run.found(replies_with_calls_kept)) == finds
    run = looked().stop().ended(Outcome.ABORTED).prompt("More.")
    run.request([GO, said("Other.", "a"), returned("a"), MORE])
    assert run.found(replies_with_calls_kept)


def test_a_summary_of_a_prompt_stands_for_no_prompt_before_messages_that_are_kept() -> None:
    kept: list[Message] = [said("I look.", "a"), returned("a")]
    for older, finds in ([], 0), (kept, 1):
        run = looked().request([GO, *kept]).replied("Yes.", "b").started("b").result("b")
        run.request([GO, UserMessage("Sum up.")], tools=[]).replied("In short.")
        newest = [*older, said("Yes.", "b"), returned("b")]
        run.request([UserMessage("So far: In short."), *newest]).replied("Done.").ended()
        assert len(run.found(newest_user_message_sent)) == finds
