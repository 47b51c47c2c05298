"""The proof that exploration gives about a machine under given limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from simloop.kernel.effects import Backoff, CallModel, Effect, RunTools
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Edge, Machine
from simloop.kernel.names import NAMES
from simloop.kernel.retry import RetryPolicy
from simloop.kernel.states import Finished
from simloop.messages import Fault
from simloop.prove import graph as graphs
from simloop.prove.explore import Say, explore, why_impossible, without_collections

# Limits that the simulator heeds, or whose rule is one of its own (rules.mistakes_bursts).
_OF_THE_WORLD = ("max_wall_clock", "max_steps_per_round")
_ASKING = Fault("wait", status=429, headers=(("retry-after", "1000000000"),))


@dataclass(frozen=True, slots=True)
class Longest:
    """The most that any run can take, each by itself: they need not be the same run."""

    transitions: int
    model_calls: int  # for a reply, also those that come back as aborted
    tool_rounds: int
    backoff_ns: int  # the longest wait in all, by the machine's retry policy
    backoff_asked_ns: int  # if the provider asks for as much as the policy allows


@dataclass(frozen=True, slots=True)
class Proof:
    """All behaviour of a machine. If a run may not end, `longest` is None and `lasso` is not."""

    loop: str
    bounds: tuple[str, ...]  # the limits that bound the machine
    states: int
    transitions: int
    longest: Longest | None
    lasso: graphs.Lasso | None
    endings: Mapping[Finished, tuple[graphs.Step, ...]]
    untaken: Mapping[Edge, str]  # the edges that cannot be taken, each with a known reason
    edges: int
    violations: tuple[graphs.RuleViolation, ...]
    followed: bool = True  # false if a violation cut runs off: nothing is proved about all
    endless: str = ""  # why a design need not end, on purpose

    @property
    def undeclared(self) -> tuple[str, ...]:
        """Return the limits that end its runs and are not among its bounds, so lack a proof."""
        limits = dict.fromkeys(state.limit for state in self.endings if state.limit)
        return tuple(limit for limit in limits if limit not in (*self.bounds, *_OF_THE_WORLD))

    @property
    def terminates(self) -> bool:
        return self.lasso is None and self.followed

    @property
    def holds(self) -> bool:
        """Return whether nothing is violated and every run ends, unless the design is endless."""
        return (self.terminates or (self.followed and bool(self.endless))) and not self.violations


@without_collections()
def prove(machine: Machine, limits: Limits, *, loop: str = "", say: Say = lambda _: None) -> Proof:
    """Explore `machine`, and tell `say` the progress. Raises RunawayRun if that has no end."""
    graph, violations, taken = explore(machine, limits, say)
    order = graphs.ends_first(graph)
    endless = str(getattr(machine, "endless", ""))
    if (stuck := graphs.trapped(graph)) is not None:
        what = f"{NAMES[type(graph.runs[stuck].state)]} has no way to an end but from outside"
        violations.append(graphs.RuleViolation(what, graph.way_to(stuck)))
    if endless and order is not None and not graph.cut:  # it would hide a later endless run
        what = "every run ends, though the machine is declared `endless`"
        violations.append(graphs.RuleViolation(what, ()))
    drawn = [
        (state, signal, target)
        for state, accepted in machine.legal.items()
        for signal, targets in accepted.items()
        for target in sorted(targets, key=lambda kind: kind.__name__)
    ]
    longest = None
    if order is not None and not graph.cut:
        most, retry = partial(graphs.heaviest, graph, order), machine.policies.retry
        longest = Longest(
            transitions=most(lambda _: 1), model_calls=most(partial(_count, CallModel)),
            tool_rounds=most(partial(_count, RunTools)),
            backoff_ns=most(partial(_waited, retry, None)),
            backoff_asked_ns=most(partial(_waited, retry, _ASKING)),
        )  # fmt: skip
    return Proof(
        loop=loop or machine.name, bounds=tuple(machine.bounds), states=len(graph),
        transitions=sum(map(len, graph.arrows)), longest=longest,
        lasso=graphs.shortest_lasso(graph) if order is None else None,
        endings=graphs.first_endings(graph),
        untaken={e: why_impossible(machine, e[1]) for e in drawn if e not in taken},
        edges=len(drawn), violations=tuple(violations), followed=not graph.cut, endless=endless,
    )  # fmt: skip


def _count(kind: type[Effect], asked: tuple[Effect, ...]) -> int:
    return sum(isinstance(effect, kind) for effect in asked)


def _waited(retry: RetryPolicy, fault: Fault | None, asked: tuple[Effect, ...]) -> int:
    # A wait after no failure is a violation, and has no length.
    waits = (e.failures for e in asked if isinstance(e, Backoff) and e.failures > 0)
    delay_ns = partial(retry.delay_ns, now_ns=0, draw=0.0)
    return sum(max(delay_ns(failures, None), delay_ns(failures, fault)) for failures in waits)
