"""The results of exploration: the graph of every visited run, and the violations."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from msgspec import Struct, field

from simloop.kernel.effects import Effect
from simloop.kernel.machine import Run
from simloop.kernel.signals import Signal
from simloop.kernel.states import Finished

T = TypeVar("T")
Arrow = tuple[Signal, int]
"""A signal, and the node that it leads to."""


class Step(Struct, frozen=True):
    """One transition of an example: the signal, the run that it led to, and what was asked then."""

    signal: Signal
    run: Run
    asked: tuple[Effect, ...]


class RuleViolation(Struct, frozen=True):
    """Something wrong with a machine, and the shortest way there."""

    what: str
    counterexample: tuple[Step, ...]


class Graph(Struct):
    """Every reachable run. A node is a run together with what it has asked of the world.

    `arrows[i]` are the signals that can arrive at node i, each with the node that it leads to.
    Nodes are in the order of their distance from the start; `parents[i]` is on a shortest way.
    `ends` holds the nodes at which a run is over. At the nodes in `cut` a wrong transition was not
    followed.
    """

    runs: list[Run] = field(default_factory=list)
    asked: list[tuple[Effect, ...]] = field(default_factory=list)
    arrows: list[list[Arrow]] = field(default_factory=list)
    parents: list[tuple[int, Signal] | None] = field(default_factory=list)
    ends: dict[int, Finished] = field(default_factory=dict)
    cut: set[int] = field(default_factory=set)

    def add(self, run: Run, asked: tuple[Effect, ...], parent: tuple[int, Signal] | None) -> int:
        """Add a node and return its number."""
        self.runs.append(run)
        self.asked.append(asked)
        self.arrows.append([])
        self.parents.append(parent)
        if isinstance(run.state, Finished):
            self.ends[len(self.runs) - 1] = run.state
        return len(self.runs) - 1

    def of_each_asked(self, value: Callable[[tuple[Effect, ...]], T]) -> list[T]:
        """Return the `value` of what each node has asked, computed once for equal effects."""
        values = {asked: value(asked) for asked in dict.fromkeys(self.asked)}
        return [values[asked] for asked in self.asked]

    def way_to(self, node: int, then: Iterable[Arrow] = ()) -> tuple[Step, ...]:
        """Return a shortest way from the start to `node`, continued by the arrows of `then`."""
        way = []
        parent = self.parents[node]
        while parent is not None:
            way.append((parent[1], node))
            node = parent[0]
            parent = self.parents[node]
        return self.steps((*reversed(way), *then))

    def steps(self, way: Iterable[Arrow]) -> tuple[Step, ...]:
        """Return the transitions along these arrows."""
        return tuple(Step(signal, self.runs[node], self.asked[node]) for signal, node in way)

    def __len__(self) -> int:
        return len(self.runs)


Came = dict[int, tuple[int, Signal, bool]]
"""For each node of a search from where, and by which signal, it was reached; whether first of all.

The first is an arrow that the search begins with, such as an abort.
"""


def way_back(came: Came, node: int) -> tuple[int, tuple[Arrow, ...]]:
    """Return the node at which a search began, and the arrows from there to `node`."""
    way: list[Arrow] = []
    first = False
    while not first:
        before, signal, first = came[node]
        way.append((signal, node))
        node = before
    return node, tuple(reversed(way))
