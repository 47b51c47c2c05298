"""The checks of a machine's reaction to a reply that reports many steps at once.

Not here: how steps are counted (counting.py). The rule to keep: a machine that takes no notice of
bursts is left alone; one that does must do so at every count.
"""

from collections import deque
from collections.abc import Iterator

from msgspec import structs

from simloop.kernel import effects
from simloop.kernel.alphabet import replies
from simloop.kernel.effects import Effect
from simloop.kernel.names import NAMES
from simloop.kernel.signals import ModelReplied, Signal
from simloop.prove.rules import Advance, Wrong
from simloop.prove.visited import Came, Graph, way_back

LIMIT = "max_steps_per_round"
_SPENDING = (effects.CallModel, effects.Backoff, effects.Compact)


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
        spent = [e for e in graph.asked[node] if isinstance(e, _SPENDING)]
        if spent:
            start, way = way_back(came, node)
            yield Wrong(start, f"a run asks for {NAMES[type(spent[0])]} after a burst", way)
            continue
        for signal, target in graph.arrows[node]:
            if target not in came:
                came[target] = node, signal, False
                waiting.append(target)
