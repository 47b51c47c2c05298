"""Shrinking: the reduction of a failing scenario to a minimal one with the same failure."""

import json
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from simloop.check.invariants.invariant import Invariant
from simloop.check.trial import EXPECTATION, FINISHES, UNJUDGED, Failure, Rules, failure_of, trial
from simloop.errors import ReplayDiverged, ScenarioError, ScriptExhausted
from simloop.fuzz.alphabet import LAST, LAST_SUMMARY
from simloop.fuzz.reductions import PASSES, Pass, Tree, bounds, cost
from simloop.fuzz.search import FoundFailure
from simloop.kernel.durations import format_duration
from simloop.messages import Fault, StreamError, json_value
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan
from simloop.scenario.expect import REST, CountBounds
from simloop.scenario.programs import SIGNALS
from simloop.scenario.replies import parts_of_fault
from simloop.scenario.schema import Scenario
from simloop.scenario.services import METHODS
from simloop.scenario.writing import content
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.virtual.border.seal import kept_border
from simloop.virtual.real_world import LISTS
from simloop.world.chance import LOST_TOOL
from simloop.world.faults import FAULTS, REPLY_ENDS, TOOL_ENDS, Keys, Stage
from simloop.world.program_scripts import FILES

MAX_SECONDS = 10.0

_ANY_END = {"outcomes": [REST], "unused": CountBounds(min=0)}
"""The end of a world of a search, which expects none."""
_AFTERWARDS = 200  # the most transitions of a run after its failure
_LAST = {
    key: last.model_dump(mode="json", exclude_defaults=True)
    for key, last in (("model", LAST), ("summaries", LAST_SUMMARY))
}
_SCRIPTS = {"main": "model", "summary": "summaries"}
_LOST = {"refused": "before-connect", "lost": "before-headers"}


class ShrinkProgress(NamedTuple):
    """The progress: the runs so far, and the replies and characters of the smallest scenario."""

    runs: int
    replies: int
    chars: int


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A smaller scenario with the same failure; it names its seed, and its loop if it can."""

    scenario: Scenario
    failure: Failure
    runs: int
    unfinished: str = ""  # why it may not be minimal, or empty


def shrink(
    scenario: Scenario, given: RunOptions | None = None, *, seconds: float = MAX_SECONDS,
    invariants: Sequence[Invariant] | None = None, stopped: Callable[[], bool] = lambda: False,
    say: Callable[[ShrinkProgress], None] = lambda _: None,
) -> Shrunk | None:  # fmt: skip
    """Reduce a failing scenario to a minimal one with the same failure; None if it does not fail.

    `given` holds the arguments of `simloop.run` besides the scenario, and `invariants` replace the
    catalogue. `say` is called after each smaller scenario. If `stopped` returns true, or after
    Ctrl-C, the smallest so far is returned. Raises ScenarioError if the scenario cannot be run.
    """
    plan = Plan(scenario, given or {})
    with kept_border():
        if (failure := failure_of(plan, Rules(invariants), twice=True)) is None:
            return None
        search = _Search(plan, failure, invariants, time.monotonic() + seconds, say, stopped)
        search.plan_faults()
        unfinished = search.run()
        search.let_it_end()
        return Shrunk(search.scenario(), search.failure, search.runs, unfinished)


def smallest(found: FoundFailure, given: RunOptions) -> tuple[Scenario, Failure]:
    """Return the smallest scenario with a failure that a new process shows, and the failure."""
    expect = found.scenario.expect.model_copy(update=_ANY_END)
    scenario = found.scenario.model_copy(update={"expect": expect})
    with suppress(ScenarioError):
        shrunk = shrink(scenario, given, invariants=found.rule) if found.reproduced else None
        if shrunk is not None and shrunk.failure.name == found.name:
            return shrunk.scenario, shrunk.failure
    return scenario, found.failure


@dataclass
class _Search:
    plan: Plan
    failure: Failure
    invariants: Sequence[Invariant] | None
    end_s: float
    say: Callable[[ShrinkProgress], None]
    stopped: Callable[[], bool]
    runs: int = 0

    def __post_init__(self) -> None:
        scenario = self.plan.by_itself()
        gone = {"seed"}
        gone |= {"loop", "loop_options", "judge_as"} if self.plan.loop.has_name else set()
        given = {key: each for key, each in self.plan.given.items() if key not in gone}
        self._given = cast("RunOptions", given)
        self._twice = self.failure.name == ReplayDiverged.__name__
        self._best: Tree = content(scenario)
        # What is meant stays as it is.
        self._fixed: Tree = {"declares": self._best.pop("declares", None)}
        if self.failure.name != EXPECTATION:
            # A smaller scenario may end in any way, but without other violations.
            expect = self._best.pop("expect", {})
            known = {"violates": expect["violates"]} if "violates" in expect else {}
            self._fixed["expect"] = {"outcomes": [REST], "unused": {"min": 0}, **known}
        self._text = json.dumps(self._best)
        self._tried: set[str] = {self._text}
        last = (self._best.get("model") or [_LAST["model"]])[-1]
        self._last = last if last.get("times") == "always" else _LAST["model"]
        may_need = self.failure.name == FINISHES or self.plan.loop.machine is None
        self._answers = may_need and scenario.model[-1:] == [LAST]

    def scenario(self) -> Scenario:
        """Return the smallest scenario; its title is the sentence that must hold."""
        scenario = _read({**self._best, **self._fixed})
        if self.failure.name == EXPECTATION:
            return scenario
        return scenario.model_copy(update={"title": self.failure.sentence})

    def plan_faults(self) -> None:
        """Replace random faults by the recorded ones, if the failure stays the same."""
        if "faults" not in self._best:
            return
        with suppress(ScenarioError):
            record = trial(Plan(self.scenario(), self._given), UNJUDGED).entries
            self._accept(with_planned_faults(self._best, record))

    def let_it_end(self) -> None:
        """Add good replies if none are left: a loop without the fault needs them to end.

        That with it may end before, as in a deadlock. The last reply of an agent may be an object.
        """
        if self.failure.name != EXPECTATION:
            replies = self._best.get("model", [])
            if not replies or replies[-1].get("times") != "always" or "when" in replies[-1]:
                self._accept({**self._best, "model": [*replies, self._last]})
        for _ in _LAST:
            scenario = self.scenario().model_copy(update={"max_transitions": _AFTERWARDS})
            with suppress(ScenarioError):
                ended = trial(Plan(scenario, self._given), UNJUDGED).failure()
                key = ended.text.partition(":")[0] if ended is not None else ""
                if ended is None or ended.name != ScriptExhausted.__name__ or key not in _LAST:
                    return
                replies = [*self._best.get(key, ()), _LAST[key]]
                self._accept({**self._best, key: replies})

    def run(self) -> str:
        """Run the passes until none finds a smaller scenario; return why they ended early."""
        before = ""
        try:
            while before != self._text:
                before = self._text
                for each in PASSES:
                    if reason := self._drive(each(self._best)):
                        return reason
            # The bounds go last: until then they end each candidate that goes on forever.
            return "" if self.failure.name == FINISHES else self._drive(bounds(self._best))
        except KeyboardInterrupt:
            return "the reduction was interrupted"

    def _drive(self, steps: Pass) -> str:
        try:
            candidate = next(steps)
            while True:
                if time.monotonic() > self.end_s:
                    return "the time limit was reached"
                if self.stopped():
                    return "the reduction was interrupted"
                candidate = steps.send(self._is_smaller(candidate))
        except StopIteration:
            return ""

    def _is_smaller(self, tree: Tree) -> bool:
        if (text := json.dumps(tree)) in self._tried or cost(text) >= cost(self._text):
            return False
        self._tried.add(text)
        if not self._accept(tree):
            return False
        self.say(ShrinkProgress(self.runs, len(tree.get("model", ())), len(text)))
        return True

    def _accept(self, tree: Tree) -> bool:
        # A failure that a run does not end needs a good last reply, and so does a mended agent: a
        # script without a reply is a failed call.
        replies = tree.get("model")
        last = replies[-1:] if isinstance(replies, list) else []
        if self._answers and last != [_LAST["model"]]:
            return False
        try:
            plan = Plan(_read({**tree, **self._fixed}), self._given)
            self.runs += 1
            failure = failure_of(plan, Rules(self.invariants), twice=self._twice)
        except (ScenarioError, ValidationError):
            return False
        if failure is None or failure.identity != self.failure.identity:
            return False
        self._best, self._text, self.failure = tree, json.dumps(tree), failure
        return True


def _read(tree: Tree) -> Scenario:
    # From JSON, which is validated as strictly as a file.
    return Scenario.model_validate_json(json.dumps(tree))


def with_planned_faults(tree: dict[str, Any], record: Sequence[AnyEntry]) -> dict[str, Any]:
    """Return a scenario, as data, with the recorded faults: random ones cannot be reduced."""
    replies: dict[int, dict[str, Any]] = {}
    scripts: dict[str, list[dict[str, Any]]] = {"model": [], "summaries": []}
    models = {name: {**party, "replies": []} for name, party in tree.get("models", {}).items()}
    tools = dict(tree.get("tools", {}))
    for entry in record:
        if type(entry) is entries.Request:
            reply = replies[entry.number] = {}
            script = scripts[_SCRIPTS[entry.purpose]]
            (models[entry.party]["replies"] if entry.party else script).append(reply)
        elif type(entry) is entries.ToolResult and LOST_TOOL in entry.text:
            old = tools.get(entry.name, {})
            kept = {key: value for key, value in old.items() if key not in TOOL_ENDS}
            tools[entry.name] = {**kept, "raises": LOST_TOOL}
        else:
            _add(replies, entry)
    for each in replies.values():
        if each.keys().isdisjoint(REPLY_ENDS):
            each["stall"] = "mid-output" if each else "after-headers"
    planned = {key: value for key, value in tree.items() if key != "faults"}
    if "services" in tree:
        routes = _routes(record)
        planned["services"] = {
            address: [*routes.get(address, ()), *known]
            for address, known in tree["services"].items()
        }
    if "programs" in tree:
        planned["programs"] = _answers(record, tree["programs"])
    return {**planned, **scripts, **({"models": models} if models else {}), "tools": tools}


def _answers(record: Iterable[AnyEntry], known: dict[str, Any]) -> dict[str, Any]:
    begun: dict[int, tuple[int, dict[str, Any]]] = {}
    answers: dict[str, list[dict[str, Any]]] = {}
    for entry in record:
        if type(entry) is entries.ProgramStarted:
            if not (FILES in known.values() and entry.args[0].rpartition("/")[2] in LISTS.shells):
                answer: dict[str, Any] = {"hangs": True, "times": 1, "pieces": []}
                begun[entry.number] = entry.at_ns, answer
                answers.setdefault(shlex.join(entry.args), []).append(answer)
        elif type(entry) in {entries.ProgramOutput, entries.ProgramEnded}:
            _add_to(begun, entry)
    lists = {key: each if isinstance(each, list) else [each] for key, each in known.items()}
    given = {key: each for key, each in known.items() if each == FILES}
    keys = dict.fromkeys([*known, *answers])
    return {**{key: [*answers.get(key, ()), *lists.get(key, ())] for key in keys}, **given}


def _add_to(begun: dict[int, tuple[int, dict[str, Any]]], entry: Any) -> None:
    if entry.program not in begun:
        return
    since_ns, answer = begun[entry.program]
    after = {"after": format_duration(entry.at_ns - since_ns)}
    begun[entry.program] = entry.at_ns, answer
    if type(entry) is entries.ProgramOutput:
        answer["pieces"].append({**after, entry.stream: entry.text})
        return
    names = [name for name, number in SIGNALS.items() if number == -entry.exit]
    if entry.exit >= 0 or names:
        answer["pieces"].append(after)
        del answer["hangs"]
        answer.update({"exit": entry.exit} if entry.exit >= 0 else {"signal": names[0]})


def _routes(record: Iterable[AnyEntry]) -> dict[str, list[dict[str, Any]]]:
    sent: dict[int, tuple[int, dict[str, Any]]] = {}
    routes: dict[str, list[dict[str, Any]]] = {}
    for entry in record:
        if type(entry) is entries.ServiceRequest:
            method = entry.method.lower()
            key = method if method in METHODS else "any"
            route = {key: entry.path or "/", "times": 1, "stall": "before-headers"}
            sent[entry.number] = entry.at_ns, route
            routes.setdefault(entry.service, []).append(route)
        elif type(entry) is entries.ServiceReply:
            since_ns, route = sent[entry.request]
            if entry.failure not in {"timed-out", "closed"}:
                del route["stall"]
                route["takes"] = format_duration(entry.at_ns - since_ns)
            if not entry.failure:
                route.update({"status": entry.status, "text": entry.body})
            elif entry.failure in _LOST:
                route["lost"] = _LOST[entry.failure]
    return routes


def _add(replies: dict[int, dict[str, Any]], entry: AnyEntry) -> None:
    match entry:
        case entries.TextDelta(request=request, text=text):
            replies[request].setdefault("say", []).append(text)
        case entries.ReasoningDelta(request=request, text=text):
            replies[request].setdefault("think", []).append(text)
        case entries.ToolCall(request=request, call_id=call_id, name=name, arguments=arguments):
            read = json_value(arguments)
            value = read if isinstance(read, dict) else arguments
            replies[request].setdefault("call", []).append({name: value})
            replies[request].setdefault("ids", []).append(call_id)
        case entries.Finish(request=request):
            replies[request]["finish"] = entry.raw
            if entry.usage is not None:
                given, made = entry.usage.input_tokens, entry.usage.output_tokens
                replies[request]["usage"] = {"input": given, "output": made}
            if entry.steps != 1:
                replies[request]["steps"] = entry.steps
        case entries.Error(request=request, fault=fault):
            replies[request].update(_failure(fault, began=bool(replies[request])))
        case entries.StreamCut(request=request):
            replies[request]["unfinished"] = True


@cache
def _known() -> Mapping[Fault, Keys]:
    return {
        part.fault: fault.keys
        for fault in FAULTS
        if fault.stage is Stage.INSTEAD
        for _, part in parts_of_fault(fault)
        if type(part) is StreamError
    }


def _failure(fault: Fault, *, began: bool) -> dict[str, Any]:
    if fault in _known() and not began:
        return dict(_known()[fault])
    code = "" if fault.code_is_type else fault.code
    if code == "timeout":
        unmade = "connect timeout" in fault.message  # as the client's end is told: wire/exchange.py
        return {"stall": "mid-output" if began else "before-connect" if unmade else "after-headers"}
    if code == "connection":
        return {"lost": "mid-output" if began else "before-headers"}
    if not fault.status or began:
        return {"error": {"message": fault.message, "code": fault.code}}
    http = {"status": fault.status, "message": fault.message, "code": fault.code}
    return {"http": {**http, "headers": dict(fault.headers)}}
