"""Invariants on the context of an engine: its messages, and its compactions.

The ledger states the messages that a request must hold, and a difference is reported once, at the
request. The removed messages are counted here again, from the policy of the run alone. The next
request shows a compaction, so two compactions before one request are not judged.
"""

from collections.abc import Sequence
from typing import Any

from oracle.ledger import Ledger, Shortened, ledger_of, tokens_of
from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.kernel import signals
from simloop.kernel.policies import Compaction as Policy
from simloop.messages import (
    AssistantMessage,
    FinishReason,
    Message,
    SummaryMessage,
    ToolMessage,
    UserMessage,
)
from simloop.trace.entries import Compaction, Ended, Prompt, Request


@invariant(
    "A reply without text and calls is in no request.",
    "BUGS.md A11, A15",
    sees=[Request],
    needs=[Need.MACHINE],
)
def no_empty_replies_sent(_: Subject, entry: Any) -> str:
    """Some providers refuse such a message; an agent may know that its own accepts it."""
    for message in entry.added:
        if type(message) is AssistantMessage and not (
            message.text or message.calls or message.reasoning
        ):
            return f"request {entry.number} has an empty reply of the model"
    return ""


@invariant(
    "A request contains exactly the messages of the conversation, in order; only a recorded "
    "compaction removes or replaces messages.",
    "BUGS.md B10, D1, D8, D12",
    sees=[Request],
    needs=[Need.MACHINE],
)
def context_is_conserved(subject: Subject, entry: Any) -> str:
    """The conversation has prompts, taken messages, kept replies and the answers to their calls."""
    ledger = ledger_of(subject)
    if ledger.wrong and entry.purpose == "main":
        return f"request {entry.number}: {ledger.wrong}"
    return ""


@invariant(
    "The recorded size of a request is the estimated size of its messages.",
    "BUGS.md B8",
    sees=[Request],
    needs=[Need.MACHINE],
)
def request_size_matches_messages(subject: Subject, entry: Any) -> str:
    """A loop with a stale size compacts too early or too late."""
    ledger = ledger_of(subject)
    if ledger.wrong_tokens and entry.purpose == "main":
        return ledger.wrong_tokens
    return ""


_USABLE = (FinishReason.STOP, FinishReason.OTHER)


@invariant(
    "A compaction states correctly how large the context was, and whether it became smaller.",
    "BUGS.md B4, B5, B15",
    sees=[Compaction, signals.ContextCompacted],
)
def compaction_sizes_match_context(subject: Subject) -> Watch:
    """A compaction that removes nothing, or leaves the context as large, has not helped."""
    ledger, last = ledger_of(subject), None
    while True:
        entry = yield
        if type(entry) is Compaction:
            last = entry
            wrong = _wrong_sizes(entry, ledger)
            if wrong:
                return wrong
        elif last is not None:
            gained = last.tokens_after < last.tokens_before
            if entry.signal.shrunk is not gained:
                sizes = f"from {last.tokens_before} to {last.tokens_after} tokens"
                return f"the signal does not match a compaction {sizes}"


def _wrong_sizes(entry: Compaction, ledger: Ledger) -> str:
    _, tokens = ledger.measured
    if ledger.estimates and ledger.is_sure and not ledger.is_late and entry.tokens_before != tokens:
        return f"a compaction begins with {tokens} tokens, and records {entry.tokens_before}"
    if entry.strategy and entry.tokens_after >= entry.tokens_before and not ledger.restarts:
        return (
            f"{entry.strategy} leaves {entry.tokens_after} tokens of {entry.tokens_before}, "
            "and counts as a compaction"
        )
    if not entry.strategy and entry.tokens_after != entry.tokens_before:
        return "a compaction changes the context, and names no strategy"
    return ""


def _new_messages(shortened: Shortened) -> list[Message]:
    """Return the messages of `after` that do not follow one another in `before`."""
    before = iter(shortened.before)

    def follows(message: Message) -> bool:
        if type(message) is SummaryMessage and message not in shortened.before:
            return False
        return any(other == message for other in before)

    return [message for message in shortened.after if not follows(message)]


def _summaries(shortened: Shortened) -> int:
    return sum(each.strategy == "summarise" for each in shortened.compactions)


@invariant(
    "A summary in the context is a complete reply of the model, and covers the messages that "
    "it replaces.",
    "BUGS.md B6, B10, B11",
    sees=[Request],
    needs=[Need.MACHINE],
)
def summaries_come_from_model(subject: Subject) -> Watch:
    """Only a newer summary replaces a summary. A reply that is empty, cut off or failed is none."""
    ledger = ledger_of(subject)
    while True:
        yield
        shortened = ledger.shortened
        if shortened is None:
            continue
        wrong = _wrong_summary(shortened)
        if wrong:
            return wrong


def _wrong_summary(shortened: Shortened) -> str:
    new = [m for m in _new_messages(shortened) if type(m) is SummaryMessage]
    gone = [m for m in shortened.before if type(m) is SummaryMessage and m not in shortened.after]
    if not new:
        return "an earlier summary is removed, and no newer one replaces it" if gone else ""
    if shortened.summary is None:
        return "a summary is in the context, and the model was not asked for one"
    asked, reply = shortened.summary
    if reply.text.strip() != new[-1].text:
        return f"the summary is {new[-1].text[:40]!r}, and the model said {reply.text[:40]!r}"
    if reply.finish not in _USABLE or not new[-1].text:
        return f"a summary of {len(reply.text)} characters that ended with {reply.finish} is used"
    if _summaries(shortened) == 1 == len(shortened.compactions):
        kept = list(shortened.after)
        removed = [m for m in shortened.before if m not in kept]
        if any(m not in asked for m in removed):
            return "a removed message is not part of the summary request"
        asked_for, gone_now = len(asked) - 1, shortened.removed + 1  # the last asks, one is new
        if asked_for != gone_now:
            return f"a summary of {asked_for} messages takes the place of {gone_now}"
    return ""


_SUMMARISE = "summarise"


@invariant(
    "A compaction removes exactly the turns that its policy selects: all but the newest "
    "keep_turns, or the oldest until the target is reached; a forced one keeps the newest "
    "turn.",
    "BUGS.md B10, B12, loops.md",
    sees=[Compaction, Request, Ended],
    needs=[Need.MACHINE],
    begins=[Compaction],
)
def compaction_matches_policy(subject: Subject) -> Watch:
    """The newest user message always stays, and so does a summary that no new one replaces.

    If no request follows a compaction, only the number of removed messages is judged.
    """
    course = subject.course
    ledger, policy = ledger_of(subject), course.settings.compaction
    if course.settings.context is not None:
        return ""
    while True:
        kind = type((yield))
        if kind is Compaction:
            continue
        is_over = kind is Ended
        shortened = ledger.opened if is_over else ledger.shortened
        if shortened is None or len(shortened.compactions) != 1 or not ledger.estimates:
            continue
        entry = shortened.compactions[0]
        wanted, place = _left(shortened.before, policy, entry)
        left = list(shortened.after)
        if entry.strategy == _SUMMARISE:
            del left[place : place + 1]
        count = len(wanted) + (entry.strategy == _SUMMARISE)
        if left != wanted if not is_over else len(shortened.before) - shortened.removed != count:
            forced = "forced" if entry.forced else "normal"
            return (
                f"a {forced} compaction takes away {entry.messages_removed} of "
                f"{len(shortened.before)} messages, and must leave {count} "
                f"(keep_turns {policy.keep_turns}, target {policy.target_percent} %)"
            )


def _left(
    before: Sequence[Message], policy: Policy, entry: Compaction
) -> tuple[list[Message], int]:
    """Return the messages that a compaction leaves, in order, and the place of a new summary."""
    turns: list[list[Message]] = []
    for message in before:
        if type(message) is ToolMessage and turns:
            turns[-1].append(message)
        else:
            turns.append([message])
    users = [place for place, turn in enumerate(turns) if type(turn[0]) is UserMessage]
    newest = users[-1] if users else -1
    old = max(0, len(turns) - (1 if entry.forced else policy.keep_turns))
    tokens = sum(map(tokens_of, before))
    drops, target = entry.strategy != _SUMMARISE, policy.window * policy.target_percent // 100
    if entry.forced or policy.max_messages is not None:
        target = min(target, tokens // 2)
    left: list[Message] = []
    first = -1
    for place, turn in enumerate(turns):
        stays = place >= old or place == newest
        if drops:
            stays = stays or tokens <= target or type(turn[0]) is SummaryMessage
        if stays:
            left += turn
        else:
            tokens -= sum(map(tokens_of, turn))
            first = len(left) if first < 0 else first
    return left, first


@invariant(
    "A compaction requests a summary exactly if its policy requires one, and uses a summary "
    "that is complete and shorter than the messages that it replaces.",
    "BUGS.md B4, B11, B14",
    sees=[Prompt, Request, Compaction],
    needs=[Need.MACHINE],
)
def compaction_matches_strategy(subject: Subject) -> Watch:
    """If the summary fails, is cut off or is no shorter, the oldest turns are dropped instead."""
    course, facts = subject.course, subject.facts
    ledger, policy = ledger_of(subject), course.settings.compaction
    if course.settings.context is not None:
        return ""
    asked = 0
    while True:
        entry = yield
        if type(entry) is not Compaction:
            asked = entry.number if type(entry) is Request and entry.purpose != "main" else 0
            continue
        number, asked = asked, 0
        if ledger.restarts:
            continue
        if policy.strategy != _SUMMARISE:
            if number or entry.strategy == _SUMMARISE:
                return f"a summary is asked for, and the strategy is {policy.strategy}"
        elif not number:
            if entry.strategy:
                return f"no summary is asked for, and the strategy is {policy.strategy}"
        elif entry.strategy != _SUMMARISE and ledger.estimates:
            reply, request = facts.replies.get(number), facts.sent.get(number)
            if reply is None or request is None or reply.finish not in _USABLE:
                continue
            said, gone = reply.text.strip(), request.messages[:-1]  # the last one asks for it
            if said and tokens_of(SummaryMessage(said)) < sum(map(tokens_of, gone)):
                return f"the summary {said[:40]!r} is whole and shorter, and is not used"
