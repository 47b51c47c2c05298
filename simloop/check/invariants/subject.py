"""The subject of a judgement: the declarations that hold for a run, and the facts of the run.

Not here: the invariants. The rule to keep: a missing declaration is None, and an invariant that
needs it is then not judged. simloop guesses no limits and no policies.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from simloop.check.invariants.course import Course
from simloop.check.invariants.pairs import Pairing
from simloop.engine.settings import EngineSettings
from simloop.kernel.limits import DeclaredLimits, Limits
from simloop.kernel.machine import Machine
from simloop.kernel.retry import RetryPolicy
from simloop.runs.run import Simulation
from simloop.scenario.schema import Scenario
from simloop.trace.facts import Facts
from simloop.world.tools import Tool


@dataclass(slots=True)
class Subject:
    """The declarations for one conversation, and its facts so far.

    `settings` are those of the engine, with the policies that hold for the run; None for an agent.
    `deviations` are the invariants that the loop design does not keep, each with the reason, and
    `broken_pairs` the pairs that the scenario expects to be broken. `tools` are those of the world.
    `pairing` reads the calls and results of the run. `shared` is for what the invariants of one
    module keep together. `course` follows a machine; an
    agent has none, and an invariant that asks for it needs a machine.
    """

    scenario: Scenario | None = None
    machine: Machine | None = None
    settings: EngineSettings | None = None
    limits: Limits | DeclaredLimits | None = None
    retry: RetryPolicy | None = None
    deviations: Mapping[str, str] = field(default_factory=dict)
    broken_pairs: Sequence[str] = ()
    tools: Mapping[str, Tool] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)
    shared: dict[str, Any] = field(default_factory=dict)
    pairing: Pairing = field(init=False)
    course: Course = field(init=False, default=None)  # type: ignore[assignment] # see above

    def __post_init__(self) -> None:
        """Begin with an empty run."""
        self.pairing = Pairing(self.facts)
        if self.machine is not None and self.settings is not None:
            self.course = Course(self.machine, self.settings, self.facts)

    @classmethod
    def of(cls, run: Simulation) -> Self:
        """Return the subject of a run that is prepared or has been made."""
        loop = run.loop
        settings = run.settings if loop.machine is not None else None
        return cls(
            scenario=run.scenario,
            machine=loop.machine,
            settings=settings,
            limits=loop.declared_limits if settings is None else settings.limits,
            retry=loop.retry if settings is None else settings.retry,
            deviations=loop.deviations,
            broken_pairs=loop.expected.broken_pairs,
            tools=run.tools,
        )
