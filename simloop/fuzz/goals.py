"""The goals of a search: rare situations in which loops have failed, mostly two events at once."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, get_args

from simloop.fuzz.alphabet import Abilities
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import Feature
from simloop.messages import FinishReason, Outcome, StopCause
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

_Step: TypeAlias = Callable[[Any], bool]
_AT_BOUNDARY = frozenset(get_args(Boundary))


class Goal(NamedTuple):
    """A situation that a search must reach sometimes, which its name says."""

    name: str
    steps: tuple[_Step, ...]  # each matches an entry; they match entries in a row
    sees: tuple[type[AnyEntry], ...]  # of these, and of those that may not come between
    needs: tuple[Feature, ...] = ()  # of the loop

    def can_be_reached(self, abilities: Abilities) -> bool:
        reachable = abilities.has_engine or _AT_BOUNDARY.issuperset(self.sees)
        return reachable and not set(self.needs) & set(abilities.lacks)

    def is_reached(self, seen: Sequence[Any]) -> bool:
        size = len(self.steps)
        return any(
            all(step(entry) for step, entry in zip(self.steps, seen[at : at + size], strict=True))
            for at in range(len(seen) - size + 1)
            if self.steps[0](seen[at])
        )


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
        self.looked_at += 1
        seen: list[list[AnyEntry]] = [[] for _ in self._goals]
        for entry in record:
            for place in self._seeing.get(type(entry), ()):
                seen[place].append(entry)
        for goal, entries in zip(self._goals, seen, strict=True):
            self.counts[goal.name] += goal.is_reached(entries)


def _a(kind: type, **values: object) -> _Step:
    return lambda entry: (
        type(entry) is kind and all(getattr(entry, name) == each for name, each in values.items())
    )


def _ends(outcome: Outcome) -> _Step:
    return _a(Ended, outcome=outcome)


def _shortened(entry: Any) -> bool:
    return type(entry) is Compaction and bool(entry.strategy)


def _late_tool(entry: Any) -> bool:
    return type(entry) is ToolResult and entry.is_error and "timed out" in entry.text


_IN_REPLY = (Request, Finish, Error, StreamCut, StopRequested)
_IN_TOOL = (ToolStarted, ToolResult, StopRequested)
_ABORTS = _a(StopRequested, cause=StopCause.ABORT)
_EXPIRES = _a(StopRequested, cause=StopCause.WALL_CLOCK)
_ABORT, _COMPACTS, _QUEUE = (Feature.ABORT,), (Feature.COMPACTION,), (Feature.QUEUE,)
_HOOKS, _EARLY = (Feature.HOOKS,), (Feature.EARLY_TOOLS,)
_MAIN, _SUMMARY = _a(Request, purpose="main"), _a(Request, purpose="summary")
_FORCED = _a(Compaction, forced=True)
_OVERFLOWS = _a(Classified, error_class=ErrorClass.OVERFLOW)
_WAITS, _STARTS, _CALLS, _SAYS = _a(Backoff), _a(ToolStarted), _a(ToolCall), _a(TextDelta)
_MESSAGE, _BREAKS, _REPLIES = _a(Queued), _a(Error), _a(Finish)

GOALS: tuple[Goal, ...] = (
    Goal("abort-in-a-backoff", (_WAITS, _ABORTS), (Backoff, StopRequested, Request), _ABORT),
    Goal("abort-in-a-backoff-after-forced-compaction", (_FORCED, _WAITS, _ABORTS),
         (Compaction, Backoff, StopRequested), _ABORT + _COMPACTS),
    Goal("abort-before-the-first-part", (_MAIN, _ABORTS),
         (TextDelta, ToolCall, *_IN_REPLY), _ABORT),
    Goal("abort-in-a-reply", (_SAYS, _ABORTS), (TextDelta, *_IN_REPLY), _ABORT),
    Goal("abort-between-reply-and-tools", (_REPLIES, _ABORTS), (ToolStarted, *_IN_REPLY), _ABORT),
    Goal("abort-in-a-tool", (_STARTS, _ABORTS), _IN_TOOL, _ABORT),
    Goal("abort-between-two-tools", (_a(ToolResult), _ABORTS), (*_IN_TOOL, Request), _ABORT),
    Goal("abort-in-a-compaction", (_SUMMARY, _ABORTS),
         (Request, Finish, Compaction, StopRequested), _ABORT + _COMPACTS),
    Goal("abort-around-a-hook", (_a(Hook), _ABORTS),
         (Hook, Request, ToolStarted, StopRequested), _ABORT + _HOOKS),
    Goal("run-after-an-abort", (_ends(Outcome.ABORTED), _ends(Outcome.COMPLETED)),
         (Ended,), _ABORT),
    Goal("run-after-too-many-errors", (_ends(Outcome.TOO_MANY_ERRORS), _ends(Outcome.COMPLETED)),
         (Ended,)),
    Goal("time-over-in-a-backoff", (_WAITS, _EXPIRES), (Backoff, StopRequested, Request)),
    Goal("time-over-in-a-tool", (_STARTS, _EXPIRES), _IN_TOOL),
    Goal("time-over-in-a-reply", (_a(Request), _EXPIRES), _IN_REPLY),
    Goal("message-during-a-backoff", (_WAITS, _MESSAGE), (Backoff, Queued, Request), _QUEUE),
    Goal("message-during-a-tool", (_STARTS, _MESSAGE), (ToolStarted, ToolResult, Queued)),
    Goal("message-during-compaction", (_SUMMARY, _MESSAGE),
         (Request, Queued, Compaction), _COMPACTS + _QUEUE),
    Goal("message-after-the-last-words", (_REPLIES, _MESSAGE),
         (Finish, Queued, Request, ToolStarted)),
    Goal("tool-timeout", (_late_tool,), (ToolResult,)),
    Goal("tool-timeout-beside-a-hook-failure",
         (_late_tool, lambda e: type(e) is Hook and e.result in {"failed", "timed-out"}),
         (ToolResult, Hook), _HOOKS),
    Goal("parallel-batch-with-one-timeout", (_STARTS, _STARTS, _a(ToolResult), _late_tool),
         (ToolStarted, ToolResult)),
    Goal("hook-fails", (_a(Hook, result="failed"),), (Hook,), _HOOKS),
    Goal("hook-hangs", (_a(Hook, result="timed-out"),), (Hook,), _HOOKS),
    Goal("hook-blocks", (_a(Hook, result="blocked"),), (Hook,), _HOOKS),
    Goal("call-renamed", (_a(CallRenamed),), (CallRenamed,)),
    Goal("call-without-a-tool", (lambda e: not e.ran,), (Answered,)),
    Goal("many-calls-in-one-reply", (_CALLS,) * 5, (ToolCall, Finish)),
    Goal("cut-off-call", (_CALLS, _a(Finish, reason=FinishReason.LENGTH)), (ToolCall, Finish)),
    Goal("stop-with-a-call", (_CALLS, _a(Finish, reason=FinishReason.STOP)), (ToolCall, Finish)),
    Goal("lost-after-a-call", (_CALLS, _BREAKS), (ToolCall, Finish, Error)),
    Goal("only-thoughts", (_a(ReasoningDelta), _REPLIES),
         (ReasoningDelta, TextDelta, ToolCall, Finish, Error, StreamCut)),
    Goal("empty-reply", (_a(Backoff, error_class=ErrorClass.EMPTY_REPLY),), (Backoff,)),
    Goal("missing-calls", (_a(Backoff, error_class=ErrorClass.MISSING_CALLS),), (Backoff,)),
    Goal("broken-stream", (_a(StreamCut),), (StreamCut,)),
    Goal("model-call-timeout",
         (lambda e: e.error_class is ErrorClass.TIMEOUT and e.fault is not None,),
         (Classified,)),
    Goal("three-failures-in-a-row", (_a(Classified),) * 3, (Classified, Finish, Prompt)),
    Goal("burst-of-steps", (lambda e: e.steps > 1,), (Finish,)),
    Goal("overflow-then-compaction", (_OVERFLOWS, _FORCED),
         (Classified, Compaction, Backoff), _COMPACTS),
    Goal("overflow-after-a-compaction", (_shortened, _OVERFLOWS),
         (Compaction, Classified), _COMPACTS),
    Goal("two-compactions-in-a-row", (_shortened, _shortened), (Compaction, Finish), _COMPACTS),
    Goal("useless-compaction", (lambda e: not e.strategy,), (Compaction,), _COMPACTS),
    Goal("failed-summary", (_SUMMARY, _BREAKS), (Request, Error, Finish), _COMPACTS),
    Goal("retry-after-a-compaction", (_shortened, _MAIN, _WAITS, _MAIN),
         (Compaction, Backoff, Request), _COMPACTS),
    Goal("early-tool", (_STARTS, lambda e: type(e) in (Finish, Error, StreamCut)),
         (ToolStarted, Finish, Error, StreamCut, Request), _EARLY),
    Goal("tool-of-a-failed-reply", (_STARTS, _BREAKS),
         (ToolStarted, Finish, Error, Request), _EARLY),
    Goal("filtered", (_ends(Outcome.CONTENT_FILTERED),), (Ended,)),
    Goal("context-limit", (_ends(Outcome.CONTEXT_LIMIT),), (Ended,), _COMPACTS),
    Goal("step-limit-at-the-compaction-bound",
         (lambda e: e.limit == "max_steps" and e.counters and e.counters.compaction_attempts > 1,),
         (Ended,), _COMPACTS),
    Goal("not-retryable", (_ends(Outcome.FAILED),), (Ended,)),
)  # fmt: skip
