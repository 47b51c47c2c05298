"""Invariants on agents of the user's own: their retries, limits, failures and tasks.

Their `limits` and `retry` are judged if they declare them. A wait of an agent that declares no
policy is judged only by bounds that every policy keeps. A request is a retry only if it goes on
from the request whose reply failed: an agent may have several conversations.
"""

import re
from collections import Counter, defaultdict
from itertools import pairwise, product
from math import inf
from typing import Any

from msgspec import structs

from simloop.check.invariants.invariant import Need, Watch, invariant, of_agents
from simloop.check.invariants.requests import WHOLE
from simloop.check.invariants.subject import PATTERNS, WORDS, MainRequest, Subject, tells
from simloop.kernel.errorclass import OK, ErrorClass, class_of_status
from simloop.kernel.limits import DeclaredLimits, Limits
from simloop.kernel.retry import ExponentialBackoff, RetryPolicy, retry_after_ns
from simloop.messages import Fault, FinishReason, Outcome, UserMessage, json_value
from simloop.trace import entries
from simloop.trace.facts import Facts, ReceivedReply
from simloop.trace.kinds import clock
from simloop.virtual.clock.instants import EPOCH_NS

NS_PER_MS = 1_000_000
_DRAWS = (0.0, 1 - 2**-53)  # the least and the most; an agent on an SDK may add as much
_CLOCK_NS = NS_PER_MS
"""The finest difference in time that an agent is judged by: many programs count in milliseconds."""
MINUTE_NS = 60_000 * NS_PER_MS
_SOON_MS, _HOUR_NS = 10_000, 60 * MINUTE_NS
RATE_LIMIT = 429
AT_ONCE = 3  # retries in a row without a wait
_USUAL = ExponentialBackoff()  # knows the failures that the words beside a status make hopeless
_HOPELESS = frozenset({400, 401, 403, 404, 413, 422})
OUTPUT_TOOL = "final_result"  # that of pydantic-ai, by which a model gives an object
_SPENDING = (entries.Prompt, entries.Request, entries.ToolResult, entries.Input, entries.Ended)
_REFUSED = 400  # the status of a service
_ALIKE, _AGAIN = 3, 2  # runs in a row; replies that call a tool, which may be given up then
_IDLE_NS = 5_000 * NS_PER_MS
_BEGIN = (entries.Request, entries.ServiceRequest, entries.ProgramStarted)
_END = (
    entries.Finish,
    entries.Error,
    entries.StreamCut,
    entries.ServiceReply,
    entries.ProgramEnded,
)
_PASSING = frozenset({500, 503, "connection", "overloaded_error"})  # statuses and codes
_SDKS = re.compile("openai|anthropic")
_MENDED = ("interrupted", "previous_response_not_found")  # the whole history is sent then
_OWN_ERRORS = 6  # no agent has so many that declares no number of them
_DONE = ("name", "text", "status", "failure", "body", "exit")  # what tools, services, programs did


def _without_ms(fault: Fault | None) -> Fault | None:
    """Return a failure without the header of some providers, which an agent need not know."""
    if fault is None:
        return None
    kept = tuple(each for each in fault.headers if each[0] != "retry-after-ms")
    return structs.replace(fault, headers=kept)


def _waits(
    policy: RetryPolicy, failures: int, fault: Fault | None, now_ns: int, *, by_sdk: bool
) -> tuple[int, int]:
    draws = (-1.0, *_DRAWS) if by_sdk and isinstance(policy, ExponentialBackoff) else _DRAWS
    waits = [policy.delay_ns(failures, fault, now_ns=now_ns, draw=each) for each in draws]
    return min(waits), max(waits)


def is_useless(reply: ReceivedReply) -> bool:
    """Return whether a reply has failed, or has neither text nor the calls that it announces."""
    if reply.finish is None or reply.finish is FinishReason.INTERRUPTED:
        return reply.is_closed
    if reply.calls or reply.finish not in WHOLE:
        return False
    return reply.finish is FinishReason.TOOL_CALLS or not reply.text.strip()


def may_be_uncounted(facts: Facts, reply: ReceivedReply) -> bool:
    """Return whether an agent may count the failure of `reply` as one, or not.

    It may have given up a reply that takes too long. An overflow costs a compaction, and not an
    error, if the agent has shortened its context.
    """
    return not reply.is_closed or (has_overflowed(reply) and not facts.goes_on)


def has_overflowed(reply: ReceivedReply) -> bool:
    """Return whether the provider calls the conversation too long: an agent may shorten it."""
    return reply.fault is not None and _USUAL.classify(reply.fault) is ErrorClass.OVERFLOW


def reply_before(facts: Facts, entry: Any) -> ReceivedReply | None:
    """Return the reply to the main request before `entry` in its run.

    There is none before the first one, and for an entry that is no main request.
    """
    if type(entry) is not entries.Request or entry.purpose != "main" or facts.previous is None:
        return None
    return facts.replies.get(facts.previous.number)


def _retried(facts: Facts, entry: Any) -> ReceivedReply | None:
    """Return the reply before, if the request may repeat its request.

    Another model, which an agent falls back to, has not failed, and another system prompt asks for
    something else. If one of several agents has called a tool meanwhile, the model may have asked
    for the work again, and after a summary a context that was too long may fit.
    """
    before, request = facts.previous, facts.request
    if before is None or request is None or before.model != entry.model:
        return None
    if before.system_prompt != request.system_prompt:
        return None
    replies = map(facts.replies.get, range(before.number + 1, entry.number))
    between, reply = [each for each in replies if each], reply_before(facts, entry)
    is_summed = any(each.text for each in between) and reply and has_overflowed(reply)
    return None if is_summed or any(each.calls for each in between) else reply


def _agent_ns(subject: Subject, at_ns: int) -> int:
    clock = None if subject.scenario is None else subject.scenario.clock
    return EPOCH_NS + at_ns + (0 if clock is None else clock.ahead - clock.behind)


def _ms(ns: int) -> str:
    return f"{ns / NS_PER_MS:g}"


@invariant("An agent waits before a retry as long as its declared policy requires for this "
           "failure.", "BUGS.md C1, C2, C3", sees=[entries.Prompt, entries.Request],
           needs=[Need.AGENT, Need.RETRY])  # fmt: skip
def agent_backoff_matches_policy(subject: Subject) -> Watch:
    """A policy may count the failures of the run, or those since the last useful reply.

    `unsure` is the number of failures in the run that the agent may have left out of its count. It
    may count those of its other conversations, such as a summary, too.
    """
    facts, policy = subject.facts, subject.retry
    assert policy is not None
    failures: defaultdict[int, tuple[int, int, int]] = defaultdict(lambda: (0, 0, 0))
    while entry := (yield):
        if type(entry) is entries.Prompt:
            failures.clear()
        if (reply := reply_before(facts, entry)) is None:
            continue
        in_run, in_row, unsure = failures[facts.conversation]
        if reply.is_closed and not is_useless(reply):
            failures[facts.conversation] = in_run, 0, unsure
            continue
        in_run, in_row = in_run + 1, in_row + 1
        unsure += may_be_uncounted(facts, reply) or reply.finish is not None  # it is empty
        failures[facts.conversation] = in_run, in_row, unsure
        if not facts.goes_on or facts.added or not reply.is_closed or not _retried(facts, entry):
            continue
        waited, now_ns = entry.at_ns - reply.at_ns, _agent_ns(subject, reply.at_ns)
        least_count = max(1, min(in_run, in_row) - unsure)
        of_run = facts.main_replies[facts.earlier_replies :]
        useless = [one for one in of_run if is_useless(one) or one.finish not in (None, *WHOLE)]
        without = {each.number for each in facts.sent.values() if facts.lacks_tools(each)}
        useless += [one for one in of_run if one.calls and one.number in without]
        most = max(in_run, len(useless))
        is_known = not unsure and most == in_run
        counts = (in_run, in_row) if is_known else range(most, least_count - 1, -1)
        # A Retry-After that is a date may be over on the clock of the agent, and on ours not yet.
        clocks = (now_ns, now_ns - _CLOCK_NS, now_ns + _CLOCK_NS)
        faults = [reply.fault, _without_ms(reply.fault)]
        if reply.fault and waited >= (retry_after_ns(reply.fault, now_ns) or 0):
            faults.append(structs.replace(reply.fault, headers=()))  # the longer wait is its own
        by_sdk = _SDKS.search(subject.source) is not None
        spans = [_waits(policy, *each, by_sdk=by_sdk) for each in product(counts, faults, clocks)]
        # An empty reply is no failed call.
        asked = reply.fault.header("retry-after") or "now" if reply.fault else "0" * by_sdk
        spans += [(0, 0)] if asked == "0" or asked.startswith("-") else []
        if getattr(policy, "max_retry_after_ms", 0) == _USUAL.max_retry_after_ms and reply.fault:
            long_ns = retry_after_ns(reply.fault, now_ns) or spans[0][0]  # no bound is declared
            spans.append((long_ns, long_ns))
        if not any(least - _CLOCK_NS <= waited <= most + _CLOCK_NS for least, most in spans):
            span = " to ".join(dict.fromkeys(map(_ms, spans[0])))
            failed = f"request {reply.number} failed, as failure {in_run} of the run"
            return f"request {entry.number} is sent {_ms(waited)} ms after {failed}, not {span} ms"


@of_agents("Before a retry, an agent waits as long as the Retry-After of the failure asks, and "
           "without one at most an hour.", "BUGS.md C1, C3", sees=[entries.Request])  # fmt: skip
def retry_after_respected(subject: Subject, entry: Any) -> str:
    """A longer wait is a wait in the wrong unit, or a backoff without a cap.

    `agent_backoff_matches_policy` judges an agent that declares its policy. An SDK waits a few
    seconds where it is asked for over a minute. A rate limit of some hours may be known to the
    agent, and so may a date in another notation.
    """
    facts, reply = subject.facts, _retried(subject.facts, entry)
    fault = None if reply is None or subject.retry is not None else reply.fault
    if reply is None or fault is None or not facts.goes_on:
        return ""
    waited = entry.at_ns - reply.at_ns
    asked = retry_after_ns(fault, _agent_ns(subject, reply.at_ns))
    if asked and asked > MINUTE_NS and not _SOON_MS * NS_PER_MS < waited < min(asked, _HOUR_NS):
        return ""
    failed = f"request {reply.number} failed and"
    if asked is not None and waited + _CLOCK_NS < asked:
        after = f"{_ms(waited)} ms after {failed} asked for {_ms(asked)} ms"
        return f"request {entry.number} is sent {after}"
    silent = fault.header("retry-after") is None and fault.header("retry-after-ms") is None
    is_known = asked is not None or (silent and fault.status != RATE_LIMIT)
    if not is_known or waited <= _HOUR_NS or facts.added:
        return ""
    wait = "no wait" if asked is None else f"{_ms(asked)} ms"
    after = f"{waited / _HOUR_NS:.1f} hours after {failed} asked for {wait}"
    return f"request {entry.number} is sent {after}"


@of_agents("An agent makes at most two retries in a row without a wait.",
           "BUGS.md C1, A11", sees=[MainRequest])  # fmt: skip
def repeated_retries_wait(subject: Subject) -> Watch:
    """Two immediate retries may help after a lost connection; three in a row do harm."""
    facts, at_once = subject.facts, Counter[int]()
    while entry := (yield):
        reply = _retried(facts, entry)
        is_retry = reply is not None and reply.fault is not None and facts.goes_on
        if not (is_retry and reply and entry.at_ns <= reply.at_ns):
            del at_once[facts.conversation]
            continue
        at_once[facts.conversation] += 1
        if (count := at_once[facts.conversation]) >= AT_ONCE:
            failed = f"after request {reply.number} failed"
            return f"request {entry.number} is retry {count} in a row without a wait, {failed}"


@of_agents("An agent does not repeat a request that failed permanently.",
           "BUGS.md C7, B15, C1", sees=[entries.Request])  # fmt: skip
def no_retry_of_permanent_failure(subject: Subject, entry: Any) -> str:
    """A bad request or a wrong key fails again, unless its words tell of a rate limit.

    A declared policy names the permanent failures. A status that passes goes before a code, except
    that a rate limit may be a quota, which an SDK tries again by itself.
    """
    facts, policy = subject.facts, subject.retry
    reply, before, request = _retried(facts, entry), facts.previous, facts.request
    fault = None if reply is None else reply.fault
    if fault is None or fault.code in _MENDED or before is None or request is None:
        return ""
    deciding = _USUAL if policy is None else policy
    status = fault.status if isinstance(fault.status, int) and fault.status != OK else None
    found = class_of_status(status), deciding.classify(fault)
    is_by_sdk = _SDKS.search(subject.source) is not None and "max_retries=0" not in subject.source
    is_quota = found == (ErrorClass.RATE_LIMIT, ErrorClass.QUOTA) and not is_by_sdk
    passes = deciding.retryable(found[0]) and not is_quota
    is_known = (policy is not None and bool(status or fault.code)) or status in _HOPELESS
    if not is_known or passes or fault.code in _PASSING or deciding.retryable(found[1]):
        return ""
    same = facts.kept == len(before.messages) == len(request.messages)
    if not same or before.system_prompt != request.system_prompt or before.tools != request.tools:
        return ""
    words = f"{fault.message!r:.80} (status {fault.status})"
    failed = f"request {before.number}, which failed permanently"
    return f"request {entry.number} repeats {failed}: {words}"


@of_agents("A run of an agent does not fail by a mistake in its code, such as a KeyError.",
           "BUGS.md D16, D17, D18", sees=[entries.ToolResult, entries.Ended])  # fmt: skip
def no_mistake_in_the_code(subject: Subject, entry: Any) -> str:
    """A model may call a tool that does not exist, or write arguments that are no JSON.

    An agent that means to give up raises an error that says so. A scenario may expect the failure.
    An `assert` of a tool that fails is a mistake also where the agent tells the model of it.
    """
    if type(entry) is entries.ToolResult:
        is_broken = entry.is_error and entry.text.startswith("Error: AssertionError")
        return f"the tool {entry.name!r} of call {entry.call_id!r}: {entry.text:.160}" * is_broken
    cause = entry.message.removeprefix("Error: ")
    if cause.startswith("ExceptionGroup: "):
        cause = cause.partition("): ")[2]
    expected = subject.expected
    may_fail = Outcome.FAILED in (expected.outcome, *(expected.outcomes or ()))
    is_mistake = cause.partition(":")[0] in WORDS["mistakes"]
    is_mistake = is_mistake or cause.startswith(tuple(WORDS["conversions"]))
    if may_fail or entry.outcome is not Outcome.FAILED or not is_mistake:
        return ""
    reply = subject.facts.reply
    calls = "" if reply is None else ", ".join(call.name for call in reply.calls)
    return f"{cause:.160} after a reply that calls {calls}" if calls else f"{cause:.160}"


class _Spent:
    """The steps and the errors of a conversation in the run, counted as the limits define them.

    `unsure` is the number of further failures, which may count as errors or not, and `results`
    that of the tool results since the newest request. `failing` counts the requests in a row that
    tell of a failed tool. `aside` counts the requests without tools, for a summary perhaps, before
    one that offers some: an agent may count them as steps, or not. `empty` counts the replies
    without words or calls, which an agent need not count as steps, and `cut` those that are cut
    off, which it may count as errors instead.
    """

    def __init__(self, subject: Subject) -> None:
        assert subject.limits is not None
        self.facts, self.limits = subject.facts, subject.limits
        self.steps = self.errors = self.unsure = self.overflows = self.results = 0
        self.failing = self.aside = self.empty = self.cut = 0
        self.has_failed = self.has_left = False  # a tool; the user, so that nobody waits
        self.newest: object = None

    def read(self, entry: Any) -> None:
        """Count the reply before a main request, or before the end of a run that fails."""
        if type(entry) is entries.Input:
            self.has_left |= entry.ends
        elif type(entry) is entries.ToolResult:
            self.results += 1
            self.has_failed |= entry.is_error
        elif type(entry) is entries.Request:
            self.failing = self.failing + 1 if self.has_failed else 0
            self.results, self.has_failed = 0, False
            if self.facts.offers and self.facts.previous and not self.facts.previous.tools:
                self.aside += 1
            else:
                reply, is_retry = reply_before(self.facts, entry), not self.facts.added
                is_lost = bool(is_retry and reply and reply.calls)  # it was of no use
                self.unsure, self.empty = self.unsure + is_lost, self.empty + is_lost
                self._add(reply, retried=is_retry)
        elif type(entry) is entries.Ended:
            self._add(self.facts.reply, retried=True)

    def _add(self, reply: ReceivedReply | None, *, retried: bool) -> None:
        """Count a reply. One that is empty or cut off may be asked for again, or be an answer."""
        if reply is None:
            return
        failed = is_useless(reply) and (retried or reply.finish is None)
        is_empty = failed and reply.finish is not None
        self.steps, self.empty = self.steps + (reply.finish is not None), self.empty + is_empty
        if (unsure := may_be_uncounted(self.facts, reply)) and reply.is_closed:
            self.overflows += 1
            unsure = self.overflows <= self.limits.max_compaction_attempts
        may_fail = reply.finish not in (None, *WHOLE) or (is_useless(reply) and not failed)
        self.cut += may_fail
        self.unsure += unsure or may_fail
        self.errors += failed and not unsure

    @property
    def may_be_at_limit(self) -> bool:
        """Return whether a limit is reached, if each failure counts, or one of its own."""
        errors, steps = self.limits.max_error_count, self.limits.max_steps
        summaries = sum(each.purpose != "main" for each in self.facts.replies.values())
        failed = self.errors + self.unsure + self.aside + summaries
        may_have_failed = failed >= (1 if errors == inf else errors)
        tries = self.steps + self.aside + self.errors  # each may count as a step
        return may_have_failed or tries >= (1 if steps == inf else steps)

    @property
    def limit(self) -> str:
        """Return the limit that is reached, or an empty text."""
        if self.errors >= (most := self.limits.max_error_count):
            return f"max_error_count={most}"
        are_errors = self.errors + self.cut < min(most, _OWN_ERRORS)
        empty = self.empty * (self.errors < _OWN_ERRORS)
        if self.steps - empty - self.cut * are_errors >= self.limits.max_steps:
            return f"max_steps={self.limits.max_steps}"
        return ""


def _spent(subject: Subject, entry: Any) -> _Spent:
    """Return the count that the invariants on limits share, after they have seen an entry."""
    facts, prompt = subject.facts, subject.facts.prompt
    its = facts.conversation
    if type(entry) is entries.ToolResult:
        its = facts.conversation_of.get(facts.asked.get(entry.call_id, 0), its)
    key = "spent", prompt.seq if prompt else -1, its
    spent: _Spent = subject.shared.get(key) or subject.shared.setdefault(key, _Spent(subject))
    if spent.newest is not entry:
        spent.newest = entry
        spent.read(entry)
    return spent


@invariant("An agent makes no model call after it has reached a limit that it declares.",
           "BUGS.md A1, A11, A13, C1, E1", sees=_SPENDING, needs=[Need.AGENT,
           Need.LIMITS])  # fmt: skip
def agent_respects_its_limits(subject: Subject, entry: Any) -> str:
    """Each reply counts as a step, and each failed or useless reply also as an error.

    For the end of what is under way, an agent has some seconds beyond its deadline. It cannot keep
    one that a tool outlives, which returns all the same when it is cancelled.
    """
    tools = () if subject.scenario is None else subject.scenario.tools.values()
    spent, prompt = _spent(subject, entry), subject.facts.prompt
    if type(entry) is not entries.Request or prompt is None:
        return ""
    took_ns, most_ms = entry.at_ns - prompt.at_ns, spent.limits.max_wall_clock_ms or inf
    if took_ns / NS_PER_MS > most_ms + _SOON_MS and not any(each.outlives_cancel for each in tools):
        declares = f"the agent declares max_wall_clock={clock(round(most_ms * NS_PER_MS))}"
        return f"request {entry.number} is sent {clock(took_ns)} after the prompt; {declares}"
    if entry.purpose != "main" or not spent.limit:
        return ""
    spending = f"{spent.steps} steps and {spent.errors} errors; the agent declares {spent.limit}"
    return f"request {entry.number} is sent after {spending}"


@invariant("Below the limits that it declares, an agent does not fail after a reply that calls its "
           "tools, over a summary that it asks for, or while the retry policy that it declares "
           "allows a retry.", "BUGS.md C4, C6, E1, E6, E9", sees=_SPENDING, needs=[Need.AGENT,
           Need.LIMITS])  # fmt: skip
def agent_uses_its_limits(subject: Subject, entry: Any) -> str:
    """A second run begins like the first: with no failure and no step.

    Of several agents, nobody knows which one has made the run fail. One may have a bound on tools
    that fail again and again, or a framework that lets an exception of a tool end the run. Without
    a policy, two failures of a server can be retried.
    """
    spent, facts, policy = _spent(subject, entry), subject.facts, subject.retry
    reply = facts.reply if len(facts.conversations) == 1 else None
    if type(entry) is not entries.Ended or not has_failed(entry, facts.reply):
        return ""
    if facts.stop is not None or reply is None or facts.request is None:
        return ""
    if spent.has_left or entry.through:
        return ""
    took_ms = (entry.at_ns - facts.prompt.at_ns) / NS_PER_MS if facts.prompt else 0
    if took_ms >= (spent.limits.max_wall_clock_ms or inf):
        return ""
    limits, why = spent.limits, f"the run fails ({entry.message:.80})"
    is_last = spent.errors + spent.aside >= limits.max_error_count
    is_last = is_last or spent.steps + 1 >= limits.max_steps  # it may be asked to answer now
    of_run = facts.main_replies[facts.earlier_replies :]
    offers = any(facts.sent[each.number].tools for each in of_run if each.number in facts.sent)
    if offers and not facts.request.tools and not is_last:
        sent = [each for each in facts.sent.values() if each.number < facts.request.number]
        pairs = ((a, b) for a, b in pairwise(sent) if b.tools and not a.tools)
        plans = any(before.messages == after.messages for before, after in pairs)
        is_summary = type(facts.request.messages[-1]) is UserMessage and not plans
        return f"{why} over a request without tools" if is_summary and is_useless(reply) else ""
    if spent.may_be_at_limit:
        return ""
    spending = f"after {spent.steps} steps and {spent.errors} errors"
    is_of_anthropic = "anthropic" in subject.source
    can_be_retried = _can_be_retried(reply, policy, limits, is_of_anthropic=is_of_anthropic)
    if can_be_retried or _is_rate_taken_for_length(reply, entry.message):
        cause = entry.message.removeprefix("Error: ")
        why = f"the run fails {spending}, of which the last can be retried ({cause:.80})"
        return f"{why}; the agent declares max_error_count={limits.max_error_count}"
    if reply.finish in WHOLE and reply.calls and not spent.failing:
        missing = {call.name for call in reply.calls} - {each.name for each in facts.request.tools}
        is_usual = not missing and len({call.id for call in reply.calls}) == len(reply.calls)
        left = limits.max_steps - spent.steps - spent.errors - spent.unsure - spent.aside
        is_of_steps = 1 < left < inf and tells(entry.message, "steps")  # which begin anew
        is_bound = tells(entry.message, "bounds") and not is_of_steps
        names = {call.name for call in reply.calls}
        times = sum(not names.isdisjoint(call.name for call in each.calls) for each in of_run)
        is_bound_of_tool = is_bound and spent.has_failed and times > _AGAIN
        has_ended = len(reply.calls) <= spent.results and not is_bound_of_tool
        if has_ended or (is_usual and not is_bound):
            return f"{why} {spending}, and the agent declares max_steps={limits.max_steps}"
    return ""


@of_agents("A prompt does not fail where a prompt before it has gone on, after the same replies.",
           "BUGS.md E1, E6", sees=[entries.Prompt, entries.Request, entries.ToolResult,
           entries.ServiceReply, entries.ProgramEnded, entries.Ended])  # fmt: skip
def prompts_go_on_alike(subject: Subject) -> Watch:
    """Failures may be used up. Tools have done the same, as soon, beside as many summaries."""
    facts, went_on = subject.facts, dict[tuple[object, ...], int]()
    done: tuple[object, ...] = ()
    while entry := (yield):
        took_ns = entry.at_ns - (facts.prompt.at_ns if facts.prompt else 0)
        if type(entry) is entries.Prompt:
            done = ()
        elif type(entry) is entries.Request and entry.purpose == "main" and not facts.is_aside:
            reply = reply_before(facts, entry)  # none, if the conversation is a summary by now
            done = *done, _said(facts, reply) if reply else None
            went_on[done] = max(took_ns, went_on.get(done, 0))
        elif type(entry) is not entries.Ended:
            done = *done, *(getattr(entry, each, None) for each in _DONE)
        elif (
            facts.reply
            and has_failed(entry, facts.reply)
            and not (facts.stop or entry.through or has_overflowed(facts.reply))
        ):
            before_ns = went_on.get((*done, _said(facts, facts.reply)), -1)
            if took_ns <= before_ns and not tells(entry.message, "waits"):
                prompt = facts.prompt.text if facts.prompt else ""
                why = f"the run of the prompt {prompt!r:.60} fails ({entry.message:.80})"
                return f"{why} where a run before it went on, after the same replies"


def _said(facts: Facts, reply: ReceivedReply) -> tuple[object, ...]:
    calls = tuple((call.name, call.arguments) for call in reply.calls)
    tools = asked.tools if (asked := facts.sent.get(reply.number)) else ()
    return reply.finish, reply.fault, reply.text, calls, tuple(one.name for one in tools)


def has_failed(entry: entries.Ended, reply: ReceivedReply | None) -> bool:
    """Return whether a run has failed; an agent may tell so as its answer."""
    is_told = entry.outcome is Outcome.COMPLETED and reply and reply.fault
    return bool(entry.outcome is Outcome.FAILED or is_told)


def _is_rate_taken_for_length(reply: ReceivedReply, message: str) -> bool:
    """Return whether a run fails over a limit of the rate as if the conversation were too long."""
    if (fault := reply.fault) is None or fault.status != RATE_LIMIT:
        return False
    said = message.replace(fault.message, "")
    return "too long" in said and not re.search("(?i)wait|pause|retry", said)


def _can_be_retried(
    reply: ReceivedReply, policy: RetryPolicy | None, limits: Limits | DeclaredLimits,
    *, is_of_anthropic: bool,
) -> bool:  # fmt: skip
    if (fault := reply.fault) is None:
        return False
    asked_ns, asked = retry_after_ns(fault, EPOCH_NS + reply.at_ns), fault.header("retry-after")
    # Nobody waits a minute for an answer, or for a time that is neither seconds nor a date.
    most_ns = MINUTE_NS if policy else _SOON_MS * NS_PER_MS  # the agent may have less patience
    if (asked is not None and (asked_ns is None or "." in asked)) or (asked_ns or 0) > most_ns:
        return False
    if policy is None:
        words = {fault.status, fault.code} - (set() if is_of_anthropic else {"overloaded_error"})
        may_pass = _USUAL.retryable(_USUAL.classify(fault)) and not _PASSING.isdisjoint(words)
        return limits.max_error_count < inf and may_pass
    # The words of a hopeless status do not matter; one that no provider documents may be unknown.
    return fault.status not in {*_HOPELESS, 520} and policy.retryable(policy.classify(fault))


@invariant("An agent that declares `max_error_count` is not completed by an empty reply, or by one "
           "that lacks the calls that it announces.", "BUGS.md C6, E8", sees=[entries.Ended],
           needs=[Need.AGENT, Need.LIMITS])  # fmt: skip
def no_empty_answers(subject: Subject, entry: Any) -> str:
    """Such a reply is an error, which `max_error_count` counts."""
    facts, reply, limits = subject.facts, subject.facts.reply, subject.limits
    if limits is None or limits.max_error_count == inf or reply is None or reply.fault is not None:
        return ""
    if entry.outcome is not Outcome.COMPLETED or not is_useless(reply):
        return ""
    number = facts.request.number if facts.request else 0
    if not entry.text:  # blanks may be an answer
        return f"the run is completed without words, and the reply to request {number} has none"
    lacks = reply.finish is FinishReason.TOOL_CALLS
    return f"the run is completed, and the reply to request {number} lacks its calls" * lacks


@of_agents(
    "A further prompt reaches the model: its run does not fail before it sends a request, and "
    "three in a row do not end with one text without a request.",
    "BUGS.md D1, D2, E9; pydantic-ai #4728, #7977",
    sees=[entries.Prompt, entries.Request, entries.RequestRefused, entries.Ended],
)
def further_prompts_reach_the_model(subject: Subject) -> Watch:
    """A call without a result, or half a reply, may make a conversation unusable for ever.

    A request that the provider refuses is judged by `accepted-requests` alone. A program may ask
    back itself, or fail by one of its own. An agent may tell its user to wait, for a limit of users
    or after failures of the provider.
    """
    asked = is_asked = False
    told = list[str]()  # the texts of the last runs without a request
    while entry := (yield):
        if type(entry) is entries.Prompt:
            is_asked = False
        elif type(entry) is entries.Request:
            asked, is_asked, told = True, True, []
        elif type(entry) is entries.RequestRefused:
            is_asked = True
        elif asked and not (is_asked or subject.facts.stop or _is_failure(subject.facts.earlier)):
            told = [*told, entry.text][-_ALIKE:]
            is_question = "?" in entry.text or "yes" in entry.text.lower()
            is_stuck = len(told) == _ALIKE and len({*told}) == 1 and not is_question
            why = entry.message if entry.outcome is Outcome.FAILED else entry.text
            is_told = tells(why, "waits") or _waits_still(subject.facts, entry.at_ns)
            if (entry.outcome is Outcome.FAILED or is_stuck) and not is_told:
                prompt = subject.facts.prompt
                said = "" if prompt is None else prompt.text
                return f"the run of the prompt {said!r:.60} sends no request: {why:.120}"


@of_agents("An agent does not fail after the model has answered.", "BUGS.md D16, D17, E4",
           sees=[entries.Prompt, entries.Queued, entries.Ended], begins=[entries.Queued,
           entries.Ended])  # fmt: skip
def no_failure_after_an_answer(subject: Subject) -> Watch:
    """A reply with text and without calls, also half ones, which ended by itself, is an answer.

    A message of the user that no request of the run has needs a further one. An answer may be
    beyond a bound of the agent's own, but not in the last step that it declares.
    """
    facts, limits = subject.facts, subject.limits
    said: set[str] = set()
    while entry := (yield):
        if type(entry) is not entries.Ended:
            said = said | {entry.text} if type(entry) is entries.Queued else set()
            continue
        replies, request = facts.last_replies(), facts.request
        of_run = facts.main_replies[facts.earlier_replies :]
        steps = sum(each.finish is not None for each in of_run)
        is_last = limits is not None and steps == limits.max_steps
        waiting = said - {message.text for message in request.messages} if request else ()
        is_bound = waiting or (tells(entry.message, "bounds") and not is_last)
        if entry.outcome is not Outcome.FAILED or facts.stop is not None or is_bound:
            continue
        if request and request.output and any(_lacks_words(each.text) for each in replies):
            continue  # the request asks for an object
        names = " ".join(tool.name for tool in request.tools) if request else ""
        if "ToolOutput" in subject.source or OUTPUT_TOOL in names:
            continue  # the agent takes no text for an answer
        if _is_failure(facts.earlier):
            continue  # a program of its own, after the answer
        if any(_is_dropped(facts, each) for each in of_run[:-1]):
            continue  # the others may be parts of the answer
        if request and facts.lacks_tools(request):
            continue  # it has asked for a plan
        if replies and all(map(is_answer, replies)):
            answer = f"{replies[-1].text!r:.60} to request {replies[-1].number}"
            return f"the run fails ({entry.message!r:.80}), and the model has answered {answer}"


@of_agents("A call that runs out of time has waited for a service, a program or a model, or slept.",
           "asyncio, Lock", sees=[entries.Prompt, entries.Input, entries.Restarted, entries.Sleep,
           entries.ToolStarted, *_BEGIN, *_END])  # fmt: skip
def calls_wait_for_something(subject: Subject) -> Watch:
    """A lock that nobody releases, or that a call takes twice, is a time in which nothing runs.

    After a failure an agent may wait in its own way, and a thread for an event. The time of a tool
    of the world is its own.
    """
    given, under_way, last_ns, idle_ns, has_failed = subject.scenario, 0, 0, 0, False
    is_slow = PATTERNS["threads"].search(subject.source) is not None
    is_slow |= any(each.takes or each.hangs for each in (given.tools.values() if given else ()))
    while entry := (yield):
        if (kind := type(entry)) in (entries.Prompt, entries.Input, entries.Restarted):
            last_ns, idle_ns = entry.at_ns, 0  # it has waited for its user
        if not (under_way or has_failed or is_slow):
            idle_ns = max(idle_ns, entry.at_ns - last_ns)
        if kind is entries.Request and (results := subject.results.values()):
            late = [each for each in results if tells(each.text, "timeouts")]
            if late and idle_ns > _IDLE_NS:
                why = f"answers call {late[0].call_id!r} with {late[0].text!r:.60}"
                return f"request {entry.number} {why}, and nothing ran for {clock(idle_ns)}"
            idle_ns, has_failed = 0, False
        has_failed = has_failed or _is_failure(entry) or not getattr(entry, "own", True)
        under_way += (kind in _BEGIN) - (kind in _END)
        last_ns = max(last_ns, entry.at_ns + getattr(entry, "duration_ns", 0))


def _waits_still(facts: Facts, now_ns: int) -> bool:
    reply = facts.main_replies[-1] if facts.main_replies else None
    if reply is None or reply.fault is None:
        return False
    return reply.at_ns + (retry_after_ns(reply.fault, EPOCH_NS + reply.at_ns) or 0) > now_ns


def _lacks_words(text: str) -> bool:
    """Return whether a text is no JSON, or an object without a value or with an empty one."""
    found = json_value(text)
    values = found.values() if isinstance(found, dict) else ()
    return not found or any(each is None or not str(each).strip(" []") for each in values)


def _is_failure(entry: Any) -> bool:
    if type(entry) is entries.ProgramEnded:
        return entry.exit != 0
    return type(entry) is entries.ServiceReply and (entry.failure != "" or entry.status >= _REFUSED)


def _is_dropped(facts: Facts, reply: ReceivedReply) -> bool:
    """Return whether a reply is no answer, and no later request goes on with its request."""
    asked = facts.sent.get(reply.number)
    later = [each.messages for number, each in facts.sent.items() if number > reply.number]
    goes_on = asked is None or any(asked.messages[-1] in each for each in later)
    return not (goes_on or is_answer(reply))


def is_answer(reply: ReceivedReply) -> bool:
    """Return whether a reply has words, no calls, and an end of its own."""
    if reply.calls or reply.has_half_call:
        return False
    return reply.finish is FinishReason.STOP and bool(reply.text.strip())


@of_agents("An agent does not block the event loop for a second or more.",
           "asyncio, Running Blocking Code", sees=[entries.Input, entries.LoopBlocked])  # fmt: skip
def event_loop_not_blocked(_: Subject) -> Watch:
    """While the loop is blocked, no other task runs, and no timeout or abort can end the call.

    Shorter calls are not in the trace: a program that polls, or takes a lock, blocks for moments.
    One that waits for what its user types has nobody else to serve.
    """
    typed_ns = -1
    while entry := (yield):
        if type(entry) is entries.LoopBlocked and entry.at_ns != typed_ns:
            return f"a call blocks the event loop for {clock(entry.took_ns)} at {entry.place}"
        typed_ns = entry.at_ns


@of_agents("No thread of an agent waits while it holds a lock that another thread waits for.",
           "threading, Lock Objects", sees=[entries.LockHeld, entries.StopRequested])  # fmt: skip
def no_lock_held_while_waiting(_: Subject) -> Watch:
    """Work that is to be done side by side is then done one after the other.

    A prompt may wait until what an earlier one has left behind is over, which was stopped.
    """
    is_stopped = False
    while entry := (yield):
        if type(entry) is entries.StopRequested:
            is_stopped = True
        elif not is_stopped:
            held = f"the thread that held it waited at {entry.place}"
            return f"a thread waits {clock(entry.took_ns)} for a lock, and {held}"
