"""A recording: the trace of a run, what is known about its loop, and what is wrong.

A trace of a stranger's loop imports no code, and has the facts of the boundary alone.
"""

import contextlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import FrameType
from typing import NamedTuple, Self, Unpack

from pydantic import ValidationError

from simloop.check.invariants.judge import Violation
from simloop.check.invariants.subject import Subject
from simloop.check.replay import needs_loop, recorded_run, recorded_scenario
from simloop.check.trial import Until, verify, violations
from simloop.cursor.index import Index
from simloop.cursor.rows import words_of
from simloop.engine.settings import EngineSettings
from simloop.errors import CheckFailed, InvariantViolated, ScenarioError, SimloopError
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Machine
from simloop.kernel.retry import RetryPolicy
from simloop.messages import Outcome, Request
from simloop.runs.fixtures import OF_A_PROMPT, OF_A_TEST
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan
from simloop.runs.result import Mismatch, unmet_in
from simloop.runs.run import Simulation
from simloop.scenario.catalog import find, without_engine
from simloop.scenario.expect import Expect
from simloop.scenario.schema import Scenario
from simloop.trace.codec import read_trace
from simloop.trace.entries import AnyEntry, Transition
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import requests
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.clock.waits import Wait, before_time_moves, sleep_of_caller, waits
from simloop.virtual.simulate import running_loop

MOST_WATCHED = 20_000
MOST_JUDGED = 20_000
"""The entries of the longest trace that is judged when it is opened: that takes about a second."""
_HEADER = b'{"kind":"header"'


class Waits:
    """The waits of an agent's code after each entry of its run, noted while the run goes on."""

    def __init__(self) -> None:
        self._after: dict[int, tuple[Wait, ...]] = {}
        self._newest = -1
        self._start_ns = 0
        self._has_moved = False

    def watch(self, run: Simulation) -> None:
        """Note the waits of a run that is about to begin, if it is of an agent of one's own."""
        if run.loop.machine is None:  # an engine records its waits
            run.listen(self._read)

    def watch_again(self, plan: Plan, trace: LoopTrace) -> None:
        """Make a recorded run of an agent again, and note its waits if it is the same run."""
        if plan.loop.machine is not None:
            return
        again = Simulation(plan, seed=trace.header.seed)
        self.watch(again)
        aside = io.StringIO()  # what the agent prints was seen when the run was recorded
        with contextlib.redirect_stdout(aside), contextlib.suppress(SimloopError):
            again.run()
        if again.trace.entries[: len(trace.entries)] != trace.entries:
            self._after.clear()

    def after(self, place: int) -> tuple[Wait, ...]:
        return self._after.get(place, ())

    def _read(self, entry: AnyEntry) -> None:
        loop = running_loop()
        if self._newest < 0:
            self._start_ns = loop.now_ns - entry.at_ns
            before_time_moves(loop, partial(self._move, loop))
        self._newest, self._has_moved = entry.seq, entry.seq >= MOST_WATCHED
        if not self._has_moved:
            self._note(waits(loop))

    def _move(self, loop: VirtualLoop, nanoseconds: int, frame: FrameType) -> None:
        """Replace the waits at the newest entry by those at the first move of time after it."""
        if not self._has_moved:
            self._has_moved = True
            self._note([*sleep_of_caller(loop, nanoseconds, frame), *waits(loop)])

    def _note(self, found: Iterable[Wait]) -> None:
        self._after[self._newest] = tuple(
            each if each.due_ns is None else each._replace(due_ns=each.due_ns - self._start_ns)
            for each in found
        )


class Finding(NamedTuple):
    """Something that is wrong: a name for a heading, and `subject` and `detail` of a sentence."""

    name: str
    subject: str
    detail: str
    seq: int | None = None  # the first entry that shows it; None if only the end does

    @property
    def brief(self) -> str:
        return self.name if self.seq is None else f"{self.name} at entry {self.seq}"

    def sentence(self, place: int) -> str:
        at = "" if self.seq is None else " here" if self.seq == place else f" at entry {self.seq}"
        return f"{self.subject}{at}: {self.detail}"

    @classmethod
    def of_mismatch(cls, found: Mismatch) -> "Finding":
        subject, _, detail = str(found).partition(": ")
        return cls(f"{subject} does not hold", subject, detail, found.seq)

    @classmethod
    def of_violation(cls, found: Violation) -> "Finding":
        subject = f"The run violates `{found.name}`"
        return cls(f"violates {found.name}", subject, f"{found.text}.", found.seq)

    @classmethod
    def of_error(cls, error: SimloopError) -> "Finding":
        name = type(error).__name__
        return cls(name, name, error.finding() if isinstance(error, CheckFailed) else str(error))


class RunEnding(NamedTuple):
    """How a run ended: its outcomes in words, what is wrong with it, and whether all is well."""

    words: str
    wrong: str
    is_good: bool


@dataclass(kw_only=True)
class RecordedRun:
    """A run that is over: its trace, and the declarations of its loop where they are known."""

    trace: LoopTrace
    scenario: Scenario | None = None  # None if the run cannot be repeated
    options: RunOptions = field(default_factory=RunOptions)
    machine: Machine | None = None  # None for an agent, or a loop that was not given, as `settings`
    settings: EngineSettings | None = None
    limits: Limits | None = None
    retry: RetryPolicy | None = None
    unknown: str = ""  # why the loop is not known
    needs_loop: bool = False  # the loop alone is missing
    expected: Expect = field(default_factory=Expect)
    unmet: Sequence[Mismatch] | None = None  # None if the trace alone is known
    errors: Sequence[SimloopError] = ()
    waits: Waits = field(default_factory=Waits)
    _words: dict[int, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of_trace(cls, trace: LoopTrace, loop: str | None = None) -> Self:
        """Return the recording of a trace; `loop` names a loop of the user's own.

        An agent is run again for its waits, which count if the second run is equal to the first.
        """
        try:
            scenario, options = recorded_run(trace, loop)
            plan = Plan(scenario, options)
            run = Simulation(plan)
        except ScenarioError as error:
            scenario = None
            with contextlib.suppress(ScenarioError):
                scenario = recorded_scenario(trace)
            return cls(
                trace=trace, scenario=scenario, unknown=str(error),
                needs_loop=loop is None and needs_loop(trace), expected=_expected_of(trace),
            )  # fmt: skip
        made = cls.of_run(run, trace, options)
        made.waits.watch_again(plan, trace)
        return made

    @classmethod
    def of_run(cls, run: Simulation, trace: LoopTrace, options: RunOptions) -> Self:
        loop = run.loop
        settings = run.settings if loop.machine is not None else None
        return cls(
            trace=trace, scenario=run.scenario, options=options, machine=loop.machine,
            settings=settings, limits=None if settings is None else settings.limits,
            retry=loop.retry if settings is None else settings.retry, expected=run.expected,
        )  # fmt: skip

    @property
    def entries(self) -> Sequence[AnyEntry]:
        return self.trace.entries

    def words_at(self, place: int) -> str:
        if place not in self._words:
            self._words[place] = words_of(self.entries[place])
        return self._words[place]

    @cached_property
    def is_of_agent(self) -> bool:
        return self.machine is None and Transition not in self.index.places

    @cached_property
    def index(self) -> Index:
        return Index(self.trace.entries)

    @cached_property
    def violations(self) -> tuple[Violation, ...]:
        """Return the unexpected violations, the earliest first; none of a very long trace."""
        if self.scenario is None or len(self.entries) > MOST_JUDGED:
            return ()
        if self.unknown:  # the loop may be a test, which runs any number of agents
            lacks = dict.fromkeys(OF_A_PROMPT, self.unknown)
            subject = Subject(scenario=self.scenario, expected=self.expected, deviations=lacks)
        else:
            subject = Subject.of(Simulation(Plan(self.scenario, self.options)))
        found = violations(subject, self.trace, self.expected)
        return tuple(sorted(found, key=lambda one: one.seq))

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        if (unmet := self.unmet) is None:  # an async test states in its code what it expects
            of_a_test = OF_A_TEST in self.trace.header.python
            unmet = () if of_a_test else unmet_in(self.trace, self.expected)
        found = [*map(Finding.of_violation, self.violations), *map(Finding.of_mismatch, unmet)]
        found += map(Finding.of_error, self.errors)
        last = len(self.entries) - 1
        return tuple(sorted(found, key=lambda one: last if one.seq is None else one.seq))

    @property
    def ending(self) -> RunEnding:
        expect = self.expected
        stated = expect.says_how_it_ends if self.trace.outcomes else expect.error is not None
        outcomes, findings = self.trace.outcomes, self.findings
        words = ", ".join(map(str, outcomes)) if outcomes else "did not end"
        wrong = findings[0].brief if findings else ""
        if len(findings) > 1:
            wrong = f"{wrong}, and {len(findings) - 1} more"
        well = stated or set(outcomes) == {Outcome.COMPLETED}
        return RunEnding(words, wrong, well and not findings)

    @property
    def first_place(self) -> int:
        if (first := next((found.seq for found in self.findings), None)) is not None:
            return first
        return 0 if self.ending.is_good else len(self.entries) - 1

    @cached_property
    def requests(self) -> dict[int, Request]:
        return {each.number: each for each in requests(self.trace.entries)}


def _expected_of(trace: LoopTrace) -> Expect:
    header = trace.header
    try:
        scenario = Scenario.model_validate_json(bytes(header.scenario))
    except ValidationError:
        return Expect()
    expect = scenario.expected_of(header.loop, header.judge_as)
    # What a scenario of another loop expects of that loop's engine says nothing about an agent.
    of_other = expect is scenario.expect and header.loop != scenario.loop
    return without_engine(expect) if of_other else expect


def is_trace(named: str) -> bool:
    """Return whether `named` is the file of a trace, by its name or by its first line."""
    if named.endswith(".jsonl"):
        return True
    try:
        with Path(named).open("rb") as file:
            return file.read(len(_HEADER)) == _HEADER
    except (OSError, ValueError):  # a folder, no file, or a name that no file can have
        return False


def opened_run(named: str, **given: Unpack[RunOptions]) -> RecordedRun:
    """Return the run of a trace, or of a scenario with options `given`. Raises ScenarioError."""
    if is_trace(named):
        loop = given.get("loop")
        return opened_trace(named, loop if isinstance(loop, str) else None)
    return opened_scenario(find(named), **given)


def opened_trace(named: str, loop: str | None = None) -> RecordedRun:
    """Return the run of a trace file. Raises ScenarioError if it cannot be read, or is empty."""
    recording = RecordedRun.of_trace(read_trace(Path(named)), loop)
    if not recording.entries:
        raise ScenarioError("the trace has no entries", path=named, hint="record the run again")
    return recording


def opened_scenario(path: Path, **given: Unpack[RunOptions]) -> RecordedRun:
    """Run a scenario file and return the run. Raises the error of a run that left no entry."""
    watched = Waits()
    verdict = verify(path, Until.END, watched.watch, **given)
    if verdict.trace is None or verdict.run is None or not verdict.trace.entries:
        raise verdict.worst or ScenarioError("the run has left no entry", path=path)
    made = RecordedRun.of_run(verdict.run, verdict.trace, given)
    made.unmet, made.waits = verdict.mismatches, watched
    # A violation is found again, with its entry.
    made.errors = [each for each in verdict.errors if not isinstance(each, InvariantViolated)]
    return made
