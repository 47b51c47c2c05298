"""The result of a run, its check against expectations, and the account of a run that failed.

The text of models, tools and exceptions in an account passes through `escape`.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

from msgspec import Struct, field

from simloop.engine.hook_meter import HookCost
from simloop.errors import ExpectationFailed, ScenarioError
from simloop.escape import escape
from simloop.messages import Counters, Message, Outcome, Request
from simloop.runs.expectations import Mismatch, calls_of, mismatches, mismatches_by_default
from simloop.scenario import loader
from simloop.scenario.expect import Expect
from simloop.trace import looptrace
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import requests
from simloop.trace.timeline import timeline
from simloop.virtual.border.output import NAMES, Output
from simloop.world.user_errors import UserError


class Result(Struct, frozen=True, kw_only=True):
    """The end of a run, and its comparison with the expectations.

    `text` is the model's last text, whole or cut off. `message` is the message to the user: the
    text of a completed run, or the reason why there is none. `limit` names the limit that ended
    the run, or is empty. `elapsed_ns` is virtual time. `mismatches` are the expectations that do
    not hold. After several prompts these describe the last one, except the time, which is the
    total; `outcomes` has one outcome per prompt. `files` are the files in memory at the end.
    `unused_places` are those of unused replies and of the user's actions that never happened.
    `exceptions` are those that the caller's own functions raised, with their tracebacks; a trace
    does not hold them. `hook_cost` has the real time of each hook at each point, or is None unless
    the run measured it (`run(..., hook_cost=True)`). No trace has real times. `bodies` are the raw
    bodies of the requests over HTTP, by their numbers, if the run kept them (`keep_bodies=True`).
    """

    outcome: Outcome
    outcomes: tuple[Outcome, ...]
    text: str
    message: str
    limit: str
    counters: Counters | None
    messages: tuple[Message, ...]
    elapsed_ns: int
    trace: LoopTrace
    files: Mapping[str, str] | None = None
    unused_places: tuple[str, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    exceptions: tuple[UserError, ...] = ()
    reproduce: str = ""
    hook_cost: tuple[HookCost, ...] | None = None
    bodies: Mapping[int, bytes] = field(default_factory=dict)

    @property
    def elapsed_s(self) -> float:
        """Return the elapsed virtual seconds; `elapsed_ns` is exact."""
        return self.elapsed_ns / 1e9

    @property
    def unused(self) -> int:
        """Return the number of unused replies and actions of the script."""
        return len(self.unused_places)

    @property
    def failures(self) -> tuple[str, ...]:
        """Return the expectations of the scenario that do not hold, one line each."""
        return tuple(map(str, self.mismatches))

    @property
    def ok(self) -> bool:
        """Return whether every expectation of the scenario holds."""
        return not self.mismatches

    @property
    def requests(self) -> list[Request]:
        """Return the requests exactly as sent, including those for summaries."""
        return list(requests(self.trace.entries))

    @property
    def calls(self) -> list[looptrace.Call]:
        """Return the tool calls that ran: name and arguments, in the order of their starts.

        A function of an agent that is not traced counts when a request has its result.
        """
        return [call for _, call in calls_of(self.trace)]

    @property
    def backoffs_s(self) -> list[float]:
        """Return the waits before retries, in virtual seconds."""
        return [delay_ns / 1e9 for delay_ns in looptrace.backoffs_ns(self.trace.entries)]

    @property
    def hook_log(self) -> list[looptrace.HookRun]:
        """Return the hooks that ran: point, name and effect."""
        return list(looptrace.hook_log(self.trace.entries))

    def expect(self, **expected: Any) -> Self:
        """Check the given expectations, keyed as `expect` in a scenario file; return the result.

            result.expect(outcome="completed", elapsed="5.12s", calls=[{"read": {"path": "a"}}])

        Raises ExpectationFailed, with one line for each expectation that does not hold, and
        ScenarioError for an invalid expectation.
        """
        if "violates" in expected:
            hint = "write it in the scenario; simloop check and simloop_run judge it"
            raise ScenarioError("a result does not judge invariants", key="violates", hint=hint)
        return self._judged(mismatches(loader.expected(expected), self))

    def check(self) -> Self:
        """Return the result. Raises ExpectationFailed if an expectation does not hold."""
        return self._judged(self.mismatches)

    def _judged(self, found: tuple[Mismatch, ...]) -> Self:
        if found:
            error = ExpectationFailed("\n".join(map(str, found)), reproduce=self.reproduce)
            error.account = account(self.trace, found, self.exceptions)
            raise error
        return self


def unmet_in(trace: LoopTrace, expect: Expect) -> tuple[Mismatch, ...]:
    """Return the expectations that a recorded run does not meet, as far as its trace shows them.

    A trace holds no files and no unused replies, and of a conversation the requests alone. A trace
    without a footer is a part of a run, of which nothing is expected.
    """
    if trace.footer is None or not trace.ends:
        return ()
    end = trace.ends[-1]
    result = Result(
        outcome=end.outcome,
        outcomes=trace.outcomes,
        text=end.text,
        message=end.message,
        limit=end.limit,
        counters=end.counters,
        messages=(),
        elapsed_ns=trace.elapsed_ns,
        trace=trace,
    )
    unseen = dict.fromkeys(("files", "unused", "messages"))
    return mismatches_by_default(expect.model_copy(update=unseen), result)


LINES = 16
MOST_PRINTED = 20
_WIDTH = 200


def account(
    trace: LoopTrace, found: Sequence[Mismatch] = (), raised: Sequence[UserError] = ()
) -> str:
    """Return the timeline's last lines up to the first wrong entry, then the last exception.

    If only the end of the run is wrong, the lines are the last ones of the run.
    """
    wrong = min((each.seq for each in found if each.seq is not None), default=None)
    return "\n".join(("", *_timeline(trace, wrong), *last_raised(raised), ""))


def _timeline(trace: LoopTrace, wrong: int | None) -> Iterator[str]:
    part = trace
    if wrong is not None:
        part = LoopTrace(trace.header, list(trace.entries[: wrong + 1]))
    lines = deque(timeline(part), maxlen=LINES)
    if wrong is None:
        yield "the end of the run:"
    else:
        yield "the run up to the first entry that is wrong:"
    yield from lines


def last_raised(raised: Sequence[UserError]) -> Iterator[str]:
    """Yield an empty line and the traceback of the last exception of the user's code."""
    if not raised:
        return
    last = raised[-1]
    before = f", the last of {len(raised)} exceptions" if len(raised) > 1 else ""
    yield ""
    yield f"raised by {escape(last.where)}{before}:"
    for line in last.lines():
        indent = len(line) - len(line.lstrip(" "))
        yield " " * indent + escape(line[indent:], _WIDTH)


def printed(output: Output) -> Iterator[str]:
    """Yield the last lines that the user's code has printed, under the name of each stream."""
    for name in NAMES:
        lines = output.text(name).splitlines()
        if lines:
            cut = f", the last {MOST_PRINTED} of {len(lines)} lines" * (len(lines) > MOST_PRINTED)
            yield f"captured {name}{cut}:"
            yield from (f"  {escape(line, _WIDTH)}" for line in lines[-MOST_PRINTED:])
