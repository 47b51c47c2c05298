"""Invariants on agents of the user's own, which leave no entries but those of the boundary.

The `limits` and `retry` of an agent are judged if it declares them. A wait of an agent that
declares no policy is judged only by bounds that every policy keeps. A request counts as a retry
only if it goes on from the request whose reply failed: an agent may have several conversations.
"""

from math import inf
from typing import Any

from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.requests import WHOLE, unlike
from simloop.check.invariants.retry import NS_PER_MS, asked_ns, wait_range
from simloop.check.invariants.subject import Subject
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import DeclaredLimits
from simloop.kernel.retry import ExponentialBackoff
from simloop.messages import Fault, FinishReason, Outcome, ToolMessage
from simloop.trace.entries import (
    Ended,
    LeftBehind,
    LoopBlocked,
    Prompt,
    Queued,
    Request,
    ToolResult,
    ToolStarted,
)
from simloop.trace.facts import Facts, ReceivedReply
from simloop.trace.kinds import clock
from simloop.virtual.clock.instants import EPOCH_NS

_CLOCK_NS = NS_PER_MS
"""The finest difference in time that an agent is judged by.

Programs count in milliseconds, in microseconds (`datetime`), or in seconds since 1970 as a float,
whose values are 238 ns apart.
"""


def _skew_ns(subject: Subject) -> int:
    scenario = subject.scenario
    return 0 if scenario is None else scenario.clock.ahead - scenario.clock.behind


@invariant(
    "An agent waits before a retry as long as its declared policy requires for this failure.",
    "BUGS.md C1, C2, C3",
    sees=[Prompt, Request],
    needs=[Need.AGENT, Need.RETRY],
)
def agent_backoff_matches_policy(subject: Subject) -> Watch:
    """A policy may count the failures of the run, or those since the last useful reply.

    `unsure` is the number of failures in the run that the agent may have left out of its count.
    """
    facts, policy = subject.facts, subject.retry
    assert policy is not None
    epoch_ns = EPOCH_NS + _skew_ns(subject)
    in_run = in_row = unsure = 0
    while True:
        entry = yield
        if type(entry) is Prompt:
            in_run = in_row = unsure = 0
        if type(entry) is Prompt or entry.purpose != "main":
            continue
        reply = reply_before(facts)
        if reply is None:
            continue
        if reply.is_closed and not is_useless(reply):
            in_row = 0
            continue
        in_run, in_row = in_run + 1, in_row + 1
        unsure += may_be_uncounted(facts, reply)
        if not facts.goes_on or facts.added or not reply.is_closed:
            continue
        waited = entry.at_ns - reply.at_ns
        now_ns = epoch_ns + reply.at_ns
        least_count = max(1, min(in_run, in_row) - unsure)
        counts = range(in_run, least_count - 1, -1) if unsure else (in_run, in_row)
        # A Retry-After that is a date may be over on the clock of the agent, and on ours not yet.
        clocks = (now_ns, now_ns - _CLOCK_NS, now_ns + _CLOCK_NS)
        spans = [wait_range(policy, each, reply.fault, at) for each in counts for at in clocks]
        if not any(least - _CLOCK_NS <= waited <= most + _CLOCK_NS for least, most in spans):
            least, most = spans[0]
            span = (
                f"{least / NS_PER_MS:g}"
                if least == most
                else (f"{least / NS_PER_MS:g} to {most / NS_PER_MS:g}")
            )
            return (
                f"request {entry.number} is sent {waited / NS_PER_MS:g} ms after failure {in_run} "
                f"of the run, not {span} ms"
            )


@invariant(
    "An agent retries no earlier than the Retry-After of the failure allows.",
    "BUGS.md C1, C3",
    sees=[Request],
    needs=[Need.AGENT],
)
def retry_after_respected(subject: Subject) -> Watch:
    """The wait is that of the last failure. A Retry-After of over a minute is not judged."""
    if subject.retry is not None:
        return ""  # `agent_backoff_matches_policy` judges its waits exactly
    facts = subject.facts
    epoch_ns = EPOCH_NS + _skew_ns(subject)
    while True:
        entry = yield
        reply = reply_before(facts) if entry.purpose == "main" else None
        if reply is None or reply.fault is None or not reply.fault.headers or not facts.goes_on:
            continue
        asked = asked_ns(reply.fault, epoch_ns + reply.at_ns)
        waited = entry.at_ns - reply.at_ns
        if asked is not None and waited + _CLOCK_NS < asked <= _MINUTE_NS:
            return (
                f"request {entry.number} is sent {waited / NS_PER_MS:g} ms after a failure that "
                f"asked for {asked / NS_PER_MS:g} ms"
            )


_MINUTE_NS = 60_000 * NS_PER_MS
_HOUR_NS = 60 * _MINUTE_NS
_RATE_LIMIT = 429


@invariant(
    "An agent retries within an hour, unless the failure asks for a longer wait.",
    "BUGS.md C1, C3",
    sees=[Request],
    needs=[Need.AGENT],
)
def retries_within_an_hour(subject: Subject, entry: Any) -> str:
    """A longer wait is a wait in the wrong unit, or a backoff without a cap.

    A rate limit of some hours may be known to the agent, and so may a date in another notation.
    So the Retry-After of such failures must ask for at most a minute.
    """
    facts = subject.facts
    reply = reply_before(facts) if entry.purpose == "main" and subject.retry is None else None
    if reply is None or entry.at_ns - reply.at_ns <= _HOUR_NS or facts.added or not facts.goes_on:
        return ""
    fault = reply.fault
    if fault is None:
        return ""
    asked = asked_ns(fault, EPOCH_NS + _skew_ns(subject) + reply.at_ns)
    if asked is None:
        silent = fault.header("retry-after") is None and fault.header("retry-after-ms") is None
        is_judged = silent and fault.status != _RATE_LIMIT
    else:
        is_judged = asked <= _MINUTE_NS
    hours = (entry.at_ns - reply.at_ns) / _HOUR_NS
    text = f"request {entry.number} is sent {hours:.1f} hours after a failure that asked for "
    return f"{text}{'no wait' if asked is None else _seconds(asked)}" if is_judged else ""


def _seconds(ns: int) -> str:
    return f"{ns / (1_000 * NS_PER_MS):g} s"


_AT_ONCE = 3


@invariant(
    "An agent makes at most two retries in a row without a wait.",
    "BUGS.md C1, A11",
    sees=[Prompt, Request],
    needs=[Need.AGENT],
)
def repeated_retries_wait(subject: Subject) -> Watch:
    """Two immediate retries may help after a lost connection; three in a row do harm."""
    facts, at_once = subject.facts, 0
    while True:
        entry = yield
        if type(entry) is Prompt or entry.purpose != "main":
            continue
        reply = reply_before(facts)
        is_retry = reply is not None and reply.fault is not None and facts.goes_on
        if not is_retry or reply is None or entry.at_ns > reply.at_ns:
            at_once = 0
        else:
            at_once += 1
            if at_once >= _AT_ONCE:
                return f"request {entry.number} is retry {at_once} in a row without a wait"


_USUAL = ExponentialBackoff()
_ANSWERS = frozenset({FinishReason.STOP, FinishReason.TOOL_CALLS, FinishReason.OTHER})


def is_useless(reply: ReceivedReply) -> bool:
    """Return whether a reply has failed, or has neither text nor the calls that it announces."""
    if reply.finish is None or reply.finish is FinishReason.INTERRUPTED:
        return reply.is_closed
    if reply.calls or reply.finish not in _ANSWERS:
        return False
    return reply.finish is FinishReason.TOOL_CALLS or not reply.text.strip()


def may_be_uncounted(facts: Facts, reply: ReceivedReply) -> bool:
    """Return whether an agent may count the failure of `reply` as one, or not.

    It may have given up a reply that takes too long. An overflow costs a compaction, and not an
    error, if the agent has shortened its context.
    """
    if not reply.is_closed:
        return True
    fault = reply.fault
    if fault is None or facts.goes_on:
        return False
    return _USUAL.classify(fault) is ErrorClass.OVERFLOW


def reply_before(facts: Facts) -> ReceivedReply | None:
    """Return the reply to the main request before the newest one of the run."""
    return None if facts.previous is None else facts.replies.get(facts.previous.number)


_HOPELESS = frozenset({400, 401, 403, 404, 413, 422})


@invariant(
    "An agent does not repeat a request that failed permanently.",
    "BUGS.md C7, B15, C1",
    sees=[Request],
    needs=[Need.AGENT],
)
def no_retry_of_permanent_failure(subject: Subject) -> Watch:
    """A bad request or a wrong key fails again, unless its words tell of a rate limit.

    A declared policy names the permanent failures.
    """
    facts, policy = subject.facts, subject.retry

    def is_hopeless(fault: Fault) -> bool:
        if policy is not None:
            return not policy.retryable(policy.classify(fault))
        return fault.status in _HOPELESS and not _USUAL.retryable(_USUAL.classify(fault))

    while True:
        entry = yield
        reply = reply_before(facts) if entry.purpose == "main" else None
        before, request = facts.previous, facts.request
        if reply is None or reply.fault is None or before is None or request is None:
            continue
        same = facts.kept == len(before.messages) == len(request.messages)
        same = same and (before.system_prompt, before.tools) == (
            request.system_prompt, request.tools,
        )  # fmt: skip
        if same and reply.fault.code != "interrupted" and is_hopeless(reply.fault):
            return (
                f"request {entry.number} repeats one that failed permanently: "
                f"{reply.fault.message!r:.80} (status {reply.fault.status})"
            )


class _Spent:
    """The steps and the errors of the run so far, counted as the limits define them.

    `unsure` is the number of further failures, which may count as errors or not.
    """

    def __init__(self, subject: Subject) -> None:
        assert subject.limits is not None
        self.facts, self.limits = subject.facts, subject.limits
        self.steps = self.errors = self.unsure = self.overflows = 0

    def add(self, reply: ReceivedReply | None, *, retried: bool) -> None:
        """Count a reply of the run. An empty reply may count as an error or as an answer."""
        if reply is None:
            return
        self.steps += reply.finish is not None
        failed = is_useless(reply) and (retried or reply.finish is None)
        unsure = may_be_uncounted(self.facts, reply)
        if unsure and reply.is_closed:
            self.overflows += 1
            unsure = self.overflows <= self.limits.max_compaction_attempts
        self.unsure += unsure or (is_useless(reply) and not failed)
        self.errors += failed and not unsure

    @property
    def may_be_at_limit(self) -> bool:
        """Return whether a limit is reached, if each failure counts as an error.

        An agent may have a bound that it does not declare.
        """
        errors, steps = self.limits.max_error_count, self.limits.max_steps
        may_have_failed = self.errors + self.unsure >= (1 if errors == inf else errors)
        return may_have_failed or self.steps >= (1 if steps == inf else steps)

    @property
    def limit(self) -> str:
        """Return the limit that is reached, or an empty text."""
        if self.errors >= self.limits.max_error_count:
            return f"max_error_count={self.limits.max_error_count}"
        if self.steps >= self.limits.max_steps:
            return f"max_steps={self.limits.max_steps}"
        return ""


@invariant(
    "An agent makes no model call after it has reached a limit that it declares.",
    "BUGS.md A1, A11, A13, C1, E1",
    sees=[Prompt, Request],
    needs=[Need.AGENT, Need.LIMITS],
)
def agent_respects_its_limits(subject: Subject) -> Watch:
    """Each reply counts as a step, and each failed or useless reply also as an error."""
    facts, spent = subject.facts, _Spent(subject)
    while True:
        entry = yield
        if type(entry) is Prompt:
            spent = _Spent(subject)
        elif entry.purpose == "main":
            spent.add(reply_before(facts), retried=not facts.added)
            if spent.limit:
                return (
                    f"request {entry.number} is sent after {spent.steps} steps and "
                    f"{spent.errors} errors; the agent declares {spent.limit}"
                )


@invariant(
    "An agent that declares limits and a retry policy does not fail while a retry is left.",
    "BUGS.md C4, C6, E6, E9",
    sees=[Prompt, Request, Ended],
    needs=[Need.AGENT, Need.LIMITS, Need.RETRY],
)
def agent_uses_its_retries(subject: Subject) -> Watch:
    """A second run begins like the first: with no failure and no step."""
    facts, policy, spent = subject.facts, subject.retry, _Spent(subject)
    assert policy is not None
    while True:
        entry = yield
        if type(entry) is Prompt:
            spent = _Spent(subject)
        elif type(entry) is Request:
            if entry.purpose == "main":
                spent.add(reply_before(facts), retried=not facts.added)
        elif entry.outcome is Outcome.FAILED and facts.stop is None:
            reply = facts.reply
            spent.add(reply, retried=True)
            fault = None if reply is None else reply.fault
            if fault is None or spent.may_be_at_limit:
                continue
            if policy.retryable(policy.classify(fault)):
                return (
                    f"the run fails after {spent.errors} errors, of which the last can be retried; "
                    f"the agent declares max_error_count={spent.limits.max_error_count}"
                )


@invariant(
    "An agent that declares limits does not fail after a reply whose tools have run, unless a "
    "limit is reached.",
    "BUGS.md E1, E6, E9",
    sees=[Prompt, Request, ToolResult, Ended],
    needs=[Need.AGENT, Need.LIMITS],
)
def agent_uses_its_steps(subject: Subject) -> Watch:
    """Each run has the full limits, whatever the run before it has used."""
    facts, spent, results = subject.facts, _Spent(subject), 0
    while True:
        entry = yield
        kind = type(entry)
        if kind is Prompt:
            spent = _Spent(subject)
        elif kind is ToolResult:
            results += 1
        elif kind is Request:
            results = 0
            if entry.purpose == "main":
                spent.add(reply_before(facts), retried=not facts.added)
        elif entry.outcome is Outcome.FAILED and facts.stop is None:
            reply = facts.reply
            spent.add(reply, retried=True)
            if reply is None or spent.may_be_at_limit or reply.finish not in _ANSWERS:
                continue
            if 0 < len(reply.calls) <= results:
                return (
                    f"the run fails after {spent.steps} steps and {spent.errors} errors, and the "
                    f"agent declares max_steps={spent.limits.max_steps}"
                )


@invariant(
    "An agent does not fail after the model has answered.",
    "BUGS.md D16, D17, E4",
    sees=[Prompt, Queued, Ended],
    needs=[Need.AGENT],
    begins=[Queued, Ended],
)
def no_failure_after_an_answer(subject: Subject) -> Watch:
    """A reply with text and without calls, also half ones, which ended by itself, is an answer.

    A message of the user that no request of the run has needs a further answer.
    """
    facts = subject.facts
    said: set[str] = set()
    while True:
        entry = yield
        if type(entry) is not Ended:
            said = said | {entry.text} if type(entry) is Queued else set()
            continue
        reply, request = facts.reply, facts.request
        if request is not None and said - {message.text for message in request.messages}:
            continue
        if entry.outcome is not Outcome.FAILED or facts.stop is not None or reply is None:
            continue
        if reply.calls or reply.has_half_call:
            continue
        if reply.finish is FinishReason.STOP and reply.text.strip():
            return f"the run fails ({entry.message!r:.80}), and the model has answered"


_FAILING = 25


@invariant(
    "An agent without limits gives up after 25 useless replies in a row.",
    "BUGS.md A1, A2, A7, A10, A13, A15, C1",
    sees=[Prompt, Request],
    needs=[Need.AGENT],
)
def agent_stops_without_progress(subject: Subject) -> Watch:
    """The bound holds in the place of `max_steps` and `max_error_count`, if neither is declared."""
    limits = subject.limits or DeclaredLimits()
    if min(limits.max_steps, limits.max_error_count) < inf:
        return ""
    failing = 0
    while True:
        entry = yield
        if type(entry) is Prompt:
            failing = 0
            continue
        reply = reply_before(subject.facts) if entry.purpose == "main" else None
        if reply is None:
            continue
        failing = failing + 1 if is_useless(reply) else 0
        if failing >= _FAILING:
            return f"request {entry.number} is sent after {failing} useless replies in a row"


@invariant(
    "An agent does not block the event loop for a second or more.",
    "asyncio, Running Blocking Code",
    sees=[LoopBlocked],
    needs=[Need.AGENT],
)
def event_loop_not_blocked(_: Subject, entry: LoopBlocked) -> str:
    """While the loop is blocked, no other task runs, and no timeout or abort can end the call.

    Shorter calls are not in the trace: a program that polls, or takes a lock, blocks for moments.
    """
    return f"a call blocks the event loop for {clock(entry.took_ns)} at {entry.place}"


@invariant(
    "No task of an agent fails without any code that looks at its exception.",
    "asyncio, Detect never-retrieved exceptions",
    sees=[LeftBehind],
    needs=[Need.AGENT],
)
def no_failure_unseen(_: Subject, entry: LeftBehind) -> str:
    """The agent goes on without the work of the task, and only a log tells of it, or nothing."""
    if entry.what != "exception":
        return ""
    return f"a task fails at {entry.place}, and no code looks at it: {entry.name:.80}"


@invariant(
    "If an agent answers a call with a tool of its own, the request contains the reply, with its "
    "text and its calls unchanged.",
    "BUGS.md C10, C13, D9, D13",
    sees=[ToolStarted, Request],
    needs=[Need.AGENT],
)
def answered_replies_kept(subject: Subject) -> Watch:
    """The result in the request is the only sign of a tool that the agent runs itself."""
    facts = subject.facts
    ran: set[str] = set()
    while True:
        entry = yield
        if type(entry) is ToolStarted:
            ran.add(entry.call_id)
            continue
        before = facts.before
        reply = None if before is None else facts.replies.get(before.number)
        if entry.purpose != "main" or reply is None or reply.finish not in WHOLE:
            continue
        answered = {one.call_id for one in facts.added if type(one) is ToolMessage} - ran
        if not facts.goes_on or answered.isdisjoint(call.id for call in reply.calls):
            continue
        if wrong := unlike(reply, facts.added):
            return f"request {entry.number} {wrong}"
