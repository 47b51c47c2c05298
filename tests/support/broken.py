"""Loop machines that are broken on purpose, each in one way, and the replay of a counterexample.

A machine is broken in memory: by another line in a method's source, by another map, or by a
wrapper round `advance`. The shipped loops themselves are never touched.
"""

import inspect
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from simloop.errors import InternalError
from simloop.kernel.effects import Effect
from simloop.kernel.limits import Limits
from simloop.kernel.machine import (
    AbortRule,
    Edge,
    LegalMap,
    Machine,
    Run,
    Transition,
    checked_transition,
)
from simloop.kernel.signals import Began, Signal
from simloop.loops.opencode import OpencodeLoop, OpencodeOptions
from simloop.loops.pi import PiLoop
from simloop.loops.react import ReactLoop
from simloop.loops.reference import ReferenceLoop
from simloop.prove.alphabet import ENDINGS, answers
from simloop.prove.graph import Lasso, Step
from simloop.prove.proof import Proof, prove


class EnforcedOpencode(OpencodeLoop):
    """The opencode loop with a bound on its steps, which the document does not have."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits, OpencodeOptions(steps="enforce"))


SMALL = Limits(max_steps=2, max_error_count=2, max_compaction_attempts=1, max_steps_per_round=3)
LOOPS: dict[str, Any] = {
    "reference": ReferenceLoop,
    "pi": PiLoop,
    "react": ReactLoop,
    "opencode": EnforcedOpencode,
}


class Change(NamedTuple):
    """One way to break a loop: in `method`, some texts in the place of others (old, new ...)."""

    loop: str
    name: str
    method: str
    texts: tuple[str, ...]

    def machine(self, limits: Limits = SMALL) -> Machine:
        loop = LOOPS[self.loop]
        broken = edited(getattr(loop, self.method), *self.texts)
        made: Machine = type(loop.__name__, (loop,), {self.method: broken})(limits)
        return made


def change(loop: str, name: str, method: str, *texts: str) -> Change:
    return Change(loop, name, method, texts)


def edited(method: Any, *texts: str) -> Any:
    source = textwrap.dedent(inspect.getsource(method))
    for old, new in zip(texts[::2], texts[1::2], strict=True):
        assert source.count(old) == 1, f"`{old}` stands {source.count(old)} times in:\n{source}"
        source = source.replace(old, new)
    made: dict[str, Any] = {}
    exec(source, method.__globals__, made)
    return made[method.__name__]


class Redrawn:
    """A loop with another map."""

    def __init__(self, machine: Machine, legal: LegalMap) -> None:
        self._machine = machine
        self.name, self.legal, self.policies = machine.name, legal, machine.policies
        self.bounds, self.unsupported = machine.bounds, machine.unsupported
        self.abort_rule = getattr(machine, "abort_rule", AbortRule())

    def start(self) -> Run:
        return self._machine.start()

    def advance(self, run: Run, signal: Signal) -> Transition:
        return self._machine.advance(run, signal)


class Silent(Redrawn):
    """A loop that asks for nothing once it has come to a state of type `stuck`."""

    def __init__(self, machine: Machine, stuck: type[Struct]) -> None:
        super().__init__(machine, machine.legal)
        self._stuck = stuck

    def advance(self, run: Run, signal: Signal) -> Transition:
        after, asked = super().advance(run, signal)
        return after, () if isinstance(after.state, self._stuck) else asked


class Staying(Redrawn):
    """A loop that any answer in a state of type `stuck` leaves there, asking once more."""

    def __init__(self, machine: Machine, stuck: type[Struct], asks: Effect, *by: Signal) -> None:
        kinds: set[type[Struct]] = {type(signal) for signal in by}
        there: frozenset[type[Struct]] = frozenset({stuck})
        row = {**machine.legal[stuck], **dict.fromkeys(kinds, there)}
        super().__init__(machine, {**machine.legal, stuck: row})
        self._stuck, self._asks, self._by = stuck, asks, kinds

    def advance(self, run: Run, signal: Signal) -> Transition:
        if isinstance(run.state, self._stuck) and type(signal) in self._by:
            return run, (self._asks,)
        return super().advance(run, signal)


def without(legal: LegalMap, edge: Edge) -> LegalMap:
    """The map without one edge; a signal that then leads nowhere is not accepted any more."""
    state, signal, target = edge
    row = dict(legal[state])
    left = row.pop(signal) - {target}
    return {**legal, state: {**row, signal: left} if left else row}


def refusing(legal: LegalMap, state: type[Struct], signal: type[Struct]) -> LegalMap:
    """The map without one signal in one state."""
    return {**legal, state: {kind: to for kind, to in legal[state].items() if kind is not signal}}


def edges(legal: LegalMap) -> Iterator[Edge]:
    for state, row in legal.items():
        for signal, targets in row.items():
            for target in sorted(targets, key=lambda kind: kind.__name__):
                yield state, signal, target


def arriving(asked: Sequence[Effect]) -> Iterator[Signal]:
    """What can arrive where this has been asked for; the prompt, if nothing has."""
    burst = SMALL.max_steps_per_round + 1
    yield from ENDINGS if asked else (Began(),)
    for effect in asked:
        yield from answers(effect, burst)


def refused(machine: Machine, steps: Sequence[Step], kind: type[Struct]) -> type[Exception] | None:
    """What the machine raises for a signal of this kind at the end of a counterexample."""
    run, asked = replayed(machine, steps)
    for signal in arriving(asked):
        if type(signal) is kind:
            try:
                checked_transition(machine, run, signal)
            except InternalError as error:
                return type(error)
    return None


def proof_of(machine: Machine, limits: Limits = SMALL) -> Proof:
    return prove(machine, limits)


def replayed(machine: Machine, steps: Sequence[Step]) -> tuple[Run, tuple[Effect, ...]]:
    """Where the signals of a counterexample lead; that must be where it says, all the way."""
    place: Transition = (machine.start(), ())
    for step in steps:
        place = machine.advance(place[0], step.signal)
        assert place == (step.run, step.asked)
    return place


def goes_round(machine: Machine, lasso: Lasso | None) -> bool:
    """Whether a lasso leads back to where its cycle began, on the machine itself."""
    assert lasso is not None
    assert lasso.cycle
    begins = replayed(machine, lasso.prefix)
    return replayed(machine, (*lasso.prefix, *lasso.cycle, *lasso.cycle)) == begins
