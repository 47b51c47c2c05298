"""Invariants on the waits of agents of the user's own before they retry.

Not here: the waits of machines (retry.py), and which failures an agent retries (agents.py). The
rule to keep: a wait of an agent that declares no policy is judged only by bounds that every policy
keeps.
"""

from typing import Any

from simloop.check.invariants.agents import is_useless, may_be_uncounted, reply_before
from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.check.invariants.waits import NS_PER_MS, asked_ns, wait_range
from simloop.trace.entries import Prompt, Request
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
