"""Visiting every run that a machine can reach: a proof of what it can do, not a sample.

Not here: what is found in the graph of a whole exploration (graph.py), showing it (cli/explore.py)
and making scenarios of it (witness.py). The rule to keep: whatever can happen in a state comes from
what was asked of the world there (`kernel/alphabet.py`), never from the machine, so that a machine
cannot hide anything by not expecting it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from simloop.errors import InternalError, RunawayRun
from simloop.kernel import effects, signals
from simloop.kernel.alphabet import ENDINGS, answers
from simloop.kernel.diagram import Edge
from simloop.kernel.effects import Effect
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Feature, IllegalSignal, Machine, Run
from simloop.kernel.names import NAMES
from simloop.kernel.signals import Signal
from simloop.kernel.states import Finished

MAX_NODES = 1_000_000
"""A machine that counts without bound is given up there: about a gigabyte."""

_UNANSWERED = (effects.TakeQueued, effects.Finish)


@dataclass(frozen=True, slots=True)
class Step:
    """One transition of a witness: the signal, the run that it led to, and what was asked then."""

    signal: Signal
    run: Run
    asked: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with a machine, and the shortest way there."""

    what: str
    witness: tuple[Step, ...]


@dataclass(slots=True)
class Graph:
    """Every reachable run. A node is a run together with what it has asked of the world.

    `arrows[i]` are the signals that can arrive at node i, each with the node that it leads to.
    Nodes are in the order of their distance from the start; `parents[i]` is on a shortest way.
    """

    runs: list[Run] = field(default_factory=list)
    asked: list[tuple[Effect, ...]] = field(default_factory=list)
    arrows: list[list[tuple[Signal, int]]] = field(default_factory=list)
    parents: list[tuple[int, Signal] | None] = field(default_factory=list)

    def way_to(self, node: int) -> tuple[Step, ...]:
        """A shortest way from the start to `node`."""
        steps = []
        parent = self.parents[node]
        while parent is not None:
            steps.append(Step(parent[1], self.runs[node], self.asked[node]))
            node = parent[0]
            parent = self.parents[node]
        return tuple(reversed(steps))

    def __len__(self) -> int:
        return len(self.runs)


def explore(machine: Machine, limits: Limits) -> tuple[Graph, list[Finding], set[Edge]]:
    """Visit every run of `machine`; the graph, what is wrong on the way, the edges taken.

    Raises RunawayRun past `MAX_NODES`: then the machine counts something that has no bound.
    """
    return _Explorer(machine, limits).explore()


class _Explorer:
    def __init__(self, machine: Machine, limits: Limits) -> None:
        self._machine = machine
        self._burst = limits.max_steps_per_round + 1
        self._numbers: dict[tuple[Run, tuple[Effect, ...]], int] = {}
        self._arrivals: dict[tuple[Effect, ...], tuple[Signal, ...]] = {}
        self._graph = Graph()
        self._findings: dict[str, Finding] = {}
        self._taken: set[Edge] = set()

    def explore(self) -> tuple[Graph, list[Finding], set[Edge]]:
        graph = self._graph
        self._node(self._machine.start(), (), None)
        arrow: Signal = signals.Began()
        graph.arrows[0] = list(self._arrows(0, (arrow,)))
        node = 1
        while node < len(graph):
            if not isinstance(graph.runs[node].state, Finished):
                graph.arrows[node] = list(self._arrows(node, self._arrivals_at(node)))
            node += 1
            if node > MAX_NODES:
                raise RunawayRun(
                    f"more than {MAX_NODES:,} runs: either the machine counts something that has "
                    "no bound, or the limits are too large to visit all of them; lower the limits"
                )
        return graph, list(self._findings.values()), self._taken

    def _node(self, run: Run, asked: tuple[Effect, ...], parent: tuple[int, Signal] | None) -> int:
        """The number of a node, a new one if it has not been seen."""
        number = self._numbers.setdefault((run, asked), len(self._graph))
        graph = self._graph
        if number == len(graph):
            graph.runs.append(run)
            graph.asked.append(asked)
            graph.arrows.append([])
            graph.parents.append(parent)
            self._check_node(number)
        return number

    def _arrivals_at(self, node: int) -> tuple[Signal, ...]:
        asked = self._graph.asked[node]
        arrivals = self._arrivals.get(asked)
        if arrivals is None:
            found = [signal for effect in asked for signal in answers(effect, self._burst)]
            found.extend(ENDINGS)
            arrivals = tuple(signal for signal in found if not self._lacking(signal))
            self._arrivals[asked] = arrivals
        return arrivals

    def _lacking(self, signal: Signal) -> bool:
        return why_impossible(self._machine, signal) != ""

    def _arrows(self, node: int, arrivals: tuple[Signal, ...]) -> Iterator[tuple[Signal, int]]:
        run = self._graph.runs[node]
        for signal in arrivals:
            moved = self._advance(node, run, signal)
            if moved is not None:
                yield signal, self._node(moved[0], moved[1], (node, signal))

    def _advance(
        self, node: int, run: Run, signal: Signal
    ) -> tuple[Run, tuple[Effect, ...]] | None:
        try:
            after, asked = self._machine.advance(run, signal)
        except IllegalSignal:
            self._find(node, f"{_name(run.state)} refuses {_name(signal)}, which can arrive there")
        except InternalError as error:
            self._find(node, f"{_name(run.state)} on {_name(signal)}: {error}")
        except Exception as error:  # noqa: BLE001 - a machine is somebody's code
            self._find(
                node, f"{_name(run.state)} on {_name(signal)}: {type(error).__name__}: {error}"
            )
        else:
            edge = (type(run.state), type(signal), type(after.state))
            if edge not in self._taken:
                self._taken.add(edge)
                if edge[2] not in self._machine.legal.get(edge[0], {}).get(edge[1], ()):
                    names = " -> ".join(NAMES[kind] for kind in (edge[0], edge[2]))
                    self._find(node, f"{names} on {_name(signal)} is not on the map")
            return after, asked
        return None

    def _find(self, node: int, what: str) -> None:
        if what not in self._findings:
            self._findings[what] = Finding(what, self._graph.way_to(node))

    def _check_node(self, node: int) -> None:
        """What is wrong with a run by itself."""
        run, asked = self._graph.runs[node], self._graph.asked[node]
        open_ = [effect for effect in asked if not isinstance(effect, _UNANSWERED)]
        if isinstance(run.state, Finished):
            if open_:
                self._find(node, f"asks for {_name(open_[0])} after the end")
            self._check_limit(node, run, run.state)
        elif node and not open_:
            self._find(node, f"{_name(run.state)} cannot be left: nothing is asked of the world")
        elif len(open_) > 1:
            self._find(node, f"{_name(run.state)} asks for two answers at once")
        self._check_bounds(node, run, open_)

    def _check_bounds(self, node: int, run: Run, asked: Sequence[Effect]) -> None:
        """Nothing that a bound forbids is asked for once the bound is reached."""
        for limit, bound in self._machine.bounds.items():
            count = getattr(run, bound.counter)
            for effect in asked:
                if count >= bound.at and isinstance(effect, _SPENDING[bound.counter]):
                    self._find(
                        node, f"asks for {_name(effect)} though {limit} is {bound.at}, and reached"
                    )

    def _check_limit(self, node: int, run: Run, ended: Finished) -> None:
        """A run that a limit ends has reached it."""
        bound = self._machine.bounds.get(ended.limit)
        if bound is not None and getattr(run, bound.counter) < bound.at:
            count = getattr(run, bound.counter)
            self._find(node, f"is ended by {ended.limit} at {count}, though it is {bound.at}")


_SPENDING: Mapping[str, tuple[type[Effect], ...]] = {
    "total_steps": (effects.CallModel, effects.Compact),
    "error_count": (effects.CallModel, effects.Backoff),
    "compaction_attempts": (effects.Compact,),
}
"""For each counter, what may not be asked for any more when it has reached its bound."""


def why_impossible(machine: Machine, signal: Signal | type[Struct]) -> str:
    """Why `signal` cannot arrive at this machine, or empty if it can."""
    kind = signal if isinstance(signal, type) else type(signal)
    if kind is signals.AbortRequested:
        return machine.lacks.get(Feature.ABORT, "")
    if kind in (signals.HookFailed, signals.CallBlocked):
        return machine.lacks.get(Feature.HOOKS, "")
    if isinstance(signal, signals.ToolsReturned) and signal.blocked:
        return machine.lacks.get(Feature.HOOKS, "")
    return ""


def _name(value: Struct) -> str:
    return NAMES[type(value)]
