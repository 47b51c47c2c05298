"""Invariants on agents of the user's own, which leave no entries but those of the boundary.

The `limits` and `retry` of an agent are judged if it declares them. Not here: its waits
(agent_waits.py), and machines, which counters.py and retry.py judge by their transitions. The rule
to keep: a request counts as a retry only if it goes on from the request whose reply failed, because
an agent may have several conversations at once.
"""

from math import inf

from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.limits import DeclaredLimits
from simloop.kernel.retry import ExponentialBackoff
from simloop.messages import Fault, FinishReason, Outcome
from simloop.trace.entries import Ended, Prompt, Queued, Request, ToolResult
from simloop.trace.facts import Facts, ReceivedReply

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
    """The bound holds in the place of `max_steps` and `max_error_count`, if neither is declared.

    A run whose requests bring nothing new is a RunawayRun instead, see trace/novelty.py.
    """
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
