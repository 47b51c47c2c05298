"""Invariants on compactions: their causes, the removed messages, and their sizes.

The next request shows the context after a compaction. Not here: the messages that are added at the
same time (conservation.py). The rule to keep: a scripted context states its sizes itself, so only
its reasons are judged.
"""

from collections.abc import Sequence
from typing import Any

from simloop.check.invariants.course import Course
from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.ledger import Ledger
from simloop.check.invariants.shortened import Shortened
from simloop.check.invariants.subject import Subject
from simloop.kernel import effects, signals
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import Bound, Machine
from simloop.kernel.policies import CompactionStrategy
from simloop.kernel.states import ClosingStep, Compacting, Finished
from simloop.messages import (
    AssistantMessage,
    FinishReason,
    Message,
    SummaryMessage,
    ToolMessage,
    UserMessage,
)
from simloop.trace.entries import Compaction, Prompt, Request, Transition

_USABLE = (FinishReason.STOP, FinishReason.OTHER)


@invariant(
    "A compaction states correctly how large the context was, and whether it became smaller.",
    "BUGS.md B4, B5, B15",
    sees=[Compaction, signals.ContextCompacted],
    needs=[Need.MACHINE],
)
def compaction_sizes_match_context(subject: Subject) -> Watch:
    """A compaction that removes nothing, or leaves the context as large, has not helped."""
    course = subject.course
    ledger, last = course.ledger, None
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


@invariant(
    "A compaction removes exactly the messages that it counts; the others remain unchanged "
    "and in order.",
    "BUGS.md B10, B12",
    sees=[Shortened],
    needs=[Need.MACHINE],
)
def compactions_remove_only_counted_messages(subject: Subject) -> Watch:
    """A new summary stands in the place of the removed messages."""
    ledger = subject.course.ledger
    while True:
        yield
        shortened = ledger.shortened
        assert shortened is not None
        before, after = len(shortened.before), len(shortened.after)
        if before - shortened.removed != after:
            gone = f"{shortened.removed} of {before} messages"
            return f"{gone} are recorded as removed, and {after} are left"
        rest = _new_messages(shortened)
        if len(rest) > _summaries(shortened) or any(type(m) is not SummaryMessage for m in rest):
            return f"a message is new, changed or moved: {rest[0]!r:.80}"
        size = shortened.compactions[-1].tokens_after
        if ledger.estimates and shortened.tokens != size:
            return f"a compaction leaves {shortened.tokens} tokens, and records {size}"


def _new_messages(shortened: Shortened) -> list[Message]:
    """Return the messages of `after` that do not follow one another in `before`."""
    before = iter(shortened.before)

    def follows(message: Message) -> bool:
        if type(message) is SummaryMessage and message not in shortened.before:
            return False
        return any(other == message for other in before)

    return [message for message in shortened.after if not follows(message)]


def _summaries(shortened: Shortened) -> int:
    return sum(each.strategy == CompactionStrategy.SUMMARISE for each in shortened.compactions)


@invariant(
    "A compaction never removes the newest user message.",
    "BUGS.md B10, B13",
    sees=[Shortened],
    needs=[Need.MACHINE],
)
def compactions_keep_newest_user_message(subject: Subject) -> Watch:
    """Otherwise the model does not see the question that it must answer."""
    ledger = subject.course.ledger
    while True:
        yield
        shortened = ledger.shortened
        assert shortened is not None
        newest = _newest_user(shortened.before)
        if newest is not None and _newest_user(shortened.after) != newest:
            return f"the newest user message is removed: {newest.text[:60]!r}"


def _newest_user(messages: Sequence[Message]) -> UserMessage | None:
    for message in reversed(messages):
        if type(message) is UserMessage:
            return message
    return None


@invariant(
    "A compaction that removes a call removes its results too, and the reverse.",
    "BUGS.md B19, D22",
    sees=[Shortened],
    needs=[Need.MACHINE],
)
def compactions_keep_call_result_pairs(subject: Subject) -> Watch:
    """A provider refuses a request that has only one of the two."""
    ledger = subject.course.ledger
    while True:
        yield
        shortened = ledger.shortened
        assert shortened is not None
        answered = {m.call_id for m in shortened.before if type(m) is ToolMessage}
        calls: set[str] = set()
        results: set[str] = set()
        for message in shortened.after:
            if type(message) is AssistantMessage:
                calls.update(call.id for call in message.calls if call.id in answered)
            elif type(message) is ToolMessage:
                results.add(message.call_id)
        if calls != results:
            return f"only one of a call and its result is removed: {min(calls ^ results)!r}"


@invariant(
    "A summary in the context is a complete reply of the model, and covers the messages that "
    "it replaces.",
    "BUGS.md B6, B10, B11",
    sees=[Shortened],
    needs=[Need.MACHINE],
)
def summaries_come_from_model(subject: Subject) -> Watch:
    """Only a newer summary replaces a summary. A reply that is empty, cut off or failed is none."""
    ledger = subject.course.ledger
    while True:
        yield
        shortened = ledger.shortened
        assert shortened is not None
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


@invariant(
    "A compaction is tried only if the context exceeds its trigger; a forced one, only after "
    "a reply that was cut off or a request that was too long.",
    "BUGS.md B2, B3, B8, C5",
    sees=[effects.Compact],
    needs=[Need.MACHINE],
)
def compactions_have_a_reason(subject: Subject, _: Any) -> str:
    """A context below its trigger stays unchanged."""
    course = subject.course
    signal = course.signal
    if not getattr(course.asked[-1], "forced", False):
        if not (type(signal) is signals.ContextMeasured and signal.over):
            return "a compaction is tried, and the context does not exceed its trigger"
    elif not _has_overflowed(course):
        return "a compaction is forced, and no reply was cut off and no request too long"
    return ""


def _has_overflowed(course: Course) -> bool:
    signal, state = course.signal, course.before.state
    if type(signal) is signals.ModelFailed:
        return signal.error is ErrorClass.OVERFLOW
    cut = type(state) is ClosingStep and state.reply.finish is FinishReason.LENGTH
    return type(signal) is signals.StepClosed and cut


@invariant(
    "A context that exceeds its trigger is compacted while an attempt is left.",
    "BUGS.md B7, B9",
    sees=[signals.ContextMeasured],
    needs=[Need.MACHINE],
)
def full_contexts_compacted(subject: Subject, _: Any) -> str:
    """The compaction comes before the next request, which a provider might refuse otherwise."""
    course = subject.course
    signal = course.signal
    if type(signal) is not signals.ContextMeasured or not signal.over:
        return ""
    asked = course.asked[-1] if course.asked else None
    if type(asked) is not effects.Compact and not _is_spent(course):
        return "the context exceeds its trigger, an attempt is left, and no compaction is tried"
    return ""


def _bounds_of(machine: Machine) -> list[Bound]:
    """Return the bounds and the thresholds of a machine."""
    return [*machine.bounds.values(), *getattr(machine, "thresholds", {}).values()]


def _is_spent(course: Course) -> bool:
    """Return whether a bound or a threshold of the machine is reached."""
    given = _bounds_of(course.machine)
    return any(getattr(course.run, bound.counter) >= bound.at for bound in given)


@invariant(
    "A reply that was cut off forces a compaction while an attempt is left.",
    "BUGS.md A9, B1",
    sees=[signals.StepClosed],
    needs=[Need.MACHINE],
)
def cut_off_replies_force_compaction(subject: Subject, _: Any) -> str:
    """The model has no room for a whole reply."""
    return _makes_room(subject.course)


@invariant(
    "A request that is too long forces a compaction while an attempt is left.",
    "BUGS.md B1, B17",
    sees=[signals.ModelFailed],
    needs=[Need.MACHINE],
)
def overflows_force_compaction(subject: Subject, _: Any) -> str:
    """The provider says that the context is too long."""
    return _makes_room(subject.course)


def _makes_room(course: Course) -> str:
    if not _has_overflowed(course):
        return ""
    asked = course.asked[-1] if course.asked else None
    state = course.run.state
    ended = type(state) is Finished and bool(state.limit)
    if type(asked) is not effects.Compact and not ended:
        return "the context is too long, an attempt is left, and no compaction is tried"
    return ""


@invariant(
    "A run tries no more compactions than max_compaction_attempts.",
    "BUGS.md B1, B17, B18, A14",
    sees=[Prompt, signals.ContextCompacted],
    needs=[Need.MACHINE],
    begins=[signals.ContextCompacted],
)
def max_compaction_attempts_enforced(subject: Subject) -> Watch:
    """The limit counts normal and forced compactions, whether or not they help."""
    course = subject.course
    most = course.settings.limits.max_compaction_attempts
    tried = 0
    while True:
        entry = yield
        if type(entry) is Prompt:
            tried = 0
        else:
            tried += 1
            if tried > most:
                return f"compaction {tried} of a run is tried; {most} are allowed"


@invariant(
    "A forced compaction that does not make the context smaller ends the run.",
    "BUGS.md B1, B5, B15",
    sees=[signals.ContextCompacted],
    needs=[Need.MACHINE],
)
def useless_forced_compaction_ends_run(subject: Subject, _: Any) -> str:
    """The provider would refuse the same request again."""
    return _goes_on_in_vain(subject.course, forced=True)


@invariant(
    "A compaction that does not make the context smaller ends the run if no limit counts "
    "compactions.",
    "BUGS.md B1, B5, B18",
    sees=[signals.ContextCompacted],
    needs=[Need.MACHINE],
)
def useless_unlimited_compaction_ends_run(subject: Subject, _: Any) -> str:
    """The context stays over its trigger, so the same compaction would be tried in each round."""
    course = subject.course
    if any(bound.counter == "compaction_attempts" for bound in _bounds_of(course.machine)):
        return ""
    return _goes_on_in_vain(course, forced=False)


@invariant(
    "A compaction that does not make the context smaller is not repeated before the next model "
    "call.",
    "BUGS.md B1, B4, B5",
    sees=[Prompt, signals.ContextCompacted, Request],
    needs=[Need.MACHINE],
    begins=[signals.ContextCompacted],
)
def useless_compaction_not_repeated(subject: Subject) -> Watch:  # noqa: ARG001 - see `Need`
    """The context is the same, so the second compaction would gain nothing either."""
    in_vain = False
    while True:
        entry = yield
        if type(entry) is Transition:
            if in_vain:
                return "a compaction that gained nothing is repeated"
            in_vain = entry.signal == _IN_VAIN
        elif type(entry) is Prompt or entry.purpose == "main":
            in_vain = False


def _goes_on_in_vain(course: Course, *, forced: bool) -> str:
    state = course.before.state
    if course.signal != _IN_VAIN or type(state) is not Compacting:
        return ""
    if state.forced is not forced or type(course.run.state) is Finished:
        return ""
    kind = "forced" if forced else "normal"
    return f"the run goes on after a {kind} compaction that gained nothing"


_IN_VAIN = signals.ContextCompacted(shrunk=False)
