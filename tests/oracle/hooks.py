"""Invariants on the runs of hooks: which run, how often, in which order and for how long.

The order is free within a stretch of independent hooks that run at once, and nowhere else. An end
from outside may come before any hook, so no hook is missing in a run that is stopped.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from oracle.ledger import ledger_of
from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.engine.hooks import (
    AFTER_LLM_CALL,
    AFTER_TOOL_CALL,
    BEFORE_LLM_CALL,
    BEFORE_TOOL_CALL,
    Hooks,
)
from simloop.engine.settings import EngineSettings
from simloop.kernel import effects, signals
from simloop.kernel.effects import Effect
from simloop.trace.entries import (
    Answered,
    CallBegun,
    Hook,
    Prompt,
    Request,
    ToolResult,
    ToolStarted,
    Transition,
)
from simloop.world.user_functions import UserFunction


def stretches_of(hooks: Sequence[UserFunction], settings: EngineSettings) -> list[range]:
    """Return the places of the hooks that run at once; a hook that runs alone has its own range."""
    if settings.hook_execution.order != "parallel":
        return [range(place, place + 1) for place in range(len(hooks))]
    found: list[range] = []
    for independent, group in groupby(range(len(hooks)), lambda n: hooks[n].is_independent):
        places = list(group)
        whole = [range(places[0], places[-1] + 1)]
        found += whole if independent else [range(place, place + 1) for place in places]
    return found


class Chain:
    """The hooks of one point. `place` is that of the first that has not run yet.

    `ended` is true after a veto, when all hooks that run at once with it have ended.
    """

    __slots__ = ("_ahead", "_ends", "_vetoed", "ended", "names", "place")

    def __init__(self, hooks: Sequence[UserFunction], settings: EngineSettings) -> None:
        self.names = [hook.name for hook in hooks]
        self._ends = [each.stop for each in stretches_of(hooks, settings) for _ in each]
        self._ahead: list[int] = []  # the places after `place` that have run
        self.begin()

    def begin(self) -> None:
        """Begin a call."""
        self.place, self.ended, self._vetoed = 0, False, False
        if self._ahead:
            self._ahead = []

    @property
    def missing(self) -> str:
        """Return the name of a hook that has not run, or an empty text."""
        return "" if self.ended or self.place >= len(self.names) else self.names[self.place]

    @property
    def is_ambiguous(self) -> bool:
        """Return whether two hooks that run at once have one name."""
        stretches: dict[int, list[str]] = {}
        for name, end in zip(self.names, self._ends, strict=True):
            stretches.setdefault(end, []).append(name)
        return any(len(set(names)) < len(names) for names in stretches.values())

    def run(self, hook: Hook, *, ends: bool) -> str:
        """Return why `hook` must not run now, or an empty text."""
        if not self.missing:
            return f"the hook {hook.hook} runs at {hook.point}, and none may run any more"
        missing, end = self.missing, self._ends[self.place]
        if self.advance(hook) is None:
            return f"the hook {hook.hook} runs at {hook.point} before {missing}"
        self._vetoed = self._vetoed or ends
        self.ended = self._vetoed and self.place == end
        return ""

    def advance(self, hook: Hook) -> int | None:
        """Return the place of a hook that has run, and note it; None if it must not run now."""
        first = self.place
        if first >= len(self.names):
            return None
        if self.names[first] != hook.hook:
            beside = range(first + 1, self._ends[first])
            found = (n for n in beside if self.names[n] == hook.hook and n not in self._ahead)
            place = next(found, None)
            if place is not None:
                self._ahead.append(place)
            return place
        self.place += 1
        while self.place in self._ahead:
            self.place += 1
        return first


_NS_PER_MS = 1_000_000
_MODEL_POINTS = (BEFORE_LLM_CALL, AFTER_LLM_CALL)
_TOOL_POINTS = (BEFORE_TOOL_CALL, AFTER_TOOL_CALL)
_POINTS = _MODEL_POINTS + _TOOL_POINTS


def hooks_of(subject: Subject) -> Mapping[str, tuple[UserFunction, ...]]:
    """Return the hooks of each point."""
    settings = subject.course.settings
    hooks: Hooks = settings.hooks
    return {point: getattr(hooks, point) for point in _POINTS}


def has_tool_hooks(subject: Subject) -> bool:
    """Return whether there are hooks of tool calls."""
    hooks = hooks_of(subject)
    return bool(hooks[BEFORE_TOOL_CALL] or hooks[AFTER_TOOL_CALL])


def _ends_the_chain(hook: Hook, on_failure: str) -> bool:
    """Return whether no later hook of the point runs: after a veto, and after some failures."""
    if hook.result == "blocked":
        return True
    if hook.result == "ok":
        return False
    if on_failure == "block-call":
        return hook.point in (BEFORE_LLM_CALL, BEFORE_TOOL_CALL)
    tools = hook.point in (BEFORE_TOOL_CALL, AFTER_TOOL_CALL)
    return on_failure == "error-result" and tools


@invariant(
    "The hooks of a model call run in order, each once: before the request, and after the step.",
    "BUGS.md D15, D16",
    sees=[Hook, Request, signals.StepClosed],
    needs=[Need.MACHINE],
)
def model_call_hooks_in_order(subject: Subject) -> Watch:
    """A veto ends the chain. A call that is made after an abort has no hooks."""
    done = ledger_of(subject).done
    course, hooks = subject.course, hooks_of(subject)
    on_failure = course.settings.hook_isolation.on_failure
    chains = {
        point: Chain(hooks[point], course.settings) for point in (BEFORE_LLM_CALL, AFTER_LLM_CALL)
    }
    before, after = chains[BEFORE_LLM_CALL], chains[AFTER_LLM_CALL]
    begun = -1  # the transition with which the chains begin
    while True:
        entry = yield
        kind = type(entry)
        asked: Effect | None
        if kind is Transition:  # it ends the step: the state before it counts
            move, asked = done.moves - 1, done.pending
        else:
            move, asked = done.moves, course.effect
        if begun != move:
            begun = move
            before.begin()
            after.begin()
            before.ended = type(asked) is not effects.CallModel
            after.ended = type(asked) is not effects.CloseStep
        if kind is Hook:
            chain = chains.get(entry.point)
            if chain is not None:
                wrong = chain.run(entry, ends=_ends_the_chain(entry, on_failure))
                if wrong:
                    return wrong
        elif kind is Request:
            if (
                before.missing
                and entry.purpose == "main"
                and not getattr(asked, "aborted", False)
                and not subject.facts.stop
            ):
                return f"request {entry.number} is sent without the hook {before.missing}"
        elif after.missing and not subject.facts.stop:
            return f"a step ends without the hook {after.missing}"


@invariant(
    "The hooks of a tool call run in order, each once: before the tool starts, and after it "
    "has ended.",
    "BUGS.md D15, D16",
    sees=[Prompt, CallBegun, Hook, ToolStarted, ToolResult, Answered],
    needs=[Need.MACHINE],
)
def tool_call_hooks_in_order(subject: Subject) -> Watch:
    """A blocked call does not run. hooks_run_for_each_call judges tools that run in parallel."""
    course, hooks, facts = subject.course, hooks_of(subject), subject.facts
    settings = course.settings
    before, after = (Chain(hooks[point], settings) for point in _TOOL_POINTS)
    at_once = settings.tool_execution.order == "parallel"
    guards, reports = bool(before.names) and not at_once, bool(after.names) and not at_once
    before.ended = after.ended = True
    begun = ""
    vetoed: set[str] = set()
    # The calls of a reply are prepared one after the other, unless they start when called.
    in_turn = not at_once or settings.tool_execution.start != "when-called"
    flags_abort = settings.abort_is_flag
    chains = {} if at_once else {BEFORE_TOOL_CALL: before, AFTER_TOOL_CALL: after}
    on_failure = settings.hook_isolation.on_failure
    while True:
        entry = yield
        kind = type(entry)
        if kind is Prompt:
            before.ended = after.ended = True
        elif kind is CallBegun:
            before.begin()
            begun = entry.call_id
        elif kind is Hook:
            chain = chains.get(entry.point)
            ends = _ends_the_chain(entry, on_failure)
            if ends and in_turn and entry.point == BEFORE_TOOL_CALL:
                vetoed.add(begun)
            if chain is None or (chain is after and flags_abort and facts.stop is not None):
                continue  # a tool that an abort cancels has no result
            wrong = chain.run(entry, ends=ends)
            if wrong:
                return wrong
        elif kind is ToolStarted:
            if guards and (before.missing or begun != entry.call_id):
                return f"the tool of call {entry.call_id!r} starts without its hooks"
            if entry.call_id in vetoed:
                return f"the tool of call {entry.call_id!r} starts, and a hook forbade it"
            before.ended = True
        elif kind is ToolResult:
            if reports and (settings.report_failed_tools or not entry.is_error):
                after.begin()
        elif facts.stop is None:
            missing = reports and not _is_failing(course.settings) and after.missing
            if entry.ran and missing:
                return f"call {entry.call_id!r} is answered without the hook {missing}"
            after.ended = before.ended = True


def _is_failing(settings: Any) -> bool:
    return bool(settings.hook_isolation.on_failure == "fail-run")


@invariant(
    "Each hook of tools runs once for each call, also when tools run in parallel.",
    "BUGS.md D15, D20",
    sees=[CallBegun, ToolResult, Hook, Prompt, signals.ToolsReturned],
    needs=[Need.MACHINE],
)
def hooks_run_for_each_call(subject: Subject) -> Watch:
    """After a veto the later hooks of that call do not run."""
    if not has_tool_hooks(subject):
        return ""
    done, hooks, settings = ledger_of(subject).done, hooks_of(subject), subject.course.settings
    on_failure = settings.hook_isolation.on_failure
    stretches = {
        point: [[own[place].name for place in each] for each in stretches_of(own, settings)]
        for point in _TOOL_POINTS
        for own in (hooks[point],)
        if len({hook.name for hook in own}) == len(own)
    }
    calls = dict.fromkeys(_TOOL_POINTS, 0)
    runs: dict[tuple[str, str], tuple[int, int]] = {}  # how often it ran, and ended the chain
    begun = -1  # the round that is counted
    while True:
        entry = yield
        kind = type(entry)
        now = done.rounds - 1 if kind is Transition else done.rounds
        if kind is Prompt or begun != now:
            begun = now
            calls = dict.fromkeys(_TOOL_POINTS, 0)
            runs = {}
        if kind is CallBegun:
            calls[BEFORE_TOOL_CALL] += 1
        elif kind is ToolResult:
            if settings.report_failed_tools or not entry.is_error:
                calls[AFTER_TOOL_CALL] += 1
        elif kind is Hook:
            key = entry.point, entry.hook
            ran, ended = runs.get(key, (0, 0))
            runs[key] = ran + 1, ended + _ends_the_chain(entry, on_failure)
        elif kind is Transition and not subject.facts.stop:
            for point, own in stretches.items():
                wrong = _miscounted(point, own, calls[point], runs)
                if wrong:
                    return wrong


def _miscounted(
    point: str,
    stretches: list[list[str]],
    calls: int,
    runs: Mapping[tuple[str, str], tuple[int, int]],
) -> str:
    """Return a text about the first hook whose number of runs is wrong, or an empty text.

    Two hooks that run at once may forbid one call, or one call each: both numbers are right then.
    """
    least = most = calls
    for stretch in stretches:
        counts = [runs.get((point, name), (0, 0)) for name in stretch]
        for name, (ran, _) in zip(stretch, counts, strict=True):
            if not least <= ran <= most:
                must = f"{most}" if least == most else f"{least} to {most}"
                return f"the hook {name} ran {ran} times at {point}, and must run {must} times"
            least = most = ran
        vetoes = [ended for _, ended in counts]
        least, most = max(0, most - sum(vetoes)), most - max(vetoes)
    return ""


@invariant(
    "A hook takes no longer than its timeout, and does not time out earlier.",
    "BUGS.md D15, C12",
    sees=[Hook],
)
def hook_timeouts(subject: Subject) -> Watch:
    """The limit binds async hooks. A hook of a scenario takes the time that it states."""
    course = subject.course
    limit_ms = course.settings.hook_isolation.timeout_ms
    limit_ns = None if limit_ms is None else limit_ms * _NS_PER_MS
    scripted = () if subject.scenario is None else subject.scenario.hooks
    given = [h.name for hooks in hooks_of(subject).values() for h in hooks]
    own = () if len(given) == len(scripted) else given  # code may outlive its cancellation
    waits = {(p, h.name) for p, hooks in hooks_of(subject).items() for h in hooks if h.is_async}
    while True:
        entry = yield
        took, what = entry.took_ns, f"the hook {entry.hook}"
        if entry.result == "timed-out":
            late = limit_ns is not None and took > limit_ns and entry.hook not in own
            if limit_ns is None or took < limit_ns or late:
                return f"{what} is given up after {took} ns, and its limit is {limit_ns} ns"
        elif limit_ns is not None and took > limit_ns and (entry.point, entry.hook) in waits:
            return f"{what} takes {took} ns, and its limit is {limit_ns} ns"


@invariant(
    "Independent hooks that stand side by side begin at once, where hooks run in parallel.",
    "loops.md",
    sees=[Hook],
    needs=[Need.MACHINE],
)
def independent_hooks_begin_at_once(subject: Subject) -> Watch:
    """One that fails or is given up may have another beginning, so those that are well are judged.

    The hooks of several calls may run at the same time, unless tools run one after the other.
    """
    settings, done = subject.course.settings, ledger_of(subject).done
    points = _MODEL_POINTS if settings.tool_execution.order == "parallel" else _POINTS
    places: dict[tuple[str, str], int] = {}
    for point, hooks in hooks_of(subject).items():
        names = [hook.name for hook in hooks]
        if point in points and len({*names}) == len(names):
            for number, stretch in enumerate(stretches_of(hooks, settings)):
                places |= {(point, names[place]): number for place in stretch if len(stretch) > 1}
    if not places:
        return ""
    begun: dict[tuple[int, str, int], int] = {}
    ran: set[tuple[str, str]] = set()  # since the newest call
    while True:
        entry = yield
        its = places.get((entry.point, entry.hook))
        if its is None:
            continue
        if (entry.point, entry.hook) in ran:
            begun, ran = {}, set()
        ran.add((entry.point, entry.hook))
        if entry.result != "ok":
            continue
        start_ns = entry.at_ns - entry.took_ns
        first_ns = begun.setdefault((done.moves, entry.point, its), start_ns)
        if first_ns != start_ns:
            apart_ms = (start_ns - first_ns) / _NS_PER_MS
            return f"the hook {entry.hook} begins {apart_ms:g} ms after one that is independent"
