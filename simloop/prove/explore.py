"""The exploration of every run that a machine can reach: a proof of its behaviour, not a sample.

Whatever can happen in a state comes from what was asked of the world there (`prove/alphabet.py`),
never from the machine, so that a machine cannot hide anything by not expecting it. The estimate of
the states that an exploration would visit is computed and never timed, so that it is equal on every
machine, and it is low rather than high: an exploration that is possible must not be refused.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from msgspec import Struct

from simloop.errors import InternalError, RunawayRun
from simloop.kernel import effects, signals
from simloop.kernel.effects import Effect
from simloop.kernel.limits import Limits
from simloop.kernel.machine import (
    AbortRule,
    Edge,
    Feature,
    IllegalSignal,
    IllegalTransition,
    Machine,
    Run,
    Transition,
    checked_transition,
)
from simloop.kernel.names import NAMES
from simloop.kernel.signals import Signal
from simloop.prove import counting, rules
from simloop.prove.alphabet import ENDINGS, answers, replies
from simloop.prove.graph import Graph, RuleViolation

MAX_NODES = 1_000_000
"""The exploration stops after this many nodes, about a gigabyte, as for an unbounded counter."""
_SAID_EVERY = 500


Say = Callable[[str], object]
"""A function that receives the progress of an exploration in words."""


@contextmanager
def without_collections() -> Iterator[None]:
    """Disable garbage collection, which would scan the large graph repeatedly and free nothing."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@without_collections()
def explore(
    machine: Machine, limits: Limits, say: Say = lambda _: None
) -> tuple[Graph, list[RuleViolation], set[Edge]]:
    """Visit every run of `machine`; return the graph, the violations and the edges taken.

    Raises RunawayRun past `MAX_NODES`: then the machine counts something that has no bound.
    """
    return _Explorer(machine, limits, say).explore()


@without_collections()
def count_states(machine: Machine, limits: Limits, most: int) -> int | None:
    """Count the states of `machine` without judging them; None if there are more than `most`."""
    return _Explorer(machine, limits).count(most)


class _Explorer:
    def __init__(self, machine: Machine, limits: Limits, say: Say = lambda _: None) -> None:
        self._machine = machine
        self._say = say
        self._first = machine.start()
        self._most_steps = limits.max_steps_per_round
        self._numbers: dict[tuple[Run, tuple[Effect, ...]], int] = {}
        self._arrivals: dict[tuple[Effect, ...], tuple[Signal, ...]] = {}
        self._graph = Graph()
        self._violations: dict[str | tuple[type, ...], RuleViolation] = {}
        self._taken: set[Edge] = set()
        self._judged: set[tuple[Struct, tuple[Effect, ...]]] = set()

    def explore(self) -> tuple[Graph, list[RuleViolation], set[Edge]]:
        graph = self._graph
        if not self._visit_all(MAX_NODES):
            raise _runaway(graph)
        found = self._wrong_in_all()
        for number, wrong in enumerate(found):
            self._say(f"{len(graph):,} states visited, {number} of {len(found)} rules checked")
            self._find_all(wrong)
        return graph, list(self._violations.values()), self._taken

    def count(self, most: int) -> int | None:
        return len(self._graph) if self._visit_all(most) else None

    def _visit_all(self, most: int) -> bool:
        graph = self._graph
        graph.add(self._first, (), None)  # no number: to come back is another run
        self._find_all(self._begins_anew(0))
        self._visit(0, (signals.Began(),))
        node = 1
        while node < len(graph):
            if node not in graph.cut and node not in graph.ends:
                self._visit(node, self._arrivals_at(node))
            node += 1
            if node > most:
                return False
            if node % _SAID_EVERY == 0:
                self._say(f"{len(graph):,} states found, {node:,} visited")
        return True

    def _visit(self, node: int, arrivals: tuple[Signal, ...]) -> None:
        """Add the arrows of `node`; add a violation and no arrow where the machine fails."""
        run, arrows = self._graph.runs[node], self._graph.arrows[node]
        machine, numbers, taken, state = (
            self._machine, self._numbers, self._taken, type(run.state),
        )  # fmt: skip
        for signal in arrivals:
            try:
                try:
                    after, asked = checked_transition(machine, run, signal)
                except IllegalTransition as error:  # followed all the same, for what comes after it
                    after, asked = self._off_the_map(node, run, signal, error.moved)
                moved = after, tuple(asked)
                target = numbers.get(moved)
                if target is None:
                    _check_run(after)  # one that equals a known run has been checked
            except Exception as error:  # noqa: BLE001 - a machine is somebody's code
                self._graph.cut.add(node)
                # What it says may hold a counter, and would be told again for each of its values.
                same = (state, type(signal), type(error))
                self._find(node, _failure(run, signal, error), same)
                continue
            taken.add((state, type(signal), type(after.state)))
            arrows.append((signal, target or self._new(moved, node, signal)))

    def _wrong_with(self, node: int) -> Iterator[str]:
        run, asked = self._graph.runs[node], self._graph.asked[node]
        bounds = self._machine.bounds
        position = run.state, asked
        if node in self._graph.ends:
            yield from rules.wrong_by_itself(*position)
            yield from rules.ended_too_early(run, bounds)
        elif position not in self._judged:  # whatever its counters
            self._judged.add(position)
            yield from rules.wrong_by_itself(*position)
        for what in rules.past_a_bound(run, asked, bounds):
            self._graph.cut.add(node)  # it may be so for ever after, and one is enough
            yield what

    def _wrong_in_all(self) -> tuple[Iterator[rules.Wrong], ...]:
        graph, machine, most = self._graph, self._machine, self._most_steps
        bounds = machine.bounds
        return (
            rules.not_the_same_twice(graph, machine),
            rules.stops_one_early(graph, self._tried, bounds),
            rules.mistakes_bursts(graph, self._tried, most),
            rules.goes_on_after_a_burst(graph, most),
            rules.goes_on_after_a_stop(graph),
            rules.acts_after_an_abort(graph, getattr(machine, "abort_rule", AbortRule())),
            counting.miscounts(graph, bounds),
            counting.leaves_uncounted(graph, bounds),
            counting.decides_by_a_count(graph, bounds, getattr(machine, "thresholds", {})),
        )

    def _arrivals_at(self, node: int) -> tuple[Signal, ...]:
        asked = self._graph.asked[node]
        arrivals = self._arrivals.get(asked)
        if arrivals is None:
            found = arrivals_at(asked, self._most_steps)
            arrivals = tuple(
                signal for signal in found if not why_impossible(self._machine, signal)
            )
            self._arrivals[asked] = arrivals
        return arrivals

    def _off_the_map(self, node: int, run: Run, signal: Signal, given: Any) -> Transition:
        moved = _transition(given)
        kinds = type(run.state), type(moved[0].state), type(signal)
        before, after, why = (NAMES[kind] for kind in kinds)
        self._find(node, f"{before} -> {after} on {why} is not on the map")
        return moved

    def _new(self, moved: Transition, node: int, signal: Signal) -> int:
        number = self._numbers[moved] = self._graph.add(*moved, (node, signal))
        for what in self._wrong_with(number):
            self._find(number, what)
        if number in self._graph.ends:
            self._find_all(self._begins_anew(number))
        return number

    def _begins_anew(self, node: int) -> Iterator[rules.Wrong]:
        first: Any = self._first
        try:
            again: Any = self._machine.start()
            parts = [n for n in first.__struct_fields__ if getattr(again, n) != getattr(first, n)]
        except Exception as error:  # noqa: BLE001 - as above
            yield rules.Wrong(node, f"`start` raises {type(error).__name__} after a run")
            return
        if again != first:
            differing = ", ".join(parts) or "another type"
            yield rules.Wrong(node, f"the next run does not begin as the first: {differing}")

    def _tried(self, run: Run, signal: Signal) -> Transition | None:
        """Return the transition again for the rules, without a check, a violation or an edge."""
        try:
            return _transition(self._machine.advance(run, signal))
        except Exception:  # noqa: BLE001 - as above
            return None

    def _find_all(self, wrong: Iterable[rules.Wrong]) -> None:
        for node, what, then in wrong:
            if what not in self._violations:
                self._violations[what] = RuleViolation(what, self._graph.way_to(node, then))

    def _find(self, node: int, what: str, same: tuple[type, ...] = ()) -> None:
        if (same or what) not in self._violations:
            self._violations[same or what] = RuleViolation(what, self._graph.way_to(node))


def arrivals_at(asked: Iterable[Effect], most_steps: int) -> tuple[Signal, ...]:
    """Return the signals that can arrive after these effects at a design that lacks no feature.

    There are replies of `most_steps`, the most by which a counter may rise at once, and of more.
    """
    return (*(signal for effect in asked for signal in _answers(effect, most_steps)), *ENDINGS)


def _answers(effect: Effect, most_steps: int) -> Iterator[Signal]:
    if not isinstance(effect, Effect):
        return  # found already
    yield from answers(effect, most_steps + 1)
    if isinstance(effect, effects.CallModel) and not effect.aborted and most_steps > 1:
        yield from replies(most_steps)


def _runaway(graph: Graph) -> RunawayRun:
    """Return the error for a machine of too many runs, with the counter that rose the most."""
    parts = graph.runs[0].__struct_fields__
    values = {part: len({getattr(run, part, None) for run in graph.runs}) for part in parts}
    most = max(parts, key=values.__getitem__)
    return RunawayRun(
        f"more than {MAX_NODES:,} states: the machine counts something that has no bound, or "
        f"the limits are too large to visit all of them; `{most}` has the most values, "
        f"{values[most]:,}: bound it, or lower the limits"
    )


def _failure(run: Run, signal: Signal, error: Exception) -> str:
    state, name = NAMES[type(run.state)], NAMES[type(signal)]
    if isinstance(error, IllegalSignal):
        return f"{state} refuses {name}, which can arrive there"
    why = error if isinstance(error, InternalError) else f"{type(error).__name__}: {error}"
    return f"{state} on {name}: {why}"


def _transition(moved: Any) -> Transition:
    """Return `moved` if it is a transition. Raises TypeError if not, as unpacking does."""
    after, asked = moved
    _check_run(after)
    return after, tuple(asked)


def _check_run(after: Any) -> None:
    if not (isinstance(after, Run) and isinstance(after.state, Struct)):
        raise TypeError(f"a {type(after).__name__} is no Run in a state")


def why_impossible(machine: Machine, signal: Signal | type[Struct]) -> str:
    """Return the reason why `signal` cannot arrive at this machine, or empty if it can."""
    kind = signal if isinstance(signal, type) else type(signal)
    if kind is signals.AbortRequested:
        if machine.policies.abort_is_flag:
            return "an abort is a flag there: model calls come back as aborted"
        return machine.unsupported.get(Feature.ABORT, "")
    if kind in (signals.HookFailed, signals.CallBlocked):
        return machine.unsupported.get(Feature.HOOKS, "")
    if isinstance(signal, signals.ToolsReturned) and signal.blocked:
        return machine.unsupported.get(Feature.HOOKS, "")
    return ""


_SMALL = {"max_steps": 2, "max_error_count": 2, "max_compaction_attempts": 1}
_MOST = 50_000
"""A machine of more states under small limits is not one that grows with them."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """About how many `states` there are.

    If an exploration would give up, `limit` is the one to lower, and `fitting` about the highest
    value of it with which all states can be visited; 0 if there is none.
    """

    states: int
    limit: str = ""
    fitting: int = 0


def estimate(make: Callable[[Limits], Machine], limits: Limits) -> Estimate:
    """Estimate the states of the machine that `make` makes for `limits`.

    A counter adds as many states with each of its values, once it has a few. So the states are
    counted under small limits, and with each of them raised by one, and several of them: the count
    is a polynomial that is linear in each limit.
    """
    values: dict[str, int] = {name: getattr(limits, name) for name in _SMALL}
    small = {name: min(value, _SMALL[name]) for name, value in values.items()}
    raised = [name for name in values if values[name] > small[name]]
    counts: dict[frozenset[str], int] = {}
    for chosen in product((False, True), repeat=len(raised)):
        names = frozenset(name for name, one in zip(raised, chosen, strict=True) if one)
        given = {name: value + (name in names) for name, value in small.items()}
        # Replies of many steps only spread a run over more values of a counter that it has anyway.
        fewer = replace(limits, max_steps_per_round=1, **given)
        count = count_states(make(fewer), fewer, _MOST)
        if count is None:
            return Estimate(0)
        counts[names] = count
    states = _at(counts, small, values)
    if states <= MAX_NODES:
        return Estimate(states)
    with_less = {name: _at(counts, small, {**values, name: values[name] - 1}) for name in raised}
    limit = max(raised, key=lambda one: (states - with_less[one]) * (values[one] - small[one]))
    each = max(states - with_less[limit], 1)
    return Estimate(states, limit, max(values[limit] + (MAX_NODES - states) // each, 0))


def _at(
    counts: Mapping[frozenset[str], int], small: Mapping[str, int], values: Mapping[str, int]
) -> int:
    """Return the value of the polynomial through `counts`, taken at `small` and one above."""
    return sum(
        count
        * prod(
            values[name] - small[name] if name in names else 1 - (values[name] - small[name])
            for name in frozenset().union(*counts)
        )
        for names, count in counts.items()
    )
