"""Invariants on how a run ends, and on the decisions of a machine after a reply.

Only the reply and the queued messages decide, because a user sees nothing else.
"""

from collections.abc import Callable, Iterator
from typing import Any

from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.requests import strings
from simloop.check.invariants.subject import PATTERNS, Course, Subject, tells
from simloop.kernel import effects, signals
from simloop.kernel.machine import Feature
from simloop.kernel.states import ClosingStep, Finished, ReplyFacts
from simloop.messages import AssistantMessage, FinishReason, Outcome, Queue, UserMessage, json_value
from simloop.trace.entries import Ended, Queued
from simloop.trace.facts import Facts, ReceivedReply

_BROKEN = (FinishReason.CONTENT_FILTER, FinishReason.ERROR)
_CUT = (FinishReason.LENGTH, FinishReason.INTERRUPTED, *_BROKEN)


def _replies(subject: Subject) -> list[ReceivedReply]:
    """Return the replies of the run.

    An agent may ask twice, take the first reply that ends and give up the other one. A reply to the
    second request that is given up so is left out.
    """
    facts = subject.facts
    replies = facts.main_replies[facts.earlier_replies :]
    if subject.machine is not None:
        return replies
    kept, ended_ns = [], 0
    for reply in replies:
        if reply.finish is not None:
            ended_ns = max(ended_ns, reply.at_ns)
        elif reply.sent_ns < ended_ns:
            continue
        kept.append(reply)
    return kept


def _conversations(subject: Subject) -> list[list[ReceivedReply]]:
    """Return the replies of the run by conversation: the program may have several agents."""
    found: dict[int, list[ReceivedReply]] = {}
    for reply in _replies(subject):
        found.setdefault(reply.conversation, []).append(reply)
    return [*found.values()]


def _completed(subject: Subject, entry: Ended, flaw: Callable[[ReceivedReply | None], str]) -> str:
    """Return why a completed run must not be completed, by its last reply, or an empty text.

    An agent that ends with words other than the model's reports its own end, and is not judged,
    unless the words are a message of the run, such as a result that the model was sent. A word in
    the arguments of a call may be the answer. A summary amid the conversation is no last reply.
    """
    facts = subject.facts
    is_remembered = subject.machine is None and _is_remembered(facts, entry.text)
    if entry.outcome is not Outcome.COMPLETED or is_remembered:
        return ""
    last = [each[-1] for each in _conversations(subject)]
    main = [each for each in last if each.number not in facts.asides or each.text == entry.text]
    whys = [*map(flaw, (entry.text and main) or last)] or [flaw(None)]
    why = whys[-1] if all(whys) else ""
    said = {*_messages(subject), *(each.text for each in facts.replies.values())}
    arguments = (json_value(call.arguments) for each in last for call in each.calls)
    is_given = any(entry.text in strings(each) for each in arguments)
    own_words = is_given or (entry.text and entry.text not in said and not _boasts(subject, entry))
    if not why or (own_words and subject.machine is None):
        return ""
    return f"the run is completed, and {why}"


def _boasts(subject: Subject, entry: Ended) -> bool:
    """Return whether a run that its limit ends says that all is done, and nothing else."""
    limits, says_why = subject.limits, ("failures", "bounds", "steps")
    if limits is None or len(_replies(subject)) < limits.max_steps:
        return False
    is_told = any(tells(entry.text, each) for each in says_why)
    return PATTERNS["all done"].search(entry.text) is not None and not is_told


def _is_remembered(facts: Facts, text: str) -> bool:
    """Return whether a run without a request ends with the answer to its prompt of before."""
    before = facts.main_replies[: facts.earlier_replies]
    if len(before) < len(facts.main_replies) or facts.prompt is None:
        return False
    asked = [facts.sent.get(each.number) for each in before if each.text == text]
    told = (each.text for request in asked if request for each in request.messages)
    return any(facts.prompt.text in each for each in told)


def _messages(subject: Subject) -> Iterator[str]:
    """Yield the texts that the model was sent in the run: the prompt, and results of its calls."""
    newest = subject.facts.request
    for message in reversed(newest.messages if newest is not None else ()):
        if type(message) is not AssistantMessage:
            yield message.text
        if type(message) is UserMessage:
            return


@invariant("A run is completed only if its last model call has returned a reply.",
           "BUGS.md C6, C8, E8", sees=[Ended])  # fmt: skip
def completed_after_a_reply(subject: Subject, entry: Ended) -> str:
    """A failed call, a reply without a finish reason, or a run without a call completes nothing."""

    def flaw(reply: ReceivedReply | None) -> str:
        if reply is None:
            return "no request was sent in it"
        if reply.fault is not None or not reply.is_closed:
            how = "had not ended" if reply.fault is None else "failed"
            return f"its last model call, request {reply.number}, {how}"
        ended = f"the reply to request {reply.number} ended without a finish reason"
        return "" if reply.finish else ended

    return _completed(subject, entry, flaw)


@invariant("A run is not completed if its last reply was cut off, filtered or broken.",
           "BUGS.md C6, D12, E8", sees=[Ended])  # fmt: skip
def completed_after_a_complete_reply(subject: Subject, entry: Ended) -> str:
    """The finish reasons are length, content-filter, error, and words for a lost provider.

    A refusal of a model of OpenAI is a text of its own for the user.
    """
    told = "" if "anthropic" in subject.source else "refusal"

    def flaw(one: ReceivedReply | None) -> str:
        if one is None or one.finish not in _CUT or (one.word == told and one.text.strip()):
            return ""
        return f"the reply to request {one.number} ended with {one.finish}"

    return _completed(subject, entry, flaw)


@invariant("A run is not completed if its last reply calls tools: the model has not seen their "
           "results.", "BUGS.md D13, D12", sees=[Ended])  # fmt: skip
def completed_without_open_calls(subject: Subject, entry: Ended) -> str:
    """This holds for every finish reason. No model calls what a request does not offer."""

    def flaw(reply: ReceivedReply | None) -> str:
        if reply is None or not reply.calls:
            return ""
        sent = subject.facts.sent.get(reply.number)
        lacks_tools = sent is not None and not (sent.tools or subject.tools)
        lacks_tools = lacks_tools or (sent is not None and subject.facts.lacks_tools(sent))
        return "" if lacks_tools else f"the reply to request {reply.number} calls tools"

    return _completed(subject, entry, flaw)


@invariant("The text of a run is the text of its newest reply that has text.",
           "BUGS.md E4, E8, C6", sees=[Ended])  # fmt: skip
def run_text_matches_last_reply(subject: Subject, entry: Any) -> str:
    """An agent may return its own text, but not an older reply or a part of a failed reply."""
    facts = subject.facts
    replies = facts.main_replies[facts.earlier_replies :]
    newest = next((reply.text for reply in reversed(_replies(subject)) if reply.text), "")
    said = ([reply.text for reply in each if reply.text] for each in _conversations(subject))
    if entry.text in (newest, *(texts[-1] if texts else "" for texts in said)):
        return ""
    if subject.machine is None and _is_remembered(facts, entry.text):
        return ""
    wrong = f"{entry.text!r:.80}, and the last words of the model are {newest!r:.80}"
    if subject.machine is not None:
        return f"the text of the run is {wrong}"
    if entry.outcome is not Outcome.COMPLETED:  # it returns nothing
        return ""
    # A whole reply that was too long may have the words of a broken one.
    before = {one.finish is None for one in replies if one.text and one.text + newest in entry.text}
    glued = newest and before == {True}
    if entry.text and (glued or any(one.text == entry.text for one in facts.main_replies)):
        return f"the agent returns {wrong}"
    return ""


def closed_by(course: Course) -> ReplyFacts | None:
    """Return the reply of the step that the newest transition closes."""
    state = course.before.state
    return state.reply if type(state) is ClosingStep else None


@invariant("A complete answer of the model completes the run if no message is queued.",
           "BUGS.md A3, E2", sees=[signals.StepClosed])  # fmt: skip
def answers_complete_runs(subject: Subject, entry: Any) -> str:
    """The answer completes the run even if it reaches a limit."""
    reply, state = closed_by(subject.course), subject.course.run.state
    if reply is None or reply.finish is not FinishReason.STOP or not reply.text or reply.calls:
        return ""
    if entry.signal != signals.StepClosed():
        return ""  # unless the user has said something more
    if type(state) is Finished and state.outcome is not Outcome.COMPLETED:
        return f"the run ends as {state.outcome} after a complete answer"
    return ""


@invariant("A reply that the content filter stops, or that ends with an error, ends the run as a "
           "failure.", "BUGS.md D12, E8", sees=[signals.StepClosed])  # fmt: skip
def broken_replies_end_runs(subject: Subject, _: Any) -> str:
    """Also one with calls, and also if a message is queued."""
    course = subject.course
    reply, state = closed_by(course), course.run.state
    if reply is None or reply.finish not in _BROKEN:
        return ""
    if type(state) is not Finished:
        return f"the run goes on after a reply that ended with {reply.finish}"
    if state.outcome is Outcome.COMPLETED:
        return f"the run is completed after a reply that ended with {reply.finish}"
    return ""


@invariant("A run is not completed while a user message is queued.", "BUGS.md B12",
           sees=[Queued, signals.StepClosed, effects.CallModel, Finished], needs=[Need.MACHINE],
           begins=[Queued])  # fmt: skip
def no_completion_with_queued_messages(subject: Subject) -> Watch:
    """A design without a queue takes the message as the next prompt, and is not judged."""
    course = subject.course
    has_queue = Feature.QUEUE not in course.machine.unsupported
    waits = False
    while entry := (yield):
        if type(entry) is Queued:
            continue
        signal = entry.signal
        if type(signal) is signals.StepClosed:
            waits = signal.steering or signal.follow_up
        elif type(course.effect) is effects.CallModel:
            waits = False
        if waits and has_queue:
            state = course.run.state
            if type(state) is Finished and state.outcome is Outcome.COMPLETED:
                return "the run is completed, and a user message is queued"


@invariant("A follow-up message is taken only when the run would otherwise end.",
           "BUGS.md B12, D21", sees=[signals.StepClosed])  # fmt: skip
def follow_ups_taken_at_run_end(subject: Subject, entry: Any) -> str:
    """It must not come between calls and their results, or while a message to steer by waits."""
    course = subject.course
    if (reply := closed_by(course)) is None or not (reply.calls or entry.signal.steering):
        return ""
    for effect in course.asked:
        if type(effect) is effects.TakeQueued and effect.queue is Queue.FOLLOW_UP:
            early = "the results of tools are sent" if reply.calls else "one to steer by"
            return f"a follow-up message is taken before {early}"
    return ""


@invariant("A counter that is declared to reset is zero after each complete reply.",
           "BUGS.md E6", sees=[signals.ModelReplied])  # fmt: skip
def counters_reset_after_reply(subject: Subject, _: Any) -> str:
    """The failures of one step do not count in the next one."""
    course = subject.course
    for bound in course.machine.bounds.values():
        value = getattr(course.run, bound.counter)
        if bound.resets and value:
            return f"{bound.counter} is {value} after a complete reply"
    return ""
