"""Invariants on the message with which the engine ends a run."""

from typing import Any

from simloop.check.invariants.invariant import Need, invariant
from simloop.check.invariants.subject import Subject
from simloop.messages import Outcome
from simloop.trace.entries import Ended


@invariant(
    "The message of a completed run is the text of its last reply.",
    "BUGS.md E4, E8",
    sees=[Ended],
    needs=[Need.MACHINE],
)
def message_matches_last_reply(subject: Subject, entry: Any) -> str:
    """The user reads this message."""
    facts = subject.facts
    reply = facts.reply
    if entry.outcome is Outcome.COMPLETED and reply is not None and entry.message != reply.text:
        return f"the message is {entry.message!r:.80}, and the last reply {reply.text!r:.80}"
    return ""


@invariant(
    "The message of a run that a hook has blocked, or that a failed call has ended, names the "
    "reason.",
    "BUGS.md E8, D16",
    sees=[Ended],
    needs=[Need.MACHINE],
)
def message_names_cause(subject: Subject, entry: Any) -> str:
    """The message has the words of the hook or the provider, or the model's last text."""
    facts = subject.facts
    reply = facts.reply
    if reply is not None and reply.text and reply.text == entry.message:
        return ""
    reasons = [hook.detail for hook in facts.vetoes if hook.detail]
    if entry.outcome is Outcome.FAILED and reply is not None and reply.fault is not None:
        reasons.append(reply.fault.message)
    elif entry.outcome is not Outcome.BLOCKED:
        return ""
    if reasons and not any(reason in entry.message for reason in reasons):
        return f"the user is told {entry.message!r:.80}, and the reason is {reasons[-1]!r}"
    return ""
