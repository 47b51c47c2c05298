"""Invariants on the limits, the failures and the tasks of agents of the user's own.

Their `limits` are judged if they declare them.
"""

from math import inf
from typing import Any

from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.requests import WHOLE
from simloop.check.invariants.retry import is_useless, may_be_uncounted, reply_before
from simloop.check.invariants.subject import Subject
from simloop.kernel.limits import DeclaredLimits
from simloop.messages import FinishReason, Outcome
from simloop.trace.entries import (
    Ended,
    LeftBehind,
    LoopBlocked,
    Prompt,
    Queued,
    Request,
    ToolResult,
)
from simloop.trace.facts import ReceivedReply
from simloop.trace.kinds import clock


class _Spent:
    """The steps and the errors of the run so far, counted as the limits define them.

    `unsure` is the number of further failures, which may count as errors or not, and `results`
    that of the tool results since the newest request.
    """

    def __init__(self, subject: Subject) -> None:
        assert subject.limits is not None
        self.facts, self.limits = subject.facts, subject.limits
        self.steps = self.errors = self.unsure = self.overflows = self.results = 0
        self.newest: object = None

    def read(self, entry: Any) -> None:
        """Count the reply before a main request, or before the end of a run that fails."""
        if type(entry) is ToolResult:
            self.results += 1
        elif type(entry) is Request:
            self.results = 0
            self._add(reply_before(self.facts, entry), retried=not self.facts.added)
        elif type(entry) is Ended:
            self._add(self.facts.reply, retried=True)

    def _add(self, reply: ReceivedReply | None, *, retried: bool) -> None:
        """Count a reply. An empty one may count as an error or as an answer."""
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


_SPENDING = (Prompt, Request, ToolResult, Ended)


def _spent(subject: Subject, entry: Any) -> _Spent:
    """Return the count that the invariants on limits share, after they have seen an entry."""
    spent: _Spent | None = subject.shared.get("spent")
    if spent is None or (type(entry) is Prompt and spent.newest is not entry):
        spent = subject.shared["spent"] = _Spent(subject)
    if spent.newest is not entry:
        spent.newest = entry
        spent.read(entry)
    return spent


@invariant(
    "An agent makes no model call after it has reached a limit that it declares.",
    "BUGS.md A1, A11, A13, C1, E1",
    sees=_SPENDING,
    needs=[Need.AGENT, Need.LIMITS],
)
def agent_respects_its_limits(subject: Subject, entry: Any) -> str:
    """Each reply counts as a step, and each failed or useless reply also as an error."""
    spent = _spent(subject, entry)
    if type(entry) is not Request or entry.purpose != "main" or not spent.limit:
        return ""
    return (
        f"request {entry.number} is sent after {spent.steps} steps and {spent.errors} errors; "
        f"the agent declares {spent.limit}"
    )


def _fails_early(subject: Subject, entry: Any) -> _Spent | None:
    """Return the count of a run that fails after a reply, and certainly below its limits."""
    spent, facts = _spent(subject, entry), subject.facts
    if type(entry) is not Ended or entry.outcome is not Outcome.FAILED or facts.stop is not None:
        return None
    return None if facts.reply is None or spent.may_be_at_limit else spent


@invariant(
    "An agent that declares limits and a retry policy does not fail while a retry is left.",
    "BUGS.md C4, C6, E6, E9",
    sees=_SPENDING,
    needs=[Need.AGENT, Need.LIMITS, Need.RETRY],
)
def agent_uses_its_retries(subject: Subject, entry: Any) -> str:
    """A second run begins like the first: with no failure and no step."""
    spent, policy, reply = _fails_early(subject, entry), subject.retry, subject.facts.reply
    fault = None if reply is None else reply.fault
    if spent is None or policy is None or fault is None:
        return ""
    if not policy.retryable(policy.classify(fault)):
        return ""
    return (
        f"the run fails after {spent.errors} errors, of which the last can be retried; "
        f"the agent declares max_error_count={spent.limits.max_error_count}"
    )


@invariant(
    "An agent that declares limits does not fail after a reply whose tools have run, unless a "
    "limit is reached.",
    "BUGS.md E1, E6, E9",
    sees=_SPENDING,
    needs=[Need.AGENT, Need.LIMITS],
)
def agent_uses_its_steps(subject: Subject, entry: Any) -> str:
    """Each run has the full limits, whatever the run before it has used."""
    spent, reply = _fails_early(subject, entry), subject.facts.reply
    if spent is None or reply is None or reply.finish not in WHOLE:
        return ""
    if not 0 < len(reply.calls) <= spent.results:
        return ""
    return (
        f"the run fails after {spent.steps} steps and {spent.errors} errors, and the agent "
        f"declares max_steps={spent.limits.max_steps}"
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
        reply = reply_before(subject.facts, entry)
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
