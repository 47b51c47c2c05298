"""The rules that a machine must keep besides its map.

Not here: visiting its runs (explore.py). The rule to keep: each rule says in words what is wrong,
with the state and the numbers, and knows nothing of any loop design.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct, structs

from simloop.kernel import effects
from simloop.kernel.alphabet import ENDINGS
from simloop.kernel.effects import Effect
from simloop.kernel.machine import Bound, Machine, Run, Transition
from simloop.kernel.names import NAMES
from simloop.kernel.signals import Signal
from simloop.kernel.states import Finished
from simloop.messages import Outcome
from simloop.prove.visited import Arrow, Graph

Asked = tuple[Effect, ...]
Advance = Callable[[Run, Signal], Transition | None]
"""The transition of a run on a signal, or None for an error, which is a violation of its own."""


class Wrong(NamedTuple):
    """A node, a violation of a rule there, and the arrows from the node to the evidence."""

    node: int
    what: str
    then: tuple[Arrow, ...] = ()


_UNANSWERED = (effects.TakeQueued, effects.EndRun)
_LOOKING = (effects.MeasureContext, effects.Compact)
_SPENDING: Mapping[str, tuple[type[Effect], ...]] = {
    "total_steps": (effects.CallModel, effects.Compact),
    "error_count": (effects.CallModel, effects.Backoff),
    "compaction_attempts": (effects.Compact,),
}


def spends(asked: Asked, bound: Bound) -> bool:
    """Return whether `asked` has an effect that is forbidden once `bound` is reached.

    A counter of a machine's own bounds model calls.
    """
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
        count = getattr(run, bound.counter)
        if count < bound.at:
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
    """Return whether `bound` is spent at `node`, or right after the context is measured.

    The last try that is left may begin in another way than those before it.
    """
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
