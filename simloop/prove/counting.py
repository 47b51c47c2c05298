"""The rules by which a machine must count what its bounds limit.

Not here: whether a bound is kept (rules.py). The rule to keep: only counters of declared bounds are
judged; the machine's other counters are free.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct, structs

from simloop.kernel import effects
from simloop.kernel.effects import Effect
from simloop.kernel.machine import Bound, Run
from simloop.kernel.names import NAMES
from simloop.kernel.signals import AbortRequested, ModelReplied
from simloop.prove.rules import Wrong
from simloop.prove.visited import Arrow, Came, Graph, way_back

Bounds = Mapping[str, Bound]
_COUNTED: Mapping[str, type[Effect]] = {
    "error_count": effects.Backoff,
    "compaction_attempts": effects.Compact,
    "total_steps": effects.CloseStep,
}
"""The effect that a machine requests once for each increment of a counter."""
_FAR = 2
_APART = 2**40
"""More than exploration can count to, so that counters next to one another do not mix."""


def miscounts(graph: Graph, bounds: Bounds) -> Iterator[Wrong]:
    """Yield counters that rise by another number than one or a reply's steps, or wrongly fall."""
    falls = {bound.counter: bound.resets for bound in bounds.values()}
    counts = [tuple(getattr(run, counter) for counter in falls) for run in graph.runs]
    found: set[tuple[str, type[Struct], type[Struct], bool]] = set()
    for node, arrows in enumerate(graph.arrows):
        before = counts[node]
        for signal, target in arrows:
            if counts[target] == before:
                continue
            most = signal.steps if isinstance(signal, ModelReplied) else 1
            for (counter, resets), old, new in zip(
                falls.items(), before, counts[target], strict=True
            ):
                place = (counter, type(graph.runs[node].state), type(signal), new < old)
                wrong = new - old > most or (new < old and not resets)
                if wrong and place not in found:
                    found.add(place)  # once, and not once more for each value of the counter
                    yield Wrong(
                        node,
                        f"{NAMES[place[1]]} on {NAMES[place[2]]}: {counter} "
                        f"{'falls' if new < old else 'rises'} from {old} to {new}",
                        ((signal, target),),
                    )


def leaves_uncounted(graph: Graph, bounds: Bounds) -> Iterator[Wrong]:
    """Yield a second wait, compaction or step whose counter has not gone up since the first."""
    for counter in dict.fromkeys(bound.counter for bound in bounds.values()):
        effect = _COUNTED.get(counter)
        if effect is not None:
            yield from _uncounted(graph, counter, effect)


def _uncounted(graph: Graph, counter: str, effect: type[Effect]) -> Iterator[Wrong]:
    counts = [getattr(run, counter) for run in graph.runs]
    asks = [any(isinstance(one, effect) for one in asked) for asked in graph.asked]
    came: Came = {}
    waiting = deque(node for node, asking in enumerate(asks) if asking)
    while waiting:
        node = waiting.popleft()
        for signal, target in graph.arrows[node]:
            unseen = target not in came and not isinstance(signal, AbortRequested)
            if not unseen or counts[target] != counts[node]:
                continue
            came[target] = node, signal, asks[node]
            if not asks[target]:
                waiting.append(target)
                continue
            start, way = way_back(came, target)
            what = f"{NAMES[effect]} is asked for twice while {counter} stays {counts[target]}"
            yield Wrong(start, what, way)
            return


class _Kind(NamedTuple):
    """The parts of a node besides its counters."""

    run: Run
    asked: tuple[type[Effect], ...]
    arrows: int


def decides_by_a_count(graph: Graph, bounds: Bounds, thresholds: Bounds) -> Iterator[Wrong]:
    """Runs that are equal but for their counters go the same way, if both are far from each bound.

    A counter may decide where its bound or a threshold is reached, and one before. Only whether a
    try is waited for must be so there too. So a machine does at every count what it does at the
    first, with a burst, a retry or a compaction.
    """
    view = _View(graph, (*bounds.values(), *thresholds.values()))
    kinds, near, lasting, waits = view.kinds, view.near, view.lasting, view.waits
    moves: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    waited: dict[tuple[int, int], tuple[bool, int]] = {}
    found: set[tuple[type[Struct], type[Struct]]] = set()
    for node, arrows in enumerate(graph.arrows):
        if node in graph.cut:
            continue  # an arrow is missing there, and the numbers of the others are not the same
        for number, arrow in enumerate(arrows):
            target = arrow[1]
            move = kinds[target], lasting[target] - lasting[node], node
            known = moves.setdefault((kinds[node], number, near[target]), move)
            agrees, other = known[:2] == move[:2], known[2]
            wait = waits[target]
            if agrees and wait is not None:
                before, other = waited.setdefault((kinds[node], number), (wait, node))
                agrees = before is wait
            if agrees:
                continue
            place = (type(graph.runs[node].state), type(arrow[0]))
            if place not in found:
                found.add(place)
                yield view.differs(node, other, arrow)


class _View:
    """A graph as counters leave it: for each node numbers, so that many can be compared.

    `kinds` are equal for nodes that differ in nothing but counters, `near` for those that are as
    far from each bound. `lasting` holds the counters that do not reset, so that a difference of two
    is the difference of each.
    """

    def __init__(self, graph: Graph, bounds: tuple[Bound, ...]) -> None:
        self._graph = graph
        self._counters = tuple(dict.fromkeys(bound.counter for bound in bounds))
        resets = {bound.counter for bound in bounds if bound.resets}
        zeros = dict.fromkeys(self._counters, 0)
        kinds: dict[_Kind, int] = {}
        nears: dict[tuple[int, ...], int] = {}
        self.kinds: list[int] = []
        self.near: list[int] = []
        self.lasting: list[int] = []
        self.waits = [_waits(asked) for asked in graph.asked]
        for run, asked, arrows in zip(graph.runs, graph.asked, graph.arrows, strict=True):
            plain = structs.replace(run, **zeros) if zeros else run
            kind = _Kind(plain, tuple(type(effect) for effect in asked), len(arrows))
            self.kinds.append(kinds.setdefault(kind, len(kinds)))
            near = tuple(min(max(b.at - getattr(run, b.counter), 0), _FAR) for b in bounds)
            self.near.append(nears.setdefault(near, len(nears)))
            counts = (getattr(run, name) for name in self._counters if name not in resets)
            self.lasting.append(sum(count * _APART**i for i, count in enumerate(counts)))

    def differs(self, node: int, other: int, arrow: Arrow) -> Wrong:
        """Return the violation that `arrow` of `node` goes another way than that of `other`."""
        run, known = self._graph.runs[node], self._graph.runs[other]
        apart = [
            f"{name} {getattr(run, name)} and {getattr(known, name)}"
            for name in self._counters
            if getattr(run, name) != getattr(known, name)
        ]
        where = f"{NAMES[type(run.state)]} on {NAMES[type(arrow[0])]}"
        what = f"{where}: {', '.join(apart) or 'equal counts'} go different ways, far from a bound"
        return Wrong(node, what, (arrow,))


def _waits(asked: tuple[Effect, ...]) -> bool | None:
    """Return whether the next try follows a wait, or None if `asked` holds no try."""
    for effect in asked:
        if isinstance(effect, effects.Backoff | effects.CallModel):
            return isinstance(effect, effects.Backoff)
    return None
