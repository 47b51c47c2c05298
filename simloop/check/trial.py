"""The one way to run and judge: a trial of a plan, and its verdict.

The commands, the search, the shrinker, the fixtures, the strategies and the replayer all make
trials, so they agree on what a failure is. A run fails for one of these reasons, in this order:

1. It violates an invariant that its scenario does not expect to be violated.
2. An error ends it that its scenario does not expect.
3. An expectation of its scenario does not hold. The violations that a scenario lists are
   expectations, too: one that is no longer there fails the run.
4. A second run differs.

`Verdict.failure` returns the first of them. Two failures with one `identity` are the same failure.
"""

import asyncio
import contextlib
import gc
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Unpack

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from simloop import errors
from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.judge import Chosen, Judge, Violation, all_invariants, choose
from simloop.check.invariants.subject import Subject
from simloop.errors import InternalError, ScenarioError, SimloopError
from simloop.escape import escape
from simloop.runs.garbage import settle
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan, repeat
from simloop.runs.result import Mismatch, Result, in_trace, mismatches, printed
from simloop.runs.run import Simulation
from simloop.scenario.expect import Expect
from simloop.scenario.loader import load_scenario
from simloop.scenario.schema import Scenario
from simloop.trace.codec import comparable
from simloop.trace.diff import first_difference
from simloop.trace.entries import AnyEntry, Compaction, Request
from simloop.trace.looptrace import LoopTrace
from simloop.virtual.border.output import Output
from simloop.world.user_functions import UserError, describe

FINISHES = "finishes"
UNLIKE = "differs-from-design"
EXPECTATION = "expectation"

SENTENCES: Mapping[str, str] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
"""The properties that failures of these names lack."""

SPLIT = frozenset({
    "accepted-requests", "changes-made-once", "no-mistake-in-the-code", "prompt-and-tools-kept",
    "replies-with-calls-kept", "agent-respects-its-limits", "agent-uses-its-limits",
})  # fmt: skip
"""The invariants whose violations have different causes if their texts begin with other words."""

_WHY = re.compile(r"(?:request \d+ |.* status \d+: (?:m\S*: )?)?(\w+Error|`?\w+`?( [a-z]+){0,2})")
_NUMBER = re.compile(r"\d+")
_TAIL = 60  # the number of entries at the end of a runaway run that are inspected: a few rounds


def cause_of(text: str) -> str:
    """Return the first words of a text: the class of an error, or how a request is wrong."""
    found = _WHY.match(text.partition("(Error: ")[2] or text)
    return found[1] if found else ""


class Failure(NamedTuple):
    """The failure of a run."""

    name: str  # that of the invariant, of the error, or a constant above
    text: str
    sentence: str  # the property that does not hold
    printed: tuple[str, ...] = ()  # the lines that the run printed

    @classmethod
    def named(cls, name: str, text: str) -> "Failure":
        return cls(name, text, SENTENCES.get(name, "A run raises no error."))

    @classmethod
    def of_error(cls, error: BaseException) -> "Failure":
        name = FINISHES if isinstance(error, errors.RunawayRun) else type(error).__name__
        text = error.finding() if isinstance(error, errors.CheckFailed) else escape(describe(error))
        return cls.named(name, text)

    @property
    def identity(self) -> str:
        """Return the text that two failures must share to count as the same failure."""
        if self.name in SPLIT:
            return f"{self.name} {cause_of(self.text)}"
        return self.text if self.name == EXPECTATION else self.name


class Until(Enum):
    """How far a trial goes. With TWICE it runs to the end, and then again to compare the runs."""

    END = "end"
    VIOLATION = "first violation"
    TWICE = "twice"


class Rules(Struct, eq=False):
    """The rules of a trial: its invariants, by default all, and whether expectations count.

    Without expectations, only those on properties are judged (see `Expect.properties`), the script
    need not fit the run, and compactions without a bound by design may be repeated. The first trial
    chooses the invariants for all: the rules are for one plan.
    """

    _invariants: Sequence[Invariant] | None = None
    expectations: bool = True
    _chosen: Chosen | None = None

    def chosen(self, subject: Subject) -> Chosen:
        if self._chosen is None:
            self._chosen = choose(subject, self._invariants)
        return self._chosen


UNJUDGED = Rules((), expectations=False)
"""No rules: a run fails only if it raises an error, or does not end."""


class Verdict(Struct):
    """The result of a trial, as far as that has come: read, run, judged, run again."""

    scenario: Scenario | None = None
    plan: Plan | None = None
    run: Simulation | None = None
    result: Result | None = None
    error: BaseException | None = None  # it ended the run
    ended_by: BaseException | None = None  # `error`, if expected in the place of an outcome
    unmet: tuple[Mismatch, ...] = ()  # the expectations that such a run does not meet
    violations: tuple[Violation, ...] = ()  # those that the scenario does not expect
    errors: list[SimloopError] = []  # those of simloop to report, in the order of the stages
    deterministic: bool | None = None  # None if there was no second run
    rules: Rules = msgspec.field(default_factory=lambda: UNJUDGED)

    @property
    def trace(self) -> LoopTrace | None:
        """Return the trace, which is complete as far as the run has come."""
        return None if self.run is None else self.run.trace

    @property
    def entries(self) -> Sequence[AnyEntry]:
        return () if self.run is None else self.run.trace.entries

    @property
    def expected(self) -> Expect:
        """Return the expectations of the loop that was run, as far as they count."""
        if self.run is None or self.rules is UNJUDGED:
            return Expect()
        expected = self.run.expected
        return expected if self.rules.expectations else expected.properties

    @property
    def raised(self) -> tuple[UserError, ...]:
        return () if self.run is None else self.run.exceptions

    @property
    def output(self) -> Output:
        return Output() if self.run is None else self.run.output

    @property
    def mismatches(self) -> tuple[Mismatch, ...]:
        return self.result.mismatches if self.result else self.unmet

    @property
    def failures(self) -> tuple[str, ...]:
        return tuple(map(str, self.mismatches))

    @property
    def worst(self) -> SimloopError | None:
        """Return the most severe error: of equally severe ones the first."""
        return max(self.errors, key=lambda error: error.exit_code, default=None)

    @property
    def cannot(self) -> str:
        found = (error for error in self.errors if isinstance(error, errors.CannotExpress))
        return next(("; ".join(error.reasons) for error in found), "")

    @property
    def exit_code(self) -> int:
        return max([1 if self.failures else 0, *(error.exit_code for error in self.errors)])

    def failure(self) -> Failure | None:
        """Return the failure of the run, or None. Raises ScenarioError if it cannot be run."""
        return next(self._failures(), None)

    def every_failure(self) -> list[Failure]:
        """Return each violation as a failure, and the other one, if any. Raises as `failure`."""
        return [*self._failures()]

    def _failures(self) -> Iterator[Failure]:
        lines = tuple(printed(self.output))
        for each in self.violations:
            yield Failure(each.name, each.text, each.invariant.sentence, lines)
        if (other := self._other_failure()) is not None:
            yield other._replace(printed=lines)

    def _other_failure(self) -> Failure | None:
        # The agent may have swallowed the first error, and another one ended its run.
        cause = self.error and ((self.run and self.run.error) or self.error)
        if self.violations and isinstance(cause, errors.InvariantViolated):
            return None  # a violation has ended the run, and is told
        if cause is not None and self.ended_by is None and not self._compacts_by_design(cause):
            if isinstance(cause, ScenarioError) and cause.key != "loop":
                raise cause
            if isinstance(cause, errors.ScriptUnused) and len(cause.others) > 1:
                # The unmet outcome is more useful than the unused replies.
                return Failure.named(EXPECTATION, cause.others[1])
            return Failure.of_error(cause)
        if self.mismatches:
            return Failure.named(EXPECTATION, str(self.mismatches[0]))
        found = next((each for each in self.errors if each is not self.error), None)
        if isinstance(found, ScenarioError):  # about the judging: an unknown name, a failing one
            raise found
        if isinstance(found, errors.InvariantViolated):
            return Failure.named(EXPECTATION, found.finding().partition("\n")[0])
        return None if found is None else Failure.of_error(found)

    def _compacts_by_design(self, cause: BaseException) -> bool:
        """Return whether a run repeats compactions that its machine does not bound (bug B1)."""
        if self.rules.expectations or not isinstance(cause, errors.RunawayRun):
            return False
        machine = None if self.run is None else self.run.loop.machine
        is_unbounded = machine is not None and "max_compaction_attempts" not in machine.bounds
        return is_unbounded and any(type(each) is Compaction for each in self.entries[-_TAIL:])

    def end(self) -> Result | None:
        """Return the result. Raises the error that ended the run, even an expected one."""
        if self.error is not None:
            raise self.error
        return self.result

    def check(self) -> Result | None:
        """Return the result, or None if an error was expected. Raises the first error."""
        if self.error is not None and self.ended_by is None:
            raise self.error
        if self.unmet:
            reproduce = "" if self.run is None else self.run.reproduce
            raise errors.ExpectationFailed("\n".join(self.failures), reproduce=reproduce)
        if self.result is not None:
            self.result.check()
        if self.errors:
            raise self.errors[0]
        return self.result


def trial(
    plan: Plan, rules: Rules | None = None, until: Until = Until.END,
    *, seed: int | None = None, watch: Callable[[Simulation], object] | None = None,
) -> Verdict:  # fmt: skip
    """Run a plan, judge the run, and return the verdict.

    `watch` gets the run before it begins. Raises ScenarioError if the run cannot begin, and lets
    KeyboardInterrupt through: the run that `watch` got has the trace up to there.
    """
    rules = rules or Rules()
    if plan.loop.is_own and plan.loop.machine is None:
        settle()  # before there is anything of this run
    run = Simulation(plan, seed=seed)
    verdict = Verdict(plan.source, plan, run, rules=rules)
    subject = Subject.of(run)
    chosen = rules.chosen(subject)
    judging = Judge(subject, chosen)
    known = verdict.expected.violates or ()

    def end(violation: Violation) -> None:
        if violation.name not in known:
            run.end(errors.InvariantViolated(str(violation)))

    if listens := until is Until.VIOLATION and bool(chosen.judged):
        judging.tell = end
        run.listen(judging)
    if watch is not None:
        watch(run)
    _make(run, verdict)
    judging.tell = None  # break the reference cycle, so that the run is freed at once
    if not run.trace.entries or isinstance(verdict.error, InternalError):  # reported once
        return verdict
    if chosen.judged:
        # A run in a fork was judged there, and by another judge.
        heard = listens and not plan.given.get("isolate") and plan.loop.program is None
        record = () if heard else run.trace.entries
        _judge(verdict, judging, verdict.expected, record, ended_it=listens)
    if until is Until.TWICE:
        run_again(verdict)
    return verdict


def only(name: str) -> list[Invariant] | None:
    """Return the invariant of that name alone, or None if there is none: then all are judged."""
    return [each for each in all_invariants() if each.name == name] or None


def failure_of(
    plan: Plan, rules: Rules | None = None, *, twice: bool = False, name: str = ""
) -> Failure | None:
    """Run a plan to its first violation, and return the failure: that of the name, or the first.

    `twice`: repeat a good run.
    """
    verdict = trial(plan, rules, Until.VIOLATION)
    if twice and verdict.failure() is None:
        run_again(verdict)
    named = (each for each in (verdict.every_failure() if name else ()) if each.name == name)
    return next(named, verdict.failure())


def _make(run: Simulation, verdict: Verdict) -> None:
    expects = verdict.rules.expectations
    try:
        result = run.run() if expects else run.run_unchecked()
        bounds = verdict.expected
        found = () if expects or not bounds.model_fields_set else mismatches(bounds, result)
        verdict.result = replace(result, mismatches=found) if found else result
    except (SimloopError, Exception, asyncio.CancelledError, SystemExit) as error:  # noqa: BLE001 - a loop is somebody's code
        verdict.error = error
        if expects and run.expected.error == type(error).__name__:
            verdict.ended_by = error
            verdict.unmet = tuple(in_trace(run.expected, run.trace))
        elif isinstance(error, SimloopError):
            verdict.errors.append(error)


def _judge(
    verdict: Verdict, judging: Judge, expect: Expect, record: Iterable[AnyEntry], *, ended_it: bool
) -> None:
    """Judge the entries that were not heard; `ended_it`: a violation has ended the run."""
    assert verdict.trace is not None
    try:
        judging.read(record, ended=verdict.trace.footer is not None)
    except SimloopError as error:  # an invariant of the user's own that fails
        verdict.errors.append(error)
        return
    verdict.violations = _not_listed(judging, expect)
    if verdict.rules.expectations and not (ended_it and verdict.violations):
        verdict.errors += _unexpected(verdict, judging, expect)


def _not_listed(judging: Judge, expect: Expect) -> tuple[Violation, ...]:
    return tuple(one for one in judging.violations if one.name not in (expect.violates or ()))


def _unexpected(verdict: Verdict, judging: Judge, expect: Expect) -> Iterator[SimloopError]:
    expected, names = expect.violates or {}, {each.name for each in all_invariants()}
    if unknown := next((name for name in expected if name not in names), ""):
        path = (verdict.scenario and verdict.scenario.path) or None
        wrong = f"there is no invariant `{escape(unknown)}`"
        hint = "see them with: simloop invariants"
        yield ScenarioError(wrong, path=path, key="expect.violates", hint=hint)
        return
    those = verdict.violations
    found = [f"invariant {each.name}: {escape(each.text)} (entry {each.seq})" for each in those]
    has = {each.name for each in judging.violations}
    for name in (name for name in expected if name not in has):
        why = judging.unjudged.get(name)
        but = f"it is not judged: {why}" if why else "the run does not violate it"
        found.append(f"invariant {name}: listed in expect.violates, but {but}")
    if found:
        assert verdict.trace is not None
        again = "" if verdict.plan is None else reproduce(verdict.plan, verdict.trace.header.seed)
        yield errors.InvariantViolated("\n".join(found), reproduce=again)


def violations(subject: Subject, trace: LoopTrace, expect: Expect) -> tuple[Violation, ...]:
    """Return the unlisted violations of a recorded run; none if a user's own invariant fails."""
    try:
        judged = Judge(subject).read(trace.entries, ended=trace.footer is not None)
    except SimloopError:
        return ()
    return _not_listed(judged, expect)


def verdict_on(run: Simulation, expect: Expect) -> Verdict:
    """Return the verdict on a run that was made already, of which `expect` is expected."""
    verdict = Verdict(run.scenario, run=run, rules=Rules())
    _judge(verdict, Judge(Subject.of(run)), expect, run.trace.entries, ended_it=False)
    return verdict


def run_again(verdict: Verdict) -> None:
    """Run the plan of a verdict again, and note in the verdict whether the runs differ.

    A machine that is given as an object is driven again: it may carry something into its next run.
    """
    plan, trace = verdict.plan, verdict.trace
    assert plan is not None
    assert trace is not None
    _let_go(verdict)
    try:
        rules = Rules((), expectations=verdict.rules.expectations)
        again = _whole(trial(plan.fresh(), rules, seed=trace.header.seed))
    except SimloopError as error:
        verdict.deterministic = False
        verdict.errors.append(error)
        return
    # The lines show more than a comparison of values would: 1 and true, 0 and -0.
    verdict.deterministic = _lines(trace) == _lines(again) or _is_keyed(plan, trace, again)
    if not verdict.deterministic:
        lines = ["two runs of the same scenario with the same seed differ"]
        found = first_difference(trace, again)
        lines += () if found is None else found.lines("first run", "second run")
        sent = enumerate(zip(_digests(trace), _digests(again), strict=False), 1)
        other = [number for number, (one, two) in sent if one != two]
        lines += [f"the model is told something else in request #{each}" for each in other[:1]]
        lines += _apart(plan, trace.header.seed)
        reproduced = reproduce(plan, trace.header.seed)
        verdict.errors.append(errors.ReplayDiverged("\n".join(lines), reproduce=reproduced))


def _let_go(verdict: Verdict) -> None:
    """Let go of the objects of a run that its exceptions hold: the next run must not find them."""
    if verdict.raised:
        for each in verdict.raised:
            each.let_go()
        gc.collect()


def _digests(trace: LoopTrace) -> list[str]:
    return [entry.digest for entry in trace.entries if type(entry) is Request]


def _told(trace: LoopTrace) -> list[str]:
    told = ((each.added, each.system_prompt) for each in trace.entries if type(each) is Request)
    return [_NUMBER.sub("0", repr(each)) for each in told]


def _is_keyed(plan: Plan, trace: LoopTrace, again: LoopTrace) -> bool:
    """Return whether the model is told the same as in `trace` if other random numbers are drawn.

    Runs with one seed draw one id: what is kept under it would be another user's. Numbers that a
    database counts up may differ.
    """
    if not plan.loop.is_own or _told(trace) == _told(again):
        return False
    with contextlib.suppress(SimloopError):
        other = _whole(trial(plan.fresh(), UNJUDGED, seed=trace.header.seed + 1))
        return _told(other) == _told(trace)
    return False


def _apart(plan: Plan, seed: int) -> Iterator[str]:
    """Yield whether two runs of a loop of the user's own still differ if they share nothing."""
    from simloop.runs.isolation import can_isolate  # noqa: PLC0415 - in case of need

    if not plan.loop.is_own or plan.given.get("isolate") or not can_isolate():
        return
    with contextlib.suppress(SimloopError):
        first, second = (_whole(trial(plan.isolated(), UNJUDGED, seed=seed)) for _ in range(2))
        if _lines(first) == _lines(second):
            yield "each in a process of its own, two runs are equal (--isolate): the loop keeps"
            yield "something from one run for the next"
        else:
            yield "each in a process of its own (--isolate), two runs differ, too"


def _lines(trace: LoopTrace) -> bytes:
    """Return the lines of the file without the digest, which would take longer than comparing."""
    return comparable((trace.header, *trace.entries, trace.footer))


def _whole(verdict: Verdict) -> LoopTrace:
    """Return the trace of a run. Raises the error of one that left no entry, and ours."""
    error, trace = verdict.error, verdict.trace
    assert trace is not None
    if error is not None and (isinstance(error, InternalError) or not trace.entries):
        raise error
    return trace


def reproduce(plan: Plan, seed: int) -> str:
    """Return the command that checks a run again."""
    return repeat(plan.source, plan.given, seed, "check", "simloop.check.trial.verify")


def run_to_the_end(scenario: Scenario | Plan, **given: Unpack[RunOptions]) -> LoopTrace:
    """Return the trace of a run, however it ended. Raises ScenarioError and InternalError."""
    plan = scenario if isinstance(scenario, Plan) else Plan(scenario, given)
    return _whole(trial(plan, UNJUDGED))


def verify(
    source: Scenario | Path, until: Until = Until.TWICE,
    watch: Callable[[Simulation], object] | None = None, **given: Unpack[RunOptions],
) -> Verdict:  # fmt: skip
    """Read a scenario and return the verdict of its trial; `Verdict.errors` has its errors."""
    verdict = Verdict()
    try:
        verdict.scenario = load_scenario(source) if isinstance(source, Path) else source
        verdict = trial(Plan(verdict.scenario, given), until=until, watch=watch)
    except SimloopError as error:
        verdict.errors.append(error)
    for each in verdict.errors:
        if isinstance(each, ScenarioError) and each.path is None:
            each.path = source if isinstance(source, Path) else source.path or None
    if verdict.error is not None and not isinstance(verdict.error, SimloopError):
        raise verdict.error
    _let_go(verdict)
    return verdict
