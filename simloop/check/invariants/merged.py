"""The invariant on a reply in the context that has the text of several replies.

Not here: replies that failed or are incomplete (context.py). The rule to keep: a text that another
reply had too is no proof.
"""

from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.messages import AssistantMessage, FinishReason
from simloop.trace.entries import Request
from simloop.trace.facts import ReceivedReply


@invariant(
    "A reply in the context contains the text of one model reply, without the text of an "
    "earlier one.",
    "BUGS.md C13, D6",
    sees=[Request],
    needs=[Need.AGENT],
)
def no_merged_replies(subject: Subject) -> Watch:
    """An agent must clear the collected text before it reads the next stream.

    It may let the model go on with a text that was cut off.
    """
    facts = subject.facts
    said: list[str] = []
    whole: list[str] = []
    reply: ReceivedReply | None = None
    while True:
        entry = yield
        newest = "" if reply is None else reply.text
        for message in facts.added if entry.purpose == "main" and newest else ():
            text = message.text
            if type(message) is not AssistantMessage or text == newest or text in said:
                continue
            if text.endswith(newest) and text.startswith(tuple(whole)):
                return f"request {entry.number} has {text!r:.80}, and the model said {newest!r:.80}"
        if newest and reply is not None:
            said.append(newest)
            whole += [newest] if reply.finish is not FinishReason.LENGTH else []
        reply = facts.replies[entry.number]
