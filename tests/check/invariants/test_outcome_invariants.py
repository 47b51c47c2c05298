import pytest
from recording import Recording, of_machine, returned, said

from simloop.check.invariants.decisions import (
    completed_after_a_complete_reply,
    completed_after_a_reply,
    completed_without_open_calls,
    run_text_matches_last_reply,
)
from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.subject import Subject
from simloop.kernel.limits import Limits
from simloop.messages import FinishReason, Message, Outcome, UserMessage
from simloop.trace import entries

GO, SHORTEN = UserMessage("Go."), UserMessage("Sum up.")


def asked() -> Recording:
    return Recording().prompt().request([GO])


CUT = asked().text("Half").finish(FinishReason.LENGTH)
BAD: list[tuple[Invariant, Recording, str]] = [
    (completed_after_a_reply, Recording().prompt().ended(), "no request was sent in it"),
    (completed_after_a_reply, asked().ended(), "its last model call, request 1, had not ended"),
    (completed_after_a_reply, asked().failed().ended(), "its last model call, request 1, failed"),
    (completed_after_a_reply, asked().text("Ha").cut().ended(text="Ha"),
     "the reply to request 1 ended without a finish reason"),
    (completed_after_a_complete_reply, CUT.ended(text="Half"),
     "the reply to request 1 ended with length"),
    (completed_without_open_calls, asked().replied("", "a").ended(),
     "the reply to request 1 calls tools"),
    (run_text_matches_last_reply,
     asked().replied("One.").request([GO]).replied("Two.").ended(text="One."),
     "and the last words of the model are 'Two.'"),
    (run_text_matches_last_reply,
     asked().replied("One.").ended(text="One.").prompt().request([GO]).ended(text="One."),
     "and the last words of the model are ''"),
]  # fmt: skip


@pytest.mark.parametrize(("invariant", "run", "why"), BAD)
@pytest.mark.parametrize("subject", [Subject, of_machine])
def test_an_end_that_is_not_as_it_says_is_found(
    invariant: Invariant, run: Recording, why: str, subject: type[Subject]
) -> None:
    (found,) = run.found(invariant, subject())
    assert why in found


def test_the_text_of_a_run_may_be_that_of_a_failed_reply_before_a_useless_one() -> None:
    run = asked().text("Hel").failed().after(1).request([GO]).finish()
    assert run.ended(Outcome.FAILED, "Hel").found(run_text_matches_last_reply) == []
    run = asked().replied("One.").request([GO]).replied("Two.")
    assert run.ended(Outcome.FAILED, "One.").found(run_text_matches_last_reply) == []


@pytest.mark.parametrize(("prompt", "finds"), [("Go.", 0), ("Next.", 1)])
@pytest.mark.parametrize("rule", [completed_after_a_reply, run_text_matches_last_reply])
def test_the_answer_to_a_prompt_may_be_remembered(rule: Invariant, prompt: str, finds: int) -> None:
    run = asked().replied("One.").ended(text="One.").prompt(prompt).ended(text="One.")
    assert len(run.found(rule)) == finds


@pytest.mark.parametrize("cut_again", [True, False])
def test_a_text_that_is_continued_may_begin_as_a_failed_reply_does(*, cut_again: bool) -> None:
    run = asked().text("Half").failed().after(1).request([GO])
    if cut_again:
        run.text("Half").finish(FinishReason.LENGTH).request([GO])
    run.replied(" done.").ended(text="Half done.")
    assert (run.found(run_text_matches_last_reply) == []) is cut_again


@pytest.mark.parametrize("sent_later", [True, False])
def test_the_first_of_two_replies_that_arrive_at_once_may_be_the_answer(
    *, sent_later: bool
) -> None:
    run = asked().text("One.") if sent_later else asked().text("One.").finish()
    run.request([GO]).text("Tw").after(1)
    if sent_later:
        run.add(entries.Finish, 1, FinishReason.STOP, "")
    run.ended(text="One.")
    for each in (completed_after_a_reply, run_text_matches_last_reply):
        assert (run.found(each) == []) is sent_later
        assert run.found(each, of_machine())


ALL = [
    completed_after_a_reply,
    completed_after_a_complete_reply,
    completed_without_open_calls,
    run_text_matches_last_reply,
]


@pytest.mark.parametrize("invariant", ALL)
@pytest.mark.parametrize(
    "run",
    [
        asked().replied("Done.").ended(text="Done."),
        asked().replied("I look.", "a").request([GO]).replied("Done.").ended(text="Done."),
        asked().text("Half").failed().request([GO]).replied("Done.").ended(text="Done."),
        asked().text("Half").cut().ended(Outcome.FAILED, text="Half"),
    ],
)
@pytest.mark.parametrize("subject", [Subject, of_machine])
def test_an_end_that_is_as_it_says_is_not_found(
    invariant: Invariant, run: Recording, subject: type[Subject]
) -> None:
    assert run.found(invariant, subject()) == []


@pytest.mark.parametrize("invariant", ALL)
def test_an_agent_may_say_in_its_own_words_that_it_ended_early(invariant: Invariant) -> None:
    for early in (asked().failed(), asked().replied("I look.", "a"), asked().cut()):
        assert early.ended(text="I give up.").found(invariant) == []


@pytest.mark.parametrize("text", [GO.text, returned("a").text])
def test_a_message_that_the_model_was_sent_is_no_answer(text: str) -> None:
    run = asked().replied("I look.", "a").request([GO, said("I look.", "a"), returned("a")])
    run.replied("I look.", "b")
    assert run.ended(text=text).found(completed_without_open_calls)


def test_a_result_that_no_reply_has_followed_may_be_the_answer() -> None:
    run = asked().replied("", "a").ended(text=returned("a").text)
    assert run.found(completed_without_open_calls) == []
    again = Recording().prompt().request([said("", "a"), returned("a"), GO]).replied("", "b")
    again.ended(text=returned("a").text)
    assert again.found(completed_without_open_calls) == [], "an earlier run has sent it"


def test_a_summary_amid_a_run_is_not_its_last_reply() -> None:
    run = asked().replied("I look.", "a").request([GO, SHORTEN], tools=()).replied("In short.")
    run.request([GO, said("I look.", "a"), returned("a")]).text("Half").finish(FinishReason.LENGTH)
    assert run.ended(text="Half").found(completed_after_a_complete_reply)


def test_a_request_that_offers_no_tools_is_not_judged_by_calls() -> None:
    told: list[Message] = [GO, said("I look.", "a"), returned("a")]
    run = asked().replied("I look.", "a").request(told, tools=()).replied("So far.", "b")
    assert run.ended(text="So far.").found(completed_without_open_calls) == []


def test_an_answer_to_a_request_without_tools_may_end_a_run() -> None:
    run = asked().replied("I look.", "a").request([GO, SHORTEN], tools=()).replied("Done.")
    assert run.ended(text="Done.").found(completed_without_open_calls) == []


def test_the_text_of_a_machine_is_never_lost() -> None:
    run = asked().replied("Done.").ended()
    assert run.found(run_text_matches_last_reply, of_machine())
    assert run.found(run_text_matches_last_reply) == [], "an agent may return None"


@pytest.mark.parametrize(("text", "finds"), [("", 0), ("Yes.", 0), ("Go.", 1)])
def test_a_text_in_the_arguments_of_the_last_call_is_an_answer(text: str, finds: int) -> None:
    run = asked().call("a", '{"text":"","more":["Yes."]}').finish()
    assert len(run.ended(text=text).found(completed_without_open_calls)) == finds


@pytest.mark.parametrize(
    ("word", "source", "finds"),
    [("refusal", "openai", 0), ("refusal", "anthropic", 1), ("content_filter", "openai", 1)],
)
def test_a_refusal_of_a_model_of_openai_is_a_text_for_the_user(
    word: str, source: str, finds: int
) -> None:
    run = asked().text("I cannot.").add(entries.Finish, 1, FinishReason.CONTENT_FILTER, word)
    found = run.ended(text="I cannot.").found(
        completed_after_a_complete_reply, Subject(source=source)
    )
    assert len(found) == finds
    empty = asked().add(entries.Finish, 1, FinishReason.CONTENT_FILTER, word).ended()
    assert empty.found(completed_after_a_complete_reply, Subject(source=source))


@pytest.mark.parametrize(
    ("text", "finds"),
    [
        ("Done.", 1), ("Thank you, your request has been taken care of.", 1),
        ("Everything is handled.", 1), ("The claim was dealt with.", 1), ("All is arranged.", 1),
        ("I booked the room.", 0), ("The room is booked; shall I continue?", 0),
        ("So far this was done: a room.", 0), ("All is done, but for the mail, which failed.", 0),
        ("All that could be done in 2 steps is done.", 0), ("Done: the limit of calls.", 0),
    ],
)  # fmt: skip
def test_a_run_that_its_limit_ends_does_not_say_that_all_is_done(text: str, finds: int) -> None:
    run = asked().replied("", "a").request([GO, said("", "a"), returned("a")]).replied("", "b")
    run.ended(text=text)
    for limits, most in ((Limits(max_steps=2), finds), (Limits(max_steps=3), 0), (None, 0)):
        assert len(run.found(completed_without_open_calls, Subject(limits=limits))) == most
