"""The design of a run's loop: a machine that the engine drives, or an agent of the user's own.

Not here: finding the loop that a name or an object means (chosen_loop.py). The rule to keep: no
module above asks which of the two a loop is; both answer with features that they lack, policies and
an agent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol

from simloop.engine.machine_agent import MachineAgent
from simloop.engine.settings import EngineSettings
from simloop.errors import AgentNotMade, ScenarioError
from simloop.kernel.limits import DeclaredLimits, Limits
from simloop.kernel.machine import Feature, Machine
from simloop.kernel.policies import Policies
from simloop.kernel.retry import RetryPolicy
from simloop.runs.isolation import isolated
from simloop.runs.own_loop import A_LOOP, AN_AGENT, is_maker
from simloop.virtual.places import place_of_error
from simloop.virtual.simulate import running_loop, simulate
from simloop.wire.api_keys import dummy_keys
from simloop.world.agent import Agent, agent_from, is_agent

UNSUPPORTED_BY_AGENTS: Mapping[Feature, str] = {
    Feature.HOOKS: "an agent of your own has no hooks of simloop",
    Feature.COMPACTION: "an agent of your own keeps its own context",
    Feature.EARLY_TOOLS: "an agent of your own starts its tools itself",
    Feature.HISTORY: "an agent of your own keeps its own history",
    Feature.LIMITS: "an agent of your own has no limits of simloop but max_wall_clock",
    Feature.TRIGGERS: "an agent of your own leaves no entries of an engine to act after",
    Feature.SYSTEM_PROMPT: "an agent of your own has its own system prompt",
    Feature.POLICIES: "an agent of your own has no policies of simloop",
    Feature.QUEUE: "an agent of your own may leave messages in its queue",
}
"""For each feature that only the engine has, the reason why an agent cannot provide it."""

_OF_RETRY = ("classify", "retryable", "delay_ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """The properties that a loop declares, by which its runs are judged; None is undeclared.

    An agent declares `limits`, `retry` and `deviations` by attributes of these names and types. Of
    its limits, only those that it sets are declared. `deviations` are the invariants that a loop
    does not keep, each with the reason.
    """

    machine: Machine | None = None
    limits: DeclaredLimits | None = None
    retry: RetryPolicy | None = None
    deviations: Mapping[str, str] = field(default_factory=dict)


class Design(Protocol):
    """The design of a loop: what it lacks, its policies, and its agent for one conversation."""

    @property
    def declared(self) -> Declared:
        """Return the properties by which runs are judged."""
        ...

    @property
    def unsupported(self) -> Mapping[Feature, str]:
        """Return the features that the design lacks, each with the reason."""
        ...

    @property
    def policies(self) -> Policies:
        """Return the policies that hold where a scenario states none."""
        ...

    @property
    def keeps_state(self) -> bool:
        """Return whether the design itself may keep something from one run for the next."""
        ...

    def agent(self, settings: EngineSettings) -> Agent:
        """Return a new agent; `settings` are those of the engine."""
        ...

    def check(self) -> None:
        """Make an agent as a run does, and drop it. Raises ScenarioError if that fails."""
        ...


@dataclass(frozen=True)
class MachineDesign:
    """A loop machine, driven by the engine."""

    machine: Machine

    @cached_property  # the judge of each run of a plan asks for it
    def declared(self) -> Declared:
        """Return the machine with its deviations; its limits and policies are in the settings."""
        return Declared(machine=self.machine, deviations=getattr(self.machine, "deviations", {}))

    @property
    def unsupported(self) -> Mapping[Feature, str]:
        """Return the features that the machine does not have."""
        return self.machine.unsupported

    @property
    def policies(self) -> Policies:
        """Return the machine's own policies."""
        return self.machine.policies

    @property
    def keeps_state(self) -> bool:
        """Return True: the machine is one object, perhaps of the user's own."""
        return True

    def agent(self, settings: EngineSettings) -> MachineAgent:
        """Return an agent that drives the machine."""
        return MachineAgent(self.machine, settings)

    def check(self) -> None:
        """Do nothing: the machine is made."""


def _advice(error: BaseException) -> str:
    place = place_of_error(error)
    return f"it fails at {place}: correct that, or install what is missing" if place else A_LOOP


@dataclass(frozen=True)
class AgentDesign:
    """An agent of the user's own: an async function or object, or what makes one for each run.

    That is a class, or a function without a parameter; `options` are its arguments by name.
    """

    made: Any
    name: str
    options: Mapping[str, Any]

    @property
    def declared(self) -> Declared:
        """Return the declarations that the agent, its class or its maker has as attributes.

        An attribute of that name with a value of another type is the agent's own affair.
        """
        limits = getattr(self.made, "limits", None)
        retry = getattr(self.made, "retry", None)
        deviations = getattr(self.made, "deviations", None)
        declared = limits.declared if isinstance(limits, Limits) else DeclaredLimits()
        return Declared(
            limits=declared if declared != DeclaredLimits() else None,
            retry=retry if all(map(partial(hasattr, retry), _OF_RETRY)) else None,
            deviations=deviations if isinstance(deviations, Mapping) else {},
        )

    @property
    def unsupported(self) -> Mapping[Feature, str]:
        """Return the features that only the engine has."""
        return UNSUPPORTED_BY_AGENTS

    @property
    def policies(self) -> Policies:
        """Return the default policies; an agent looks at none of them."""
        return Policies()

    @property
    def keeps_state(self) -> bool:
        """Return False: the agent is made, or called, by each run."""
        return False

    def agent(self, settings: EngineSettings) -> Agent:  # noqa: ARG002 - for machines
        """Return the agent. Raises ScenarioError if there is none."""
        return self._agent_of(self._made_now()) if self._is_made_for_each_run else self._ready

    def check(self) -> None:
        """Make an agent as a run does, and drop it. Raises ScenarioError if there is none."""

        async def make() -> None:
            running_loop().raises_unseen = False
            self._agent_of(self._made_now())

        if self._is_made_for_each_run:
            with dummy_keys():
                simulate(make())

    def _made_now(self) -> Any:
        message = f"the agent `{self.name}` cannot be made"
        with isolated(message, _advice, kind=AgentNotMade):
            return self.made(**self.options)

    @cached_property
    def _is_made_for_each_run(self) -> bool:
        return is_maker(self.made)

    @cached_property
    def _ready(self) -> Agent:
        """Return the agent that every run calls; to look at its parameters takes 20 us."""
        return self._agent_of(self.made)

    def _agent_of(self, made: Any) -> Agent:
        if not is_agent(made):
            raise ScenarioError(
                f"the loop `{self.name}` is a function without parameters that returns "
                f"{type(made).__name__}, which is not an agent",
                key="loop",
                hint=f"{AN_AGENT}; a function that makes a machine takes Limits",
            )
        return agent_from(made, self.name)
