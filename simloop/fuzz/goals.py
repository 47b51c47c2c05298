"""The goals of a search: rare situations in which loops have failed, mostly two events at once.

A goal is a generator that receives entries of the kinds in `sees`, and returns at the entry that
reaches it. A search counts the runs that reached each goal.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, get_args

from simloop.fuzz.alphabet import Abilities
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import Feature
from simloop.messages import FinishReason, Outcome, Queue, StopCause
from simloop.trace.entries import (
    Answered,
    AnyEntry,
    Backoff,
    Boundary,
    CallRenamed,
    Classified,
    Compaction,
    Ended,
    Error,
    Finish,
    Hook,
    Prompt,
    Queued,
    ReasoningDelta,
    Request,
    StopRequested,
    StreamCut,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolStarted,
)

GoalWatch: TypeAlias = Generator[None, Any, None]
"""A generator that receives entries by `send`, and returns when the goal is reached."""

_AT_BOUNDARY = frozenset(get_args(Boundary))


class Goal(NamedTuple):
    """A situation that a search must reach sometimes. `needs` are features of the loop."""

    name: str
    sentence: str
    sees: tuple[type[AnyEntry], ...]
    needs: frozenset[Feature]
    watch: Callable[[], GoalWatch]

    def can_be_reached(self, abilities: Abilities) -> bool:
        """Return whether runs of a loop may reach this goal."""
        if self.needs.intersection(abilities.lacks):
            return False
        return abilities.has_engine or _AT_BOUNDARY.issuperset(self.sees)


def goal(
    sentence: str, *, sees: Iterable[type[AnyEntry]], needs: Iterable[Feature] = ()
) -> Callable[[Callable[[], GoalWatch]], Goal]:
    """Make a goal from a generator function, under the function's name with hyphens."""

    def make(watch: Callable[[], GoalWatch]) -> Goal:
        name = watch.__name__.replace("_", "-")
        return Goal(name, sentence, tuple(sees), frozenset(needs), watch)

    return make


class Goals:
    """Counts the runs that reached each goal. `looked_at` is the number of runs that were read."""

    def __init__(self, goals: Sequence[Goal], abilities: Abilities) -> None:
        self._goals = [each for each in goals if each.can_be_reached(abilities)]
        self._seeing: dict[type, list[int]] = {}
        for place, each in enumerate(self._goals):
            for kind in each.sees:
                self._seeing.setdefault(kind, []).append(place)
        self.counts = dict.fromkeys((each.name for each in self._goals), 0)
        self.looked_at = 0

    def add(self, record: Iterable[AnyEntry]) -> None:
        """Count the goals that a run has reached."""
        self.looked_at += 1
        sends: list[Callable[[Any], object] | None] = [None] * len(self._goals)
        for entry in record:
            for place in self._seeing.get(type(entry), ()):
                send = sends[place]
                if send is None:
                    watch = self._goals[place].watch()
                    next(watch)
                    send = sends[place] = watch.send
                try:
                    send(entry)
                except StopIteration:
                    sends[place] = _ignore
                    self.counts[self._goals[place].name] += 1

    @property
    def never(self) -> tuple[str, ...]:
        """Return the names of the goals that no run has reached."""
        return tuple(name for name, count in self.counts.items() if not count)


def _ignore(_: object) -> None:
    """Ignore an entry after the goal was reached."""


_MANY_CALLS, _MANY_FAILURES, _THREE = 5, 3, 3
_TIMED_OUT = "timed out"


def _until(fits: Callable[[Any], bool]) -> GoalWatch:
    """Wait for a matching entry."""
    while not fits((yield)):
        pass


def _a(kind: type) -> Callable[[Any], bool]:
    return lambda entry: type(entry) is kind


def _aborts(entry: Any) -> bool:
    return type(entry) is StopRequested and entry.cause is StopCause.ABORT


def _expires(entry: Any) -> bool:
    return type(entry) is StopRequested and entry.cause is StopCause.WALL_CLOCK


def _directly(first: Callable[[Any], bool], then: Callable[[Any], bool]) -> GoalWatch:
    """Wait for an entry that matches `then`, directly after one that matches `first`."""
    entry = yield
    while True:
        before, entry = entry, (yield)
        if first(before) and then(entry):
            return


def _in_order(*steps: Callable[[Any], bool]) -> GoalWatch:
    """Wait for one matching entry for each step, in this order, in one run."""
    left = list(steps)
    while left:
        entry = yield
        if left[0](entry):
            del left[0]
        elif type(entry) is Prompt:
            left = list(steps)


def _summary(entry: Any) -> bool:
    return type(entry) is Request and entry.purpose == "summary"


def _main(entry: Any) -> bool:
    return type(entry) is Request and entry.purpose == "main"


def _shortened(entry: Any) -> bool:
    return type(entry) is Compaction and bool(entry.strategy)


def _gained_nothing(entry: Any) -> bool:
    return type(entry) is Compaction and not entry.strategy


def _forced(entry: Any) -> bool:
    return type(entry) is Compaction and entry.forced


def _late_tool(entry: Any) -> bool:
    return type(entry) is ToolResult and entry.is_error and _TIMED_OUT in entry.text


def _ends_as(outcome: Outcome, limit: str | None = None) -> Callable[[Any], bool]:
    return lambda entry: (
        type(entry) is Ended and entry.outcome is outcome and limit in (None, entry.limit)
    )


def _make(name: str, sentence: str, steps: Callable[[], GoalWatch], sees: Any, *needs: Any) -> Goal:
    made = goal(sentence, sees=sees, needs=needs)(steps)
    return made._replace(name=name)


def _pair(name: str, sentence: str, first: Any, then: Any, sees: Any, *needs: Any) -> Goal:
    """Return the goal of two matching entries in a row, among the entries that it sees."""
    return _make(name, sentence, lambda: _directly(first, then), sees, *needs)


def _course(name: str, sentence: str, steps: Any, sees: Any, *needs: Any) -> Goal:
    """Return the goal of several matching entries in order, in one run."""
    return _make(name, sentence, lambda: _in_order(*steps), (*sees, Prompt), *needs)


def _one(name: str, sentence: str, fits: Callable[[Any], bool], sees: Any, *needs: Any) -> Goal:
    """Return the goal of one matching entry."""
    return _make(name, sentence, lambda: _until(fits), sees, *needs)


@goal("Two failures in a row have different Retry-After values.", sees=[Backoff, Prompt])
def two_different_retry_afters() -> GoalWatch:
    """The second wait must not repeat the first one."""
    last = None
    while True:
        entry = yield
        if type(entry) is Prompt:
            last = None
        elif entry.retry_after:
            if last not in (None, entry.delay_ns):
                return
            last = entry.delay_ns


@goal("Three model calls fail in a row.", sees=[Classified, Finish, Prompt])
def three_failures_in_a_row() -> GoalWatch:
    """The delays double, and the error count approaches its limit."""
    failures = 0
    while failures < _MANY_FAILURES:
        failures = failures + 1 if type((yield)) is Classified else 0


@goal("Two tools run in parallel, and one of them times out.", sees=[ToolStarted, ToolResult])
def parallel_batch_with_one_timeout() -> GoalWatch:
    """The other result must not be lost."""
    running, both = 0, False
    while True:
        entry = yield
        if type(entry) is ToolStarted:
            running += 1
            both = both or running > 1
        elif both and _late_tool(entry):
            return
        else:
            running -= 1
            both = both and running > 0


@goal("A context is compacted between a failure and its retry.",
      sees=[Classified, Compaction, Request], needs=[Feature.COMPACTION])  # fmt: skip
def compaction_while_retrying() -> GoalWatch:
    """The retry sends another request than the one that failed."""
    retries = False
    while True:
        entry = yield
        if type(entry) is Classified:
            retries = entry.retryable
        elif _main(entry):
            retries = False
        elif retries and _shortened(entry):
            return


@goal(
    "Two tools run in parallel, and the second one returns first.", sees=[ToolStarted, ToolResult]
)
def results_out_of_order() -> GoalWatch:
    """The results must still be sent in the order of the calls."""
    started: list[str] = []
    while True:
        entry = yield
        if type(entry) is ToolStarted:
            started.append(entry.call_id)
        elif entry.call_id in started:
            if started.index(entry.call_id):
                return
            started.remove(entry.call_id)


@goal("A reply has five or more calls.", sees=[ToolCall, Finish])
def many_calls_in_one_reply() -> GoalWatch:
    """Only the model bounds the size of a batch."""
    calls = 0
    while calls < _MANY_CALLS:
        calls = calls + 1 if type((yield)) is ToolCall else 0


@goal("A tool fails, and then returns in a later call.", sees=[ToolResult])
def tool_fails_then_returns() -> GoalWatch:
    """A failed tool remains available."""
    failed: set[str] = set()
    while True:
        entry = yield
        if entry.is_error:
            failed.add(entry.name)
        elif entry.name in failed:
            return


@goal("Three user messages are queued at the same time.", sees=[Queued, Request])
def three_messages_wait() -> GoalWatch:
    """Faults in the order of the queue, and in the number taken at once, show here."""
    waiting = 0
    while waiting < _THREE:
        waiting = waiting + 1 if type((yield)) is Queued else 0


@goal("A conversation has three runs.", sees=[Ended])
def third_run() -> GoalWatch:
    """State that a run leaves behind affects the next one."""
    for _ in range(_THREE):
        yield


@goal("A run ends at its step limit after two compactions.", sees=[Ended],
      needs=[Feature.COMPACTION])  # fmt: skip
def step_limit_at_the_compaction_bound() -> GoalWatch:
    """Two limits are reached at once."""
    while True:
        entry = yield
        if entry.limit == "max_steps" and entry.counters and entry.counters.compaction_attempts > 1:
            return


@goal("The context is compacted twice without a reply between.", sees=[Compaction, Finish],
      needs=[Feature.COMPACTION])  # fmt: skip
def two_compactions_in_a_row() -> GoalWatch:
    """The second compaction shortens the result of the first."""
    in_a_row = 0
    while in_a_row < 2:  # noqa: PLR2004 - two of them
        in_a_row = in_a_row + 1 if _shortened((yield)) else 0


@goal("The user sends a message while the context is compacted.",
      sees=[Request, Queued, Compaction],
      needs=[Feature.COMPACTION, Feature.QUEUE])  # fmt: skip
def message_during_compaction() -> GoalWatch:
    """The message must be neither lost nor summarised."""
    yield from _directly(_summary, _a(Queued))


_IN_REPLY = (Request, Finish, Error, StreamCut, StopRequested)
_NEEDS_ABORT = Feature.ABORT
_COMPACTS = Feature.COMPACTION

GOALS: tuple[Goal, ...] = (
    _pair("abort-in-a-backoff", "The user aborts during the wait before a retry.",
          _a(Backoff), _aborts, (Backoff, StopRequested, Request), _NEEDS_ABORT),
    _course("abort-in-a-backoff-after-forced-compaction",
            "The user aborts in a backoff after a forced compaction.",
            (_forced, _a(Backoff), _aborts), (Compaction, Backoff, StopRequested),
            _NEEDS_ABORT, _COMPACTS),
    _pair("abort-before-the-first-part", "The user aborts before the first part of a reply.",
          _main, _aborts, (Request, TextDelta, ToolCall, *_IN_REPLY[1:]), _NEEDS_ABORT),
    _pair("abort-in-a-reply", "The user aborts in the middle of a text.",
          _a(TextDelta), _aborts, (TextDelta, *_IN_REPLY), _NEEDS_ABORT),
    _pair("abort-after-a-call", "The user aborts after a call, before the reply has ended.",
          _a(ToolCall), _aborts, (ToolCall, *_IN_REPLY), _NEEDS_ABORT),
    _pair("abort-between-reply-and-tools", "The user aborts after a reply, before its tools start.",
          _a(Finish), _aborts, (ToolStarted, *_IN_REPLY), _NEEDS_ABORT),
    _pair("abort-in-a-tool", "The user aborts while a tool runs.",
          _a(ToolStarted), _aborts, (ToolStarted, ToolResult, StopRequested), _NEEDS_ABORT),
    _pair("abort-between-two-tools", "The user aborts after the first result of a batch.",
          _a(ToolResult), _aborts, (ToolStarted, ToolResult, StopRequested, Request), _NEEDS_ABORT),
    _pair("abort-in-a-compaction", "The user aborts during the model call for a summary.",
          _summary, _aborts, (Request, Finish, Compaction, StopRequested), _NEEDS_ABORT, _COMPACTS),
    _pair("abort-around-a-hook", "The user aborts right after a hook.",
          _a(Hook), _aborts, (Hook, Request, ToolStarted, StopRequested), _NEEDS_ABORT,
          Feature.HOOKS),
    _pair("run-after-an-abort", "A run after an aborted one is completed.",
          _ends_as(Outcome.ABORTED), _ends_as(Outcome.COMPLETED), (Ended,), _NEEDS_ABORT),
    _pair("run-after-a-limit", "A run after one that ended at its step limit is completed.",
          _ends_as(Outcome.MAX_STEPS), _ends_as(Outcome.COMPLETED), (Ended,)),
    _pair("run-after-too-many-errors", "A run after one with too many errors is completed.",
          _ends_as(Outcome.TOO_MANY_ERRORS), _ends_as(Outcome.COMPLETED), (Ended,)),
    _pair("time-over-in-a-backoff", "max_wall_clock elapses during a backoff.",
          _a(Backoff), _expires, (Backoff, StopRequested, Request)),
    _pair("time-over-in-a-tool", "max_wall_clock elapses while a tool runs.",
          _a(ToolStarted), _expires, (ToolStarted, ToolResult, StopRequested)),
    _pair("time-over-in-a-reply", "max_wall_clock elapses during a model call.",
          _a(Request), _expires, _IN_REPLY),
    _pair("message-during-a-backoff", "The user sends a message during a backoff.",
          _a(Backoff), _a(Queued), (Backoff, Queued, Request), Feature.QUEUE),
    _pair("message-during-a-tool", "The user sends a message while a tool runs.",
          _a(ToolStarted), _a(Queued), (ToolStarted, ToolResult, Queued)),
    _pair("message-after-an-abort", "The user aborts and then sends a message.",
          _aborts, _a(Queued), (StopRequested, Queued, Ended, Prompt), _NEEDS_ABORT),
    _pair("message-after-the-last-words", "The user sends a message after the last reply.",
          _a(Finish), _a(Queued), (Finish, Queued, Request, ToolStarted)),
    _course("steering-and-follow-up", "The user sends a message of each kind in one run.",
            (lambda e: type(e) is Queued and e.queue is Queue.FOLLOW_UP,
             lambda e: type(e) is Queued and e.queue is Queue.STEERING), (Queued,)),
    _pair("tool-timeout-beside-a-hook-failure", "A hook fails after a tool has timed out.",
          _late_tool, lambda e: type(e) is Hook and e.result in {"failed", "timed-out"},
          (ToolResult, Hook), Feature.HOOKS),
    _one("tool-timeout", "A tool times out.", _late_tool, (ToolResult,)),
    _one("hook-fails", "A hook raises an error.", lambda e: e.result == "failed", (Hook,),
         Feature.HOOKS),
    _one("hook-hangs", "A hook times out.", lambda e: e.result == "timed-out", (Hook,),
         Feature.HOOKS),
    _one("hook-blocks", "A hook blocks a call.", lambda e: e.result == "blocked", (Hook,),
         Feature.HOOKS),
    _one("call-renamed", "Two calls have the same id, and one is renamed.", _a(CallRenamed),
         (CallRenamed,)),
    _one("call-without-a-tool", "A call is answered without running a tool.",
         lambda e: not e.ran, (Answered,)),
    _pair("cut-off-call", "A reply with a call is cut off.", _a(ToolCall),
          lambda e: type(e) is Finish and e.reason is FinishReason.LENGTH, (ToolCall, Finish)),
    _pair("stop-with-a-call", "A reply with a call has the finish reason `stop`.", _a(ToolCall),
          lambda e: type(e) is Finish and e.reason is FinishReason.STOP, (ToolCall, Finish)),
    _pair("lost-after-a-call", "The connection is lost after a call.", _a(ToolCall), _a(Error),
          (ToolCall, Finish, Error)),
    _pair("lost-in-a-text", "A call fails in the middle of its text.", _a(TextDelta), _a(Error),
          (TextDelta, Finish, Error)),
    _pair("only-thoughts", "A reply has only reasoning.", _a(ReasoningDelta),
          _a(Finish), (ReasoningDelta, TextDelta, ToolCall, Finish, Error, StreamCut)),
    _one("empty-reply", "A reply is empty, which is an error.",
         lambda e: e.error_class is ErrorClass.EMPTY_REPLY, (Backoff,)),
    _one("missing-calls", "A reply announces calls and has none.",
         lambda e: e.error_class is ErrorClass.MISSING_CALLS, (Backoff,)),
    _one("broken-stream", "A stream ends without a finish reason.", _a(StreamCut), (StreamCut,)),
    _one("model-call-timeout", "A model call times out.",
         lambda e: e.error_class is ErrorClass.TIMEOUT and e.fault is not None, (Classified,)),
    _one("burst-of-steps", "A reply reports several steps.", lambda e: e.steps > 1, (Finish,)),
    _pair("overflow-then-compaction", "A context overflow leads to a compaction.",
          lambda e: type(e) is Classified and e.error_class is ErrorClass.OVERFLOW, _forced,
          (Classified, Compaction, Backoff), _COMPACTS),
    _course("overflow-after-a-compaction", "The context overflows after it was compacted.",
            (_shortened, lambda e: type(e) is Classified and e.error_class is ErrorClass.OVERFLOW),
            (Compaction, Classified), _COMPACTS),
    _one("useless-compaction", "A compaction does not make the context smaller.",
         _gained_nothing, (Compaction,), _COMPACTS),
    _pair("failed-summary", "The model call for a summary fails.", _summary, _a(Error),
          (Request, Error, Finish), _COMPACTS),
    _course("retry-after-a-compaction", "A call that follows a compaction is retried.",
            (_shortened, _a(Backoff), _main), (Compaction, Backoff, Request), _COMPACTS),
    _course("success-after-two-failures", "A call succeeds after two failures.",
            (_a(Backoff), _a(Backoff), _a(Finish)), (Backoff, Finish)),
    _pair("early-tool", "A tool starts before its reply has ended.", _a(ToolStarted),
          lambda e: type(e) in (Finish, Error, StreamCut),
          (ToolStarted, Finish, Error, StreamCut, Request), Feature.EARLY_TOOLS),
    _pair("tool-of-a-failed-reply", "A tool starts early, and its reply fails.",
          _a(ToolStarted), _a(Error), (ToolStarted, Finish, Error, Request), Feature.EARLY_TOOLS),
    _one("filtered", "A run ends because the content was filtered.",
         _ends_as(Outcome.CONTENT_FILTERED), (Ended,)),
    _one("context-limit", "A run ends because its context is too long.",
         _ends_as(Outcome.CONTEXT_LIMIT), (Ended,), _COMPACTS),
    _one("not-retryable", "A run ends with a failure that is not retried.",
         _ends_as(Outcome.FAILED), (Ended,)),
    two_different_retry_afters,
    three_failures_in_a_row,
    parallel_batch_with_one_timeout,
    results_out_of_order,
    many_calls_in_one_reply,
    tool_fails_then_returns,
    three_messages_wait,
    third_run,
    step_limit_at_the_compaction_bound,
    two_compactions_in_a_row,
    compaction_while_retrying,
    message_during_compaction,
)  # fmt: skip
"""All goals, in the order of a report."""
