"""The rules by which a machine must count what its bounds limit.

Only counters of declared bounds are judged; the machine's other counters are free.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from simloop.kernel import effects
from simloop.kernel.effects import Effect
from simloop.kernel.machine import Bound, Run
from simloop.kernel.names import NAMES
from simloop.kernel.signals import AbortRequested, ModelReplied
from simloop.prove.graph import Arrow, Came, Graph, way_back
from simloop.prove.rules import Wrong

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
    counts = _counts(graph, falls)
    found: set[tuple[str, type[Struct], type[Struct], bool]] = set()
    for node, arrows in enumerate(graph.arrows):
        before = counts[node]
        for signal, target in arrows:
            if counts[target] == before:
                continue
            most = signal.steps if type(signal) is ModelReplied else 1
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


def _counts(graph: Graph, counters: Iterable[str]) -> list[tuple[int, ...]]:
    names = tuple(counters)
    return [tuple([getattr(run, name) for name in names]) for run in graph.runs]


def leaves_uncounted(graph: Graph, bounds: Bounds) -> Iterator[Wrong]:
    """Yield a second wait, compaction or step whose counter has not gone up since the first."""
    for counter in dict.fromkeys(bound.counter for bound in bounds.values()):
        effect = _COUNTED.get(counter)
        if effect is not None:
            yield from _uncounted(graph, counter, effect)


def _uncounted(graph: Graph, counter: str, effect: type[Effect]) -> Iterator[Wrong]:
    counts = [getattr(run, counter) for run in graph.runs]
    asks = graph.of_each_asked(lambda asked: any(isinstance(one, effect) for one in asked))
    came: Came = {}
    waiting = deque(node for node, asking in enumerate(asks) if asking)
    while waiting:
        node = waiting.popleft()
        for signal, target in graph.arrows[node]:
            if counts[target] != counts[node] or target in came or type(signal) is AbortRequested:
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

    run: type[Run]
    others: tuple[object, ...]
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
        kind, before = kinds[node], lasting[node]
        for number, arrow in enumerate(arrows):
            target = arrow[1]
            case, rise = (kind, number, near[target]), lasting[target] - before
            known = moves.get(case)
            if known is None:
                known = moves[case] = kinds[target], rise, node
            agrees, other = known[0] == kinds[target] and known[1] == rise, known[2]
            wait = waits[target]
            if agrees and wait is not None:
                waits_there, other = waited.setdefault((kind, number), (wait, node))
                agrees = waits_there is wait
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
        counts = _counts(graph, self._counters)
        kinds: dict[_Kind, int] = {}
        self.kinds: list[int] = []
        self.waits = graph.of_each_asked(_waits)
        asking = graph.of_each_asked(lambda asked: tuple(type(effect) for effect in asked))
        others = {
            kind: [name for name in kind.__struct_fields__ if name not in self._counters]
            for kind in dict.fromkeys(type(run) for run in graph.runs)
        }
        for run, types, arrows in zip(graph.runs, asking, graph.arrows, strict=True):
            values = tuple([getattr(run, name) for name in others[type(run)]])
            kind = _Kind(type(run), values, types, len(arrows))
            self.kinds.append(kinds.setdefault(kind, len(kinds)))
        # Computed once for equal counts, of which there are few.
        nears: dict[tuple[int, ...], int] = {}
        near, lasting = {}, {}
        for each in dict.fromkeys(counts):
            count_of = dict(zip(self._counters, each, strict=True))
            far = tuple(min(max(b.at - count_of[b.counter], 0), _FAR) for b in bounds)
            near[each] = nears.setdefault(far, len(nears))
            kept = (count for name, count in count_of.items() if name not in resets)
            lasting[each] = sum(count * _APART**i for i, count in enumerate(kept))
        self.near = [near[each] for each in counts]
        self.lasting = [lasting[each] for each in counts]

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
