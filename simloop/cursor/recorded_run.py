"""A recording: the trace of a run, with everything that is known about the loop that made it.

Not here: the facts at one entry (position.py). The rule to keep: a trace of a stranger's loop
imports no code, so a recording without the loop has the facts of the boundary alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from simloop.check.replay import recorded_run, recorded_scenario
from simloop.cursor.index import Index
from simloop.engine.settings import EngineSettings
from simloop.errors import ScenarioError
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Machine
from simloop.kernel.retry import RetryPolicy
from simloop.messages import Request
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan
from simloop.runs.prepared import PreparedRun
from simloop.scenario.schema import Scenario
from simloop.trace.entries import AnyEntry
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import requests


@dataclass(kw_only=True)
class RecordedRun:
    """A run that is over: its trace, and the declarations of its loop where they are known.

    `machine` and `settings` are None for an agent, and for a loop that was not given. `unknown` is
    then the reason. `tools` has the names of the tools that the engine offers to the model, where
    they are known. `scenario` and `options` repeat the run; `scenario` is None if it cannot be
    repeated.
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

    @classmethod
    def of_trace(cls, trace: LoopTrace, loop: str | None = None) -> Self:
        """Return the recording of a trace. `loop` names a loop that does not come with simloop."""
        try:
            scenario, options = recorded_run(trace, loop)
            prepared = PreparedRun(Plan(scenario, options))
        except ScenarioError as error:
            return cls(trace=trace, scenario=_scenario_of(trace), unknown=str(error))
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
    def requests(self) -> dict[int, Request]:
        """Return the requests exactly as they were sent, by number."""
        return {each.number: each for each in requests(self.trace.entries)}


def _scenario_of(trace: LoopTrace) -> Scenario | None:
    try:
        return recorded_scenario(trace)
    except ScenarioError:
        return None
