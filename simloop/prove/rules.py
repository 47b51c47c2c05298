"""The rules that a machine must keep besides its map.

Each rule says in words what is wrong, with the state and the numbers, and knows nothing of any loop
design. First the rules of all runs; then those for runs after an abort, a failed hook and the end
of the wall clock: a machine may do after an abort only what its `abort_rule` declares, because a
user who has stopped a run must not see it act again. Last those for a reply that reports many steps
at once: a machine that takes no notice of bursts is left alone; one that does must do so at every
count.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct, structs

from simloop.kernel import effects
from simloop.kernel.effects import Effect
from simloop.kernel.machine import AbortRule, Bound, Machine, Run, Transition
from simloop.kernel.names import NAMES
from simloop.kernel.signals import (
    AbortRequested,
    CallBlocked,
    HookFailed,
    ModelReplied,
    Signal,
    WallClockExpired,
)
from simloop.kernel.states import Finished
from simloop.messages import Outcome
from simloop.prove.alphabet import ENDINGS, replies
from simloop.prove.graph import Arrow, Came, Graph, way_back

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


_ENDS_AS: Mapping[type[Struct], Outcome] = {
    HookFailed: Outcome.FAILED,
    WallClockExpired: Outcome.TIMED_OUT,
}


def goes_on_after_a_stop(graph: Graph) -> Iterator[Wrong]:
    """Yield runs that a failed hook does not end as failed, or the wall clock as timed out."""
    for node, arrows in enumerate(graph.arrows):
        for signal, target in arrows:
            outcome = _ENDS_AS.get(type(signal))
            if outcome is None:
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
    waiting: deque[tuple[int, Signal, int, bool]] = deque(
        (node, signal, target, True)
        for node, arrows in enumerate(graph.arrows)
        for signal, target in arrows
        if type(signal) is AbortRequested
    )
    while waiting:
        node, signal, target, first = waiting.popleft()
        what = _forbidden(graph, rule, signal, target)
        if what:  # not followed: what comes after is a consequence
            start, way = (node, ()) if first else way_back(came, node)
            yield Wrong(start, what, (*way, (signal, target)))
        elif target not in came:
            came[target] = node, signal, first
            waiting.extend((target, *arrow, False) for arrow in graph.arrows[target])
    for node in _endless(graph, came):
        start, way = way_back(came, node)
        yield Wrong(start, "a run may never end after an abort", way)


def _endless(graph: Graph, came: Came) -> tuple[int, ...]:
    """Return the first node of an aborted run from which it may go round for ever, if any."""
    left = dict.fromkeys(came)
    while left:
        last = [n for n in left if all(target not in left for _, target in graph.arrows[n])]
        if not last:
            return (next(iter(left)),)
        for node in last:
            del left[node]
    return ()


def _forbidden(graph: Graph, rule: AbortRule, signal: Signal, target: int) -> str:
    """Return the act of an aborted run that `rule` forbids, in words, or empty without one."""
    state = graph.runs[target].state
    for effect in graph.asked[target]:
        if not _is_allowed(effect, rule):
            return f"{NAMES[type(state)]} asks for {NAMES[type(effect)]} after an abort"
    if not isinstance(state, Finished) or type(signal) in _ENDS_AS:
        return ""  # the other rule judges those ends
    blocked = isinstance(signal, CallBlocked) and state.outcome is Outcome.BLOCKED
    if blocked or state.outcome in rule.outcomes:
        return ""
    return f"a run ends as {state.outcome} after an abort"


def _is_allowed(effect: Effect, rule: AbortRule) -> bool:
    if isinstance(effect, effects.CallModel) and not effect.aborted:
        return False  # a real request after an abort is what nobody may make
    return isinstance(effect, (effects.EndRun, *rule.effects))


LIMIT = "max_steps_per_round"
_SPENDS_A_BUDGET = (effects.CallModel, effects.Backoff, effects.Compact)


def mistakes_bursts(graph: Graph, advance: Advance, most: int) -> Iterator[Wrong]:
    """Yield nodes at which a burst does not begin at `most` + 1 steps, at every count alike.

    The machine's reaction to a burst is visible in the next state.
    """
    sizes = (1, most, most + 1, 10 * most + 10, 20 * most + 20, 2, 3)
    noticed: dict[tuple[object, Signal], bool] = {}
    sized = [(reply, [structs.replace(reply, steps=n) for n in sizes]) for reply in replies(1)]
    for node, calls in enumerate(graph.of_each_asked(_calls_the_model)):
        if not calls:
            continue
        run = graph.runs[node]
        for reply, each in sized:
            moved = [advance(run, one) for one in each]
            states = [move and move[0].state for move in moved]
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


def _calls_the_model(asked: tuple[Effect, ...]) -> bool:
    return any(isinstance(e, effects.CallModel) and not e.aborted for e in asked)


def goes_on_after_a_burst(graph: Graph, most: int) -> Iterator[Wrong]:
    """Yield runs that spend a budget after a burst, if `max_steps_per_round` ends any run."""
    if all(state.limit != LIMIT for state in graph.ends.values()):
        return
    came: Came = {}
    waiting: deque[int] = deque()
    for node, arrows in enumerate(graph.arrows):
        for signal, target in arrows:
            burst = type(signal) is ModelReplied and signal.steps > most
            if burst and target not in came:
                came[target] = node, signal, True
                waiting.append(target)
    while waiting:
        node = waiting.popleft()
        spent = [e for e in graph.asked[node] if isinstance(e, _SPENDS_A_BUDGET)]
        if spent:
            start, way = way_back(came, node)
            yield Wrong(start, f"a run asks for {NAMES[type(spent[0])]} after a burst", way)
            continue
        for signal, target in graph.arrows[node]:
            if target not in came:
                came[target] = node, signal, False
                waiting.append(target)
