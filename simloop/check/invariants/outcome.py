"""Invariants on the end of a run: its outcome and its text match the replies of the model.

Not here: stops from outside (stop.py) and the limits that a machine names. The rule to keep: an
agent may end with its own words, which simloop does not judge; it must not report an early end as
the answer of the model.
"""

from collections.abc import Callable
from typing import Any

from simloop.check.invariants.invariant import invariant
from simloop.check.invariants.subject import Subject
from simloop.messages import FinishReason, Outcome
from simloop.trace.entries import Ended
from simloop.trace.facts import ReceivedReply

_CUT = frozenset(
    {
        FinishReason.LENGTH,
        FinishReason.CONTENT_FILTER,
        FinishReason.ERROR,
        FinishReason.INTERRUPTED,
    }
)


def _is_the_models(text: str, replies: dict[int, ReceivedReply]) -> bool:
    return not text or any(reply.text == text for reply in replies.values())


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


def _completed(subject: Subject, entry: Ended, flaw: Callable[[ReceivedReply | None], str]) -> str:
    """Return why a completed run must not be completed, by its last reply, or an empty text.

    An agent that ends with words other than the model's reports its own end, and is not judged.
    """
    if entry.outcome is not Outcome.COMPLETED:
        return ""
    facts = subject.facts
    why = flaw(next(reversed(_replies(subject)), None))
    if why and (subject.machine is not None or _is_the_models(entry.text, facts.replies)):
        return f"the run is completed, and {why}"
    return ""


@invariant(
    "A run is completed only if its last model call has returned a reply.",
    "BUGS.md C6, C8, E8",
    sees=[Ended],
)
def completed_after_a_reply(subject: Subject, entry: Ended) -> str:
    """A failed call, a reply without a finish reason, or a run without a call completes nothing."""

    def flaw(reply: ReceivedReply | None) -> str:
        if reply is None:
            return "no request was sent in it"
        if reply.finish is not None:
            return ""
        if reply.fault is not None:
            return "its last model call failed"
        return (
            "its last reply ended without a finish reason"
            if reply.is_closed
            else "its last model call had not ended"
        )

    return _completed(subject, entry, flaw)


@invariant(
    "A run is not completed if its last reply was cut off, filtered or broken.",
    "BUGS.md C6, D12, E8",
    sees=[Ended],
)
def completed_after_a_complete_reply(subject: Subject, entry: Ended) -> str:
    """The finish reasons are length, content-filter, error, and words for a lost provider."""

    def flaw(reply: ReceivedReply | None) -> str:
        cut = reply is not None and reply.finish in _CUT
        return f"its last reply ended with {reply.finish}" if reply and cut else ""

    return _completed(subject, entry, flaw)


@invariant(
    "A run is not completed if its last reply calls tools: the model has not seen their results.",
    "BUGS.md D13, D12",
    sees=[Ended],
)
def completed_without_open_calls(subject: Subject, entry: Ended) -> str:
    """This holds for every finish reason."""
    return _completed(
        subject, entry, lambda reply: "its last reply calls tools" if reply and reply.calls else ""
    )


@invariant(
    "The text of a run is the text of its newest reply that has text.",
    "BUGS.md E4, E8, C6",
    sees=[Ended],
)
def run_text_matches_last_reply(subject: Subject, entry: Any) -> str:
    """An agent may return its own text, but not an older reply or a part of a failed reply."""
    facts = subject.facts
    replies = facts.main_replies[facts.earlier_replies :]
    newest = next((reply.text for reply in reversed(_replies(subject)) if reply.text), "")
    if entry.text == newest:
        return ""
    if subject.machine is not None:
        return f"the text of the run is {entry.text!r:.80}, and the last said {newest!r:.80}"
    broken = [one.text for one in replies if one.finish is None and one.text]
    glued = newest and any(text + newest in entry.text for text in broken)
    if entry.text and (glued or any(one.text == entry.text for one in facts.main_replies)):
        return f"the agent returns {entry.text!r:.80}, and the last said {newest!r:.80}"
    return ""
