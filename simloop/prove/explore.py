"""The exploration of every run that a machine can reach: a proof of its behaviour, no sample."""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from simloop.errors import InternalError, RunawayRun
from simloop.kernel import effects, signals
from simloop.kernel import machine as machines
from simloop.kernel.effects import Effect
from simloop.kernel.limits import Limits
from simloop.kernel.names import NAMES
from simloop.kernel.signals import Signal
from simloop.prove import rules
from simloop.prove.alphabet import ENDINGS, answers, replies
from simloop.prove.graph import Graph, RuleViolation

MAX_NODES = 1_000_000
"""The exploration stops after this many nodes, about a gigabyte, as for an unbounded counter."""
_SAID_EVERY = 500

Say = Callable[[str], object]


@contextmanager
def without_collections() -> Iterator[None]:
    """Disable garbage collection, which would scan a large graph repeatedly and free nothing."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@without_collections()
def explore(
    machine: machines.Machine, limits: Limits, say: Say = lambda _: None
) -> tuple[Graph, list[RuleViolation], set[machines.Edge]]:
    """Visit every run; return the graph, the violations and the edges. Raises RunawayRun."""
    explorer = _Explorer(machine, limits, say)
    graph = explorer.graph
    explorer.visit_all()
    found = explorer.wrong_in_all()
    for number, wrong in enumerate(found):
        say(f"{len(graph):,} states visited, {number} of {len(found)} rules checked")
        explorer.find_all(wrong)
    return graph, list(explorer.violations.values()), explorer.taken


class _Explorer:
    def __init__(self, machine: machines.Machine, limits: Limits, say: Say) -> None:
        self._machine = machine
        self._say = say
        self._first = machine.start()
        self._most_steps = limits.max_steps_per_round
        self._numbers: dict[tuple[machines.Run, tuple[Effect, ...]], int] = {}
        self._arrivals: dict[tuple[Effect, ...], tuple[Signal, ...]] = {}
        self.graph = Graph()
        self.violations: dict[str | tuple[type, ...], RuleViolation] = {}
        self.taken: set[machines.Edge] = set()
        self._judged: set[tuple[Struct, tuple[Effect, ...]]] = set()

    def visit_all(self) -> None:
        graph = self.graph
        graph.add(self._first, (), None)  # no number: to come back is another run
        self.find_all(self._begins_anew(0))
        self._visit(0, (signals.Began(),))
        node = 1
        while node < len(graph):
            if node not in graph.cut and node not in graph.ends:
                if (asked := graph.asked[node]) not in self._arrivals:
                    found = arrivals_at(asked, self._most_steps)
                    possible = (one for one in found if not why_impossible(self._machine, one))
                    self._arrivals[asked] = tuple(possible)
                self._visit(node, self._arrivals[asked])
            node += 1
            if node > MAX_NODES:
                raise _runaway(graph)
            if node % _SAID_EVERY == 0:
                self._say(f"{len(graph):,} states found, {node:,} visited")

    def _visit(self, node: int, arrivals: tuple[Signal, ...]) -> None:
        """Add the arrows of `node`; add a violation and no arrow where the machine fails."""
        run, arrows = self.graph.runs[node], self.graph.arrows[node]
        machine, numbers, taken, state = self._machine, self._numbers, self.taken, type(run.state)
        for signal in arrivals:
            try:
                try:
                    after, asked = machines.checked_transition(machine, run, signal)
                except machines.IllegalTransition as error:  # followed, for what comes after it
                    after, asked = error.moved
                    states = (NAMES[type(each)] for each in (run.state, after.state))
                    edge = f"{' -> '.join(states)} on {NAMES[type(signal)]}"
                    self.find_all([rules.Wrong(node, f"{edge} is not on the map")])
                moved = after, tuple(asked)
                target = numbers.get(moved)
            except Exception as error:  # noqa: BLE001 - a machine is somebody's code
                self.graph.cut.add(node)
                # What it says may hold a counter, and would be told again for each of its values.
                same = (state, type(signal), type(error))
                self.find_all([rules.Wrong(node, _failure(run, signal, error))], same)
                continue
            taken.add((state, type(signal), type(after.state)))
            arrows.append((signal, target or self._new(moved, node, signal)))

    def _wrong_with(self, node: int) -> Iterator[str]:
        run, asked = self.graph.runs[node], self.graph.asked[node]
        bounds = self._machine.bounds
        position = run.state, asked
        if node in self.graph.ends:
            yield from rules.wrong_by_itself(*position)
            yield from rules.ended_too_early(run, bounds)
        elif position not in self._judged:  # whatever its counters
            self._judged.add(position)
            yield from rules.wrong_by_itself(*position)
        for what in rules.past_a_bound(run, asked, bounds):
            self.graph.cut.add(node)  # it may be so for ever after, and one is enough
            yield what

    def wrong_in_all(self) -> tuple[Iterator[rules.Wrong], ...]:
        graph, machine, most = self.graph, self._machine, self._most_steps
        bounds = machine.bounds
        return (
            rules.not_the_same_twice(graph, machine),
            rules.stops_one_early(graph, self._tried, bounds),
            rules.mistakes_bursts(graph, self._tried, most),
            rules.goes_on_after_a_burst(graph, most), rules.goes_on_after_a_stop(graph),
            rules.acts_after_an_abort(graph, getattr(machine, "abort_rule", machines.AbortRule())),
            rules.miscounts(graph, bounds), rules.leaves_uncounted(graph, bounds),
            rules.decides_by_a_count(graph, bounds, getattr(machine, "thresholds", {})),
        )  # fmt: skip

    def _new(self, moved: machines.Transition, node: int, signal: Signal) -> int:
        number = self._numbers[moved] = self.graph.add(*moved, (node, signal))
        self.find_all(rules.Wrong(number, what) for what in self._wrong_with(number))
        if number in self.graph.ends:
            self.find_all(self._begins_anew(number))
        return number

    def _begins_anew(self, node: int) -> Iterator[rules.Wrong]:
        first, again = self._first, self._machine.start()
        if again != first:
            names = first.__struct_fields__
            parts = [name for name in names if getattr(again, name) != getattr(first, name)]
            yield rules.Wrong(node, f"the next run does not begin as the first: {', '.join(parts)}")

    def _tried(self, run: machines.Run, signal: Signal) -> machines.Transition | None:
        """Return the transition again for the rules, without a check, a violation or an edge."""
        try:
            return self._machine.advance(run, signal)
        except Exception:  # noqa: BLE001 - as above
            return None

    def find_all(self, wrong: Iterable[rules.Wrong], same: tuple[type, ...] = ()) -> None:
        for node, what, then in wrong:
            if (same or what) not in self.violations:
                self.violations[same or what] = RuleViolation(what, self.graph.way_to(node, then))


def arrivals_at(asked: Iterable[Effect], most_steps: int) -> tuple[Signal, ...]:
    """Return the signals that can arrive; replies report 1 step, `most_steps`, or more."""
    found: list[Signal] = []
    for effect in asked:
        if isinstance(effect, Effect):  # else found already
            found += answers(effect, most_steps + 1)
            if isinstance(effect, effects.CallModel) and not effect.aborted and most_steps > 1:
                found += replies(most_steps)
    return (*found, *ENDINGS)


def _runaway(graph: Graph) -> RunawayRun:
    parts = graph.runs[0].__struct_fields__
    values = {part: len({getattr(run, part, None) for run in graph.runs}) for part in parts}
    most = max(parts, key=values.__getitem__)
    return RunawayRun(
        f"more than {MAX_NODES:,} states: the machine counts something that has no bound, or "
        f"the limits are too large to visit all of them; `{most}` has the most values, "
        f"{values[most]:,}: bound it, or lower the limits"
    )


def _failure(run: machines.Run, signal: Signal, error: Exception) -> str:
    state, name = NAMES[type(run.state)], NAMES[type(signal)]
    if isinstance(error, machines.IllegalSignal):
        return f"{state} refuses {name}, which can arrive there"
    why = error if isinstance(error, InternalError) else f"{type(error).__name__}: {error}"
    return f"{state} on {name}: {why}"


def why_impossible(machine: machines.Machine, signal: Signal | type[Struct]) -> str:
    """Return the reason why `signal` cannot arrive at this machine, or empty if it can."""
    kind = signal if isinstance(signal, type) else type(signal)
    if kind is signals.AbortRequested:
        if machine.policies.abort_is_flag:
            return "an abort is a flag there: model calls come back as aborted"
        return machine.unsupported.get(machines.Feature.ABORT, "")
    is_blocked = isinstance(signal, signals.ToolsReturned) and signal.blocked
    if is_blocked or kind in (signals.HookFailed, signals.CallBlocked):
        return machine.unsupported.get(machines.Feature.HOOKS, "")
    return ""
