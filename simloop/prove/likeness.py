"""The comparison of two machines, which receive the same signals in every possible order.

Two machines are alike if they request the same effects, and end alike, after the same signals. The
names of their states and counters may differ. Not here: the graph of one machine (explore.py), and
a scenario that shows a difference (check/counterexamples.py). The rule to keep: every pair of runs
that equal signals reach is visited, and the path to a difference is a shortest one.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import fields

from simloop.errors import RunawayRun
from simloop.kernel.effects import Effect, EndRun, TakeQueued
from simloop.kernel.limits import Limits
from simloop.kernel.machine import IllegalSignal, Machine, Run, checked_transition
from simloop.kernel.names import NAMES, describe
from simloop.kernel.policies import Policies
from simloop.kernel.signals import Began, Signal
from simloop.kernel.states import Finished
from simloop.prove.explore import (
    MAX_NODES,
    Say,
    arrivals_at,
    why_impossible,
    without_collections,
)
from simloop.prove.visited import Step

_SAID_EVERY = 500

Moved: TypeAlias = tuple[Run, tuple[Effect, ...]] | str
"""A transition, or the description of a failure of the machine."""
_Pair: TypeAlias = tuple[Run, tuple[Effect, ...], Run, tuple[Effect, ...]]


@dataclass(frozen=True, slots=True)
class Difference:
    """A point where two machines differ, and the shortest path to it.

    `steps` are the steps of the first machine, the point included; `others` are those of the
    second. A machine that fails at the point has no last step.
    """

    what: str
    steps: tuple[Step, ...]
    others: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Likeness:
    """The comparison of two machines under the same limits.

    `pairs` is the number of visited pairs of runs. `differences` has one difference of each kind.
    `policies` are the settings of policies that differ; signals do not show them. `left_out` are
    the signals that only one of the two designs can receive, each with the reason.
    """

    pairs: int
    transitions: int
    differences: tuple[Difference, ...]
    policies: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def alike(self) -> bool:
        """Return whether nothing differs."""
        return not self.differences and not self.policies


@without_collections()
def compare(one: Machine, other: Machine, limits: Limits, say: Say = lambda _: None) -> Likeness:
    """Compare two machines. Raises RunawayRun past `MAX_NODES` pairs."""
    return _Comparison(one, other, limits, say).compare()


class _Comparison:
    def __init__(self, one: Machine, other: Machine, limits: Limits, say: Say) -> None:
        self._machines = one, other
        self._most_steps = limits.max_steps_per_round
        self._say = say
        self._pairs: list[_Pair] = [(one.start(), (), other.start(), ())]
        self._parents: list[tuple[int, Signal] | None] = [None]
        self._known: dict[_Pair, int] = {}
        self._arrivals: dict[tuple[Effect, ...], tuple[Signal, ...]] = {}
        self._left_out: dict[str, None] = {}
        self._found: dict[Any, Difference] = {}
        self._transitions = 0

    def compare(self) -> Likeness:
        self._visit(0, (Began(),))
        node = 1
        while node < len(self._pairs):
            self._visit(node, self._arrivals_at(self._pairs[node][1]))
            node += 1
            if node > MAX_NODES:
                raise RunawayRun(f"more than {MAX_NODES:,} pairs of states: lower the limits")
            if node % _SAID_EVERY == 0:
                self._say(f"{len(self._pairs):,} pairs of states found, {node:,} visited")
        one, other = (machine.policies for machine in self._machines)
        return Likeness(
            len(self._pairs),
            self._transitions,
            tuple(self._found.values()),
            tuple(_differing_policies(one, other)),
            tuple(self._left_out),
        )

    def _arrivals_at(self, asked: tuple[Effect, ...]) -> tuple[Signal, ...]:
        """Return the possible signals, without those that one of the designs cannot receive."""
        arrivals = self._arrivals.get(asked)
        if arrivals is None:
            arrivals = self._arrivals[asked] = tuple(
                signal for signal in arrivals_at(asked, self._most_steps) if self._reaches(signal)
            )
        return arrivals

    def _reaches(self, signal: Signal) -> bool:
        """Return whether both designs can receive the signal; keep the reason if only one can."""
        reasons = [why_impossible(machine, signal) for machine in self._machines]
        if any(reasons) and not all(reasons):
            without = self._machines[bool(reasons[1])]
            name = NAMES[type(signal)]
            self._left_out[f"{name}: {without.name}: {''.join(reasons)}"] = None
        return not any(reasons)

    def _visit(self, node: int, arrivals: tuple[Signal, ...]) -> None:
        run, _, other_run, _ = self._pairs[node]
        one, other = self._machines
        for signal in arrivals:
            self._transitions += 1
            moved, differently = _moved(one, run, signal), _moved(other, other_run, signal)
            self._judge(node, signal, moved, differently)
            if isinstance(moved, str) or isinstance(differently, str):
                continue
            ended = isinstance(moved[0].state, Finished) or isinstance(
                differently[0].state, Finished
            )
            if not ended and _waits_alike(moved[1], differently[1]):
                self._add((*moved, *differently), node, signal)

    def _add(self, pair: _Pair, node: int, signal: Signal) -> None:
        if pair not in self._known:
            self._known[pair] = len(self._pairs)
            self._pairs.append(pair)
            self._parents.append((node, signal))

    def _judge(self, node: int, signal: Signal, one: Moved, other: Moved) -> None:
        """Keep the first difference of each kind, which has the shortest path."""
        if isinstance(one, str) or isinstance(other, str):
            if one == other:
                return  # neither continues
            kind: Any = (type(signal), one if isinstance(one, str) else other)
        elif one[1] == other[1] and _ends(one) == _ends(other):
            return
        else:
            kind = tuple(_differing(one, other, signal))
        if kind not in self._found:
            run, _, other_run, _ = self._pairs[node]
            where = dict.fromkeys(NAMES[type(each.state)] for each in (run, other_run))
            place = f"in {' or '.join(where)} on {describe(signal)}"
            at_end = (
                isinstance(one, tuple) and isinstance(other, tuple) and _ends(one) == _ends(other)
            )
            words = [_in_words(moved, whole=at_end) for moved in (one, other)]
            what = f"{place}: it {words[0]}, and the other {words[1]}"
            self._found[kind] = Difference(
                what, self._way(node, signal, one, 0), self._way(node, signal, other, 2)
            )

    def _way(self, node: int, last: Signal, moved: Moved, side: int) -> tuple[Step, ...]:
        """Return the steps of one machine to `node`; one that fails there has no last step."""
        way = [] if isinstance(moved, str) else [Step(last, *moved)]
        parent = self._parents[node]
        while parent is not None:
            pair: Any = self._pairs[node]
            way.append(Step(parent[1], pair[side], pair[side + 1]))
            node = parent[0]
            parent = self._parents[node]
        return tuple(reversed(way))


def _moved(machine: Machine, run: Run, signal: Signal) -> Moved:
    try:
        after, asked = checked_transition(machine, run, signal)
    except IllegalSignal:
        return f"refuses {NAMES[type(signal)]}"
    except Exception as error:  # noqa: BLE001 - a machine is somebody's code
        return f"raises {type(error).__name__}: {error}"
    return after, tuple(asked)


def _ends(moved: tuple[Run, tuple[Effect, ...]]) -> Struct | None:
    state = moved[0].state
    return state if isinstance(state, Finished) else None


def _end_alike(one: Moved, other: Moved) -> bool:
    return not isinstance(one, str) and not isinstance(other, str) and _ends(one) == _ends(other)


def _waits_alike(one: tuple[Effect, ...], other: tuple[Effect, ...]) -> bool:
    """Return whether the same signals can answer both, so that the comparison can continue."""
    return [_awaited(effect) for effect in _answered(one)] == [
        _awaited(effect) for effect in _answered(other)
    ]


def _answered(asked: tuple[Effect, ...]) -> tuple[Effect, ...]:
    return tuple(effect for effect in asked if not isinstance(effect, TakeQueued | EndRun))


def _awaited(effect: Effect) -> tuple[type[Effect], bool]:
    """Return the properties of an effect that determine the signals that can answer it."""
    return type(effect), bool(getattr(effect, "aborted", False))


def _differing(
    one: tuple[Run, tuple[Effect, ...]], other: tuple[Run, tuple[Effect, ...]], signal: Signal
) -> Iterator[Any]:
    """Yield the values that distinguish the kinds of differences: effect fields, or both moves."""
    asked_for = one[1], other[1]
    if _waits_alike(*asked_for) and _ends(one) == _ends(other):
        rest = tuple(tuple(e for e in asked if e not in _answered(asked)) for asked in asked_for)
        if rest[0] != rest[1]:
            yield rest
        for effect, another in zip(_answered(one[1]), _answered(other[1]), strict=True):
            changed = (f.name for f in fields(effect) if _of(effect, f) != _of(another, f))
            yield from ((type(effect), name) for name in changed)
        return
    yield type(signal)
    for moved in (one, other):
        yield _ends(moved) or tuple(type(effect) for effect in moved[1])


def _of(effect: Struct, field: Any) -> Any:
    return getattr(effect, field.name)


def _in_words(moved: Moved, *, whole: bool) -> str:
    """Return the description of a move; `whole` adds the details of an end."""
    if isinstance(moved, str):
        return moved
    end = _ends(moved)
    if isinstance(end, Finished):
        others = [describe(effect) for effect in moved[1] if whole]
        said = f", with {' and '.join(others)}" if others else ""
        return f"ends as {end.outcome}{f' by {end.limit}' if end.limit else ''}{said}"
    return f"asks for {' and '.join(describe(effect) for effect in moved[1]) or 'nothing'}"


def _differing_policies(one: Policies, other: Policies) -> Iterator[str]:
    """Yield each setting of a policy that differs, with both values."""
    for policy in dataclasses.fields(one):
        first, second = getattr(one, policy.name), getattr(other, policy.name)
        if first == second:
            continue
        if type(first) is not type(second) or not dataclasses.is_dataclass(first):
            yield f"{policy.name}: {_short(first)}, and the other {_short(second)}"
            continue
        for setting in dataclasses.fields(first):
            values = getattr(first, setting.name), getattr(second, setting.name)
            if values[0] != values[1]:
                shown = f"{_short(values[0])}, and the other {_short(values[1])}"
                yield f"{policy.name}.{setting.name}: {shown}"


def _short(value: Any) -> str:
    return type(value).__name__ if dataclasses.is_dataclass(value) else str(value)
