"""A recording: the trace of a run, with everything that is known about the loop that made it.

Not here: the facts at one entry (position.py). The rule to keep: a trace of a stranger's loop
imports no code, so a recording without the loop has the facts of the boundary alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from simloop.check.invariants.judge import Violation, judge
from simloop.check.invariants.subject import Subject
from simloop.check.judged import OF_PAIRS
from simloop.check.replay import needs_loop, recorded_run, recorded_scenario
from simloop.cursor.index import Index
from simloop.engine.settings import EngineSettings
from simloop.errors import ScenarioError, SimloopError
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Machine
from simloop.kernel.retry import RetryPolicy
from simloop.messages import Request
from simloop.runs.async_test import OF_A_PROMPT
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan
from simloop.runs.prepared import PreparedRun
from simloop.scenario.schema import Scenario
from simloop.trace.entries import AnyEntry
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import requests

MOST_JUDGED = 20_000
"""The entries of the longest trace that is judged when it is opened: that takes about a second."""


@dataclass(kw_only=True)
class RecordedRun:
    """A run that is over: its trace, and the declarations of its loop where they are known.

    `machine` and `settings` are None for an agent, and for a loop that was not given. `unknown` is
    then the reason, and `needs_loop` says that the loop alone is missing. `tools` has the
    names of the tools that the engine offers to the model, where they are known. `scenario` and
    `options` repeat the run; `scenario` is None if it cannot be repeated.
    """

    trace: LoopTrace
    scenario: Scenario | None = None
    options: RunOptions = field(default_factory=RunOptions)
    machine: Machine | None = None
    settings: EngineSettings | None = None
    limits: Limits | None = None
    retry: RetryPolicy | None = None
    tools: Sequence[str] | None = None
    unknown: str = ""
    needs_loop: bool = False

    @classmethod
    def of_trace(cls, trace: LoopTrace, loop: str | None = None) -> Self:
        """Return the recording of a trace. `loop` names a loop that does not come with simloop."""
        try:
            scenario, options = recorded_run(trace, loop)
            prepared = PreparedRun(Plan(scenario, options))
        except ScenarioError as error:
            known = _scenario_of(trace)
            needs = loop is None and needs_loop(trace)
            return cls(trace=trace, scenario=known, unknown=str(error), needs_loop=needs)
        return cls.of_run(prepared, trace, options)

    @classmethod
    def of_run(cls, prepared: PreparedRun, trace: LoopTrace, options: RunOptions) -> Self:
        """Return the recording of a run that has been prepared, and perhaps made."""
        declared = prepared.loop.design.declared
        settings = prepared.settings if declared.machine is not None else None
        return cls(
            trace=trace,
            scenario=prepared.scenario,
            options=options,
            machine=declared.machine,
            settings=settings,
            limits=declared.limits if settings is None else settings.limits,
            retry=declared.retry if settings is None else settings.retry,
            tools=None if settings is None else tuple(prepared.tools),
        )

    @property
    def entries(self) -> Sequence[AnyEntry]:
        """Return the entries of the trace."""
        return self.trace.entries

    @cached_property
    def index(self) -> Index:
        """Return the index of the trace."""
        return Index(self.trace.entries)

    @cached_property
    def violations(self) -> tuple[Violation, ...]:
        """Return the violations of the run, the earliest first; none of a very long trace.

        A violation that the scenario expects, or that the loop declares, is none.
        """
        if self.scenario is None or len(self.entries) > MOST_JUDGED:
            return ()
        try:
            found = judge(self._subject(self.scenario), self.entries).violations
        except SimloopError:  # `check` reports an invariant of the user's own that fails
            return ()
        header = self.trace.header
        expect = self.scenario.expected_of(header.loop, header.judge_as)
        known = set(expect.violates or ()) | (OF_PAIRS if expect.broken_pairs else set())
        unexpected = (one for one in found if one.name not in known)
        return tuple(sorted(unexpected, key=lambda one: one.seq))

    def _subject(self, scenario: Scenario) -> Subject:
        if not self.unknown:
            return Subject.of(PreparedRun(Plan(scenario, self.options)))
        # The loop may be a test, which runs any number of agents.
        return Subject(scenario=scenario, deviations=dict.fromkeys(OF_A_PROMPT, self.unknown))

    @cached_property
    def requests(self) -> dict[int, Request]:
        """Return the requests exactly as they were sent, by number."""
        return {each.number: each for each in requests(self.trace.entries)}


def _scenario_of(trace: LoopTrace) -> Scenario | None:
    try:
        return recorded_scenario(trace)
    except ScenarioError:
        return None
