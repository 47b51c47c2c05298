"""Invariants on the numbers of a compaction: the turns that stay, the target, and the strategy.

The removed messages are counted here again, from the policy of the run alone. Not here: the
messages that every compaction must keep, and its gain (compaction.py). The rule to keep: the next
request shows a compaction, so two compactions before one request are not judged.
"""

from collections.abc import Callable, Sequence

from oracle.ledger import ledger_of
from oracle.shortened import tokens_of
from simloop.check.invariants.invariant import Kind, Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.kernel.policies import Compaction as Policy
from simloop.kernel.policies import CompactionStrategy
from simloop.messages import FinishReason, Message, SummaryMessage, ToolMessage, UserMessage
from simloop.trace.entries import Compaction, Ended, Prompt, Request

_SUMMARISE = CompactionStrategy.SUMMARISE


def _unless_scripted(*kinds: Kind) -> Callable[[Subject], tuple[Kind, ...]]:
    """Return a function that narrows to nothing in a run with a scripted context."""

    def seen(subject: Subject) -> tuple[Kind, ...]:
        settings = subject.settings
        return () if settings is not None and settings.context is not None else kinds

    return seen


@invariant(
    "A compaction removes exactly the turns that its policy selects: all but the newest "
    "keep_turns, or the oldest until the target is reached; a forced one keeps the newest "
    "turn.",
    "BUGS.md B10, B12, loops.md",
    sees=[Request, Ended],
    needs=[Need.MACHINE],
    narrow=_unless_scripted(Request, Ended),
)
def compaction_matches_policy(subject: Subject) -> Watch:
    """The newest user message always stays, and so does a summary that no new one replaces.

    If no request follows a compaction, only the number of removed messages is judged.
    """
    course = subject.course
    ledger, policy = ledger_of(subject), course.settings.compaction
    while True:
        is_over = type((yield)) is Ended
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
    narrow=_unless_scripted(Prompt, Request, Compaction),
)
def compaction_matches_strategy(subject: Subject) -> Watch:
    """If the summary fails, is cut off or is no shorter, the oldest turns are dropped instead."""
    course, facts = subject.course, subject.facts
    ledger, policy = ledger_of(subject), course.settings.compaction
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


_USABLE = (FinishReason.STOP, FinishReason.OTHER)
