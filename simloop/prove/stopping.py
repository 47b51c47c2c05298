"""The rules for runs after an abort, a failed hook and the end of the wall clock.

Not here: how a run counts (counting.py) and the other rules (rules.py). The rule to keep: a machine
may do after an abort only what its `abort_rule` declares, because a user who has stopped a run must
not see it act again.
"""

from collections import deque
from collections.abc import Iterator, Mapping

from msgspec import Struct

from simloop.kernel import effects
from simloop.kernel.effects import Effect
from simloop.kernel.machine import AbortRule
from simloop.kernel.names import NAMES
from simloop.kernel.signals import (
    AbortRequested,
    CallBlocked,
    HookFailed,
    Signal,
    WallClockExpired,
)
from simloop.kernel.states import Finished
from simloop.messages import Outcome
from simloop.prove.rules import Wrong
from simloop.prove.visited import Came, Graph, way_back

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
