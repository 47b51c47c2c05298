"""What exploration leaves behind: every run that was visited, and what was wrong there."""

from dataclasses import dataclass, field

from simloop.kernel.effects import Effect
from simloop.kernel.machine import Run
from simloop.kernel.signals import Signal


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
    From the nodes in `cut` something was not followed, because it is wrong.
    """

    runs: list[Run] = field(default_factory=list)
    asked: list[tuple[Effect, ...]] = field(default_factory=list)
    arrows: list[list[tuple[Signal, int]]] = field(default_factory=list)
    parents: list[tuple[int, Signal] | None] = field(default_factory=list)
    cut: set[int] = field(default_factory=set)

    def add(self, run: Run, asked: tuple[Effect, ...], parent: tuple[int, Signal] | None) -> int:
        """Another node; its number."""
        self.runs.append(run)
        self.asked.append(asked)
        self.arrows.append([])
        self.parents.append(parent)
        return len(self.runs) - 1

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
