"""The rules that a machine of any loop design must keep besides its map."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from msgspec import Struct, structs

from simloop.kernel import effects, signals
from simloop.kernel.effects import Effect
from simloop.kernel.machine import AbortRule, Bound, Machine, Run, Transition
from simloop.kernel.names import NAMES
from simloop.kernel.signals import Signal
from simloop.kernel.states import Finished
from simloop.messages import Outcome
from simloop.prove.alphabet import ENDINGS, replies
from simloop.prove.graph import Arrow, Came, Graph, way_back, without_dead_ends

Asked = tuple[Effect, ...]
Advance = Callable[[Run, Signal], Transition | None]
"""The transition of a run on a signal, or None for an error, which is a violation of its own."""
_Move = tuple[int, Signal, int]  # from a node, on a signal, to a node
_UNANSWERED = (effects.TakeQueued, effects.EndRun)
_LOOKING = (effects.MeasureContext, effects.Compact)
_SPENDS_A_BUDGET = (effects.CallModel, effects.Backoff, effects.Compact)
_SPENDING: Mapping[str, tuple[type[Effect], ...]] = {
    "total_steps": (effects.CallModel, effects.Compact),
    "error_count": (effects.CallModel, effects.Backoff), "compaction_attempts": (effects.Compact,),
}  # fmt: skip
Bounds = Mapping[str, Bound]
_COUNTED: Mapping[str, type[Effect]] = {
    "error_count": effects.Backoff, "compaction_attempts": effects.Compact,
    "total_steps": effects.CloseStep,
}  # fmt: skip
"""The effect that a machine requests once for each increment of a counter."""
_FAR = 2
_APART = 2**40
"""More than exploration can count to, so that counters next to one another do not mix."""


class Wrong(NamedTuple):
    """A node, a violation of a rule there, and the arrows from the node to the evidence."""

    node: int
    what: str
    then: tuple[Arrow, ...] = ()


def spends(asked: Asked, bound: Bound) -> bool:
    """Return whether `asked` has an effect that is forbidden once `bound` is reached."""
    return any(isinstance(e, _SPENDING.get(bound.counter, (effects.CallModel,))) for e in asked)


def wrong_by_itself(state: Struct, asked: Asked) -> Iterator[str]:
    """Yield the faults of a state and its effects that do not depend on earlier runs."""
    name = NAMES[type(state)]
    answered = [effect for effect in asked if not isinstance(effect, _UNANSWERED)]
    if isinstance(state, Finished):
        if not isinstance(state.outcome, Outcome):
            yield f"finished as {state.outcome!r}, which is no outcome"
        if answered:
            yield f"finished asks for {NAMES[type(answered[0])]} after the end"
        if sum(isinstance(effect, effects.EndRun) for effect in asked) != 1:
            yield f"finished as {state.outcome} without exactly one `EndRun`"
        return
    if not answered:
        yield f"{name} cannot be left: nothing is asked of the world"
    elif len(answered) > 1:
        yield f"{name} asks for two answers at once"
    elif asked[-1] is not answered[0]:
        yield f"{name} asks for {NAMES[type(answered[0])]}, but not last"
    for effect in asked:
        if not isinstance(effect, Effect):
            yield f"{name} asks for {NAMES[type(effect)]}, which is no effect"
        elif isinstance(effect, effects.EndRun):
            yield f"{name} emits EndRun but is not followed by Finished"
        elif isinstance(effect, effects.Backoff) and effect.failures < 1:
            yield f"{name} waits after {effect.failures} failures"


def past_a_bound(run: Run, asked: Asked, bounds: Mapping[str, Bound]) -> Iterator[str]:
    """Yield each bound that is reached and that the effects exceed."""
    for limit, bound in bounds.items():
        if getattr(run, bound.counter) >= bound.at and spends(asked, bound):
            what = ", ".join(NAMES[type(e)] for e in asked if spends((e,), bound))
            state = NAMES[type(run.state)]
            yield f"{state} asks for {what} though {limit} is {bound.at}, and reached"


def ended_too_early(run: Run, bounds: Mapping[str, Bound]) -> Iterator[str]:
    """Yield a fault if a limit ends the run before the run has reached it."""
    if isinstance(run.state, Finished) and run.state.limit in bounds:
        bound = bounds[run.state.limit]
        if (count := getattr(run, bound.counter)) < bound.at:
            yield f"a run is ended by {run.state.limit} at {count}, though it is {bound.at}"


def not_the_same_twice(graph: Graph, machine: Machine) -> Iterator[Wrong]:
    """Yield runs that are equal but behave differently, as a machine with a memory does."""
    runs, effects_of = graph.runs, graph.asked
    for node, arrows in enumerate(graph.arrows):
        run = runs[node]
        for signal, target in arrows:
            try:
                after, asked = machine.advance(run, signal)
                same = after == runs[target] and tuple(asked) == effects_of[target]
            except Exception:  # noqa: BLE001 - a machine is somebody's code
                same = False
            if not same:
                where = f"{NAMES[type(run.state)]} on {NAMES[type(signal)]}"
                yield Wrong(node, f"{where} is not the same twice")
                return


def stops_one_early(graph: Graph, advance: Advance, bounds: Mapping[str, Bound]) -> Iterator[Wrong]:
    """Yield counters that stop a run one below their bound."""
    tried: set[tuple[object, Signal, str]] = set()
    near = [
        [each for each in bounds.items() if getattr(run, each[1].counter) == each[1].at - 1]
        for run in graph.runs
    ]
    for node, arrows in enumerate(graph.arrows):
        run = graph.runs[node]
        for signal, target in arrows:
            for limit, bound in near[target]:
                count = getattr(run, bound.counter)
                # The first is enough: it has the least of all that could also have stopped it.
                known = not count or (run.state, signal, limit) in tried
                if known or _goes_on(graph, target, bound):
                    continue
                tried.add((run.state, signal, limit))
                before = advance(structs.replace(run, **{bound.counter: count - 1}), signal)
                if before is not None and spends(before[1], bound):
                    where = f"{NAMES[type(run.state)]} on {NAMES[type(signal)]}"
                    ends = f"{bound.counter} {count} ends what {count - 1} does not"
                    yield Wrong(target, f"{where}: {ends}, though {limit} is {bound.at}")


def _goes_on(graph: Graph, node: int, bound: Bound) -> bool:
    waiting, seen = [node], {node}
    while waiting:
        node = waiting.pop()
        asked = graph.asked[node]
        if spends(asked, bound):
            continue
        if not asked or not isinstance(asked[-1], _LOOKING):
            return False
        ahead = {target for signal, target in graph.arrows[node] if signal not in ENDINGS} - seen
        seen |= ahead
        waiting += ahead
    return True


# After a stop. A machine may do after an abort only what its `abort_rule` declares, because a user
# who has stopped a run must not see it act again.

_ENDS_AS: Mapping[type[Struct], Outcome] = {
    signals.HookFailed: Outcome.FAILED,
    signals.WallClockExpired: Outcome.TIMED_OUT,
}


def goes_on_after_a_stop(graph: Graph) -> Iterator[Wrong]:
    """Yield runs that a failed hook does not end as failed, or the wall clock as timed out."""
    for node, arrows in enumerate(graph.arrows):
        for signal, target in arrows:
            if (outcome := _ENDS_AS.get(type(signal))) is None:
                continue
            state = graph.runs[target].state
            where = f"{NAMES[type(graph.runs[node].state)]} on {NAMES[type(signal)]}"
            if not isinstance(state, Finished):
                yield Wrong(node, f"{where} goes on, and must end the run", ((signal, target),))
            elif state.outcome is not outcome:
                ends = f"ends the run as {state.outcome}, not as {outcome}"
                yield Wrong(node, f"{where} {ends}", ((signal, target),))


def acts_after_an_abort(graph: Graph, rule: AbortRule) -> Iterator[Wrong]:
    """Yield aborted runs that request what `rule` forbids, do not end, or end in another way."""
    came: Came = {}
    aborts = _arrows(graph, lambda signal: type(signal) is signals.AbortRequested)
    yield from _first_after(graph, aborts, partial(_forbidden, graph, rule), came)
    if circling := without_dead_ends(graph.arrows, {*came}):
        start, way = way_back(came, min(circling))
        yield Wrong(start, "a run may never end after an abort", way)


def _arrows(graph: Graph, is_first: Callable[[Signal], bool]) -> Iterator[_Move]:
    for node, arrows in enumerate(graph.arrows):
        yield from ((node, *arrow) for arrow in arrows if is_first(arrow[0]))


def _first_after(
    graph: Graph, begins: Iterable[_Move], wrong: Callable[[Signal, int], str], came: Came
) -> Iterator[Wrong]:
    """Yield what is wrong at or after the arrows of `begins`, the nearest first."""
    waiting = deque((*arrow, True) for arrow in begins)
    while waiting:
        node, signal, target, first = waiting.popleft()
        if what := wrong(signal, target):
            start, way = (node, ()) if first else way_back(came, node)
            yield Wrong(start, what, (*way, (signal, target)))
        elif target not in came:
            came[target] = node, signal, first
            waiting.extend((target, *arrow, False) for arrow in graph.arrows[target])


def _forbidden(graph: Graph, rule: AbortRule, signal: Signal, target: int) -> str:
    state = graph.runs[target].state
    for effect in graph.asked[target]:
        # A real request after an abort is what nobody may make.
        is_request = isinstance(effect, effects.CallModel) and not effect.aborted
        if is_request or not isinstance(effect, (effects.EndRun, *rule.effects)):
            return f"{NAMES[type(state)]} asks for {NAMES[type(effect)]} after an abort"
    if not isinstance(state, Finished) or type(signal) in _ENDS_AS:
        return ""  # the other rule judges those ends
    blocked = isinstance(signal, signals.CallBlocked) and state.outcome is Outcome.BLOCKED
    if blocked or state.outcome in rule.outcomes:
        return ""
    return f"a run ends as {state.outcome} after an abort"


# Replies that report many steps at once. A machine that takes no notice of bursts is left alone;
# one that does must do so at every count.


def mistakes_bursts(graph: Graph, advance: Advance, most: int) -> Iterator[Wrong]:
    """Yield nodes at which a burst does not begin at `most` + 1 steps, at every count alike."""
    sizes = (1, most, most + 1, 10 * most + 10, 20 * most + 20, 2, 3)
    noticed: dict[tuple[object, Signal], bool] = {}
    sized = [(reply, [structs.replace(reply, steps=n) for n in sizes]) for reply in replies(1)]
    calling = graph.of_each_asked(
        lambda asked: any(isinstance(e, effects.CallModel) and not e.aborted for e in asked)
    )
    for node, calls in enumerate(calling):
        if not calls:
            continue
        run = graph.runs[node]
        for reply, each in sized:
            states = [(move := advance(run, one)) and move[0].state for one in each]
            one, just, over, far, *_ = states
            if any(state not in (one, far) for state in states):
                return  # more is told there than whether it was a burst, such as the number itself
            if one != just:
                yield Wrong(node, f"{most} steps of a reply are taken for a burst")
            if over != far:
                yield Wrong(node, f"{most + 1} steps of a reply are not taken for a burst")
            if noticed.setdefault((run.state, reply), one != far) is not (one != far):
                where = NAMES[type(run.state)]
                yield Wrong(node, f"{where} takes notice of a burst at some counts, and not here")


def goes_on_after_a_burst(graph: Graph, most: int) -> Iterator[Wrong]:
    """Yield runs that spend a budget after a burst, if `max_steps_per_round` ends any run."""
    if all(state.limit != "max_steps_per_round" for state in graph.ends.values()):
        return

    def spent(_: Signal, target: int) -> str:
        found = (e for e in graph.asked[target] if isinstance(e, _SPENDS_A_BUDGET))
        return next((f"a run asks for {NAMES[type(e)]} after a burst" for e in found), "")

    bursts = _arrows(graph, lambda s: type(s) is signals.ModelReplied and s.steps > most)
    yield from _first_after(graph, bursts, spent, {})


# Counters. Only those of declared bounds are judged; the machine's other counters are free.


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
            most = signal.steps if type(signal) is signals.ModelReplied else 1
            moves = zip(falls.items(), before, counts[target], strict=True)
            for (counter, resets), old, new in moves:
                place = (counter, type(graph.runs[node].state), type(signal), new < old)
                if place not in found and (new - old > most or (new < old and not resets)):
                    found.add(place)  # once, and not once more for each value of the counter
                    where = f"{NAMES[place[1]]} on {NAMES[place[2]]}"
                    goes = f"{'falls' if new < old else 'rises'} from {old} to {new}"
                    yield Wrong(node, f"{where}: {counter} {goes}", ((signal, target),))


def _counts(graph: Graph, counters: Collection[str]) -> list[tuple[int, ...]]:
    return [tuple([getattr(run, name) for name in counters]) for run in graph.runs]


def leaves_uncounted(graph: Graph, bounds: Bounds) -> Iterator[Wrong]:
    """Yield a second wait, compaction or step whose counter has not gone up since the first."""
    for counter in dict.fromkeys(bound.counter for bound in bounds.values()):
        if counter in _COUNTED:
            yield from _uncounted(graph, counter, _COUNTED[counter])


def _uncounted(graph: Graph, counter: str, effect: type[Effect]) -> Iterator[Wrong]:
    counts = [getattr(run, counter) for run in graph.runs]
    asks = graph.of_each_asked(lambda asked: any(isinstance(one, effect) for one in asked))
    came: Came = {}
    waiting = deque(node for node, asking in enumerate(asks) if asking)
    while waiting:
        node = waiting.popleft()
        for signal, target in graph.arrows[node]:
            is_counted = counts[target] != counts[node]
            if is_counted or target in came or type(signal) is signals.AbortRequested:
                continue
            came[target] = node, signal, asks[node]
            if not asks[target]:
                waiting.append(target)
                continue
            start, way = way_back(came, target)
            what = f"{NAMES[effect]} is asked for twice while {counter} stays {counts[target]}"
            yield Wrong(start, what, way)
            return


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
            if (known := moves.get(case)) is None:
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
    """A graph as counters leave it: for each node numbers, so that many can be compared."""

    def __init__(self, graph: Graph, bounds: tuple[Bound, ...]) -> None:
        self._graph = graph
        self._counters = tuple(dict.fromkeys(bound.counter for bound in bounds))
        resets = {bound.counter for bound in bounds if bound.resets}
        counts = _counts(graph, self._counters)
        kinds: dict[tuple[object, ...], int] = {}
        self.kinds: list[int] = []  # equal for nodes that differ in nothing but counters
        self.waits = graph.of_each_asked(_waits)
        asking = graph.of_each_asked(lambda asked: tuple(type(effect) for effect in asked))
        others = {
            kind: [name for name in kind.__struct_fields__ if name not in self._counters]
            for kind in dict.fromkeys(type(run) for run in graph.runs)
        }
        for run, types, arrows in zip(graph.runs, asking, graph.arrows, strict=True):
            values = tuple([getattr(run, name) for name in others[type(run)]])
            kind = type(run), values, types, len(arrows)
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
        self.near = [near[each] for each in counts]  # equal for those as far from each bound
        # Of the counters that do not reset: a difference of two is the difference of each.
        self.lasting = [lasting[each] for each in counts]

    def differs(self, node: int, other: int, arrow: Arrow) -> Wrong:
        """Return the violation that `arrow` of `node` goes another way than that of `other`."""
        run, known = self._graph.runs[node], self._graph.runs[other]
        pairs = ((name, getattr(run, name), getattr(known, name)) for name in self._counters)
        apart = [f"{name} {one} and {two}" for name, one, two in pairs if one != two]
        where = f"{NAMES[type(run.state)]} on {NAMES[type(arrow[0])]}"
        what = f"{where}: {', '.join(apart) or 'equal counts'} go different ways, far from a bound"
        return Wrong(node, what, (arrow,))


def _waits(asked: tuple[Effect, ...]) -> bool | None:
    """Return whether the next try follows a wait, or None if `asked` holds no try."""
    for effect in asked:
        if isinstance(effect, effects.Backoff | effects.CallModel):
            return isinstance(effect, effects.Backoff)
    return None
