"""How a loop machine becomes a faulty one that a colleague could have written.

A machine wraps a bundled loop and changes what it does on one occasion. Its map allows every move,
so that a rule finds the fault, and not a move that the map lacks. Changes of single lines are in
broken.py.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from broken import SMALL, Redrawn
from msgspec import structs

from simloop.kernel import effects, signals, states
from simloop.kernel.limits import Limits
from simloop.kernel.machine import LegalMap, Machine, Run, Transition, finish
from simloop.kernel.signals import Signal
from simloop.messages import Outcome
from simloop.runs.loop import machine_for

Twist = Callable[[Machine, Run, Signal, Transition], Transition]
"""Another transition in the place of one: the machine, the run, the signal, what it did."""

WIDE = Limits(max_steps=2, max_error_count=4, max_compaction_attempts=1, max_steps_per_round=2)
"""So that a counter has values that are neither the first nor the last."""
ROOMY = Limits(max_steps=4, max_error_count=1, max_compaction_attempts=0, max_steps_per_round=2)
"""So that a burst does not reach `max_steps`."""


class Fault(NamedTuple):
    """A fault of `loop`, under `limits`; `spec` says why only a specification can find it."""

    loop: str
    name: str
    machine: Callable[[Machine], Machine]
    limits: Limits = SMALL
    spec: str = ""

    def __str__(self) -> str:
        return f"{self.loop}: {self.name}"

    def made(self) -> Machine:
        return self.machine(machine_for(self.loop, self.limits))


class Twisted(Redrawn):
    """A loop that does something else where `twist` says so."""

    def __init__(self, machine: Machine, twist: Twist) -> None:
        super().__init__(machine, everywhere(machine.legal))
        self._twist = twist

    def advance(self, run: Run, signal: Signal) -> Transition:
        return self._twist(self._machine, run, signal, self._machine.advance(run, signal))


class Carrying(Twisted):
    """A loop whose next run begins with a counter of the last one."""

    def __init__(self, machine: Machine, counter: str) -> None:
        super().__init__(machine, keep)
        self._counter, self._carried = counter, 0

    def start(self) -> Run:
        return structs.replace(super().start(), **{self._counter: self._carried})

    def advance(self, run: Run, signal: Signal) -> Transition:
        moved = super().advance(run, signal)
        if isinstance(moved[0].state, states.Finished):
            self._carried = getattr(moved[0], self._counter)
        return moved


class CountingRuns(Twisted):
    """A loop that takes one try from each run after the first."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, keep)
        self._runs = 0

    def start(self) -> Run:
        self._runs += 1
        return structs.replace(super().start(), error_count=min(self._runs - 1, 1))


class AskingAfterAbort(Twisted):
    """A loop that makes a real model call after an abort, and ends when it is answered."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, keep)

    def advance(self, run: Run, signal: Signal) -> Transition:
        answers = signals.ModelReplied | signals.ModelFailed | signals.CallBlocked
        if isinstance(run.state, states.Halting) and isinstance(signal, answers):
            return finish(run, Outcome.ABORTED)
        after, asked = super().advance(run, signal)
        return after, (effects.CallModel(),) if isinstance(after.state, states.Halting) else asked


class Shared(Twisted):
    """A loop whose runs share one budget of tool rounds."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, keep)
        self._rounds = 0

    def advance(self, run: Run, signal: Signal) -> Transition:
        moved = super().advance(run, signal)
        if isinstance(signal, signals.ToolsReturned):
            self._rounds += 1
            if self._rounds > 5:
                return finish(run, Outcome.MAX_STEPS)
        return moved


def everywhere(legal: LegalMap) -> LegalMap:
    """A map of the states with every signal of the world to every state."""
    kinds = frozenset(legal)
    every: dict[type[Any], Any] = dict.fromkeys(Signal.__args__, kinds)
    return {
        state: {} if state is states.Finished else {**row, **every} for state, row in legal.items()
    }


def keep(_machine: Machine, _run: Run, _signal: Signal, moved: Transition) -> Transition:
    return moved


def twisted(twist: Twist) -> Callable[[Machine], Machine]:
    return lambda machine: Twisted(machine, twist)


def when(
    signal: type[Any] | tuple[type[Any], ...],
    then: Callable[[Machine, Run, Transition], Transition],
    state: type[Any] | tuple[type[Any], ...] = object,
    only: Callable[[Run, Any, Run], bool] = lambda *_: True,
) -> Callable[[Machine], Machine]:
    """A machine that does `then` on such a signal in such a state, if `only` says so."""

    def twist(machine: Machine, run: Run, given: Signal, moved: Transition) -> Transition:
        fits = isinstance(given, signal) and isinstance(run.state, state)
        return then(machine, run, moved) if fits and only(run, given, moved[0]) else moved

    return twisted(twist)


def counting(**counters: Callable[[Run, Run], int]) -> Callable[..., Transition]:
    """The transition with other counters, made of the run before and after."""

    def counted(_machine: Machine, run: Run, moved: Transition) -> Transition:
        values = {name: count(run, moved[0]) for name, count in counters.items()}
        return structs.replace(moved[0], **values), moved[1]

    return counted


def asking(state: Any, *asked: effects.Effect) -> Callable[..., Transition]:
    """A transition to `state`, or staying for None, that asks for these."""

    def asks(_machine: Machine, run: Run, _moved: Transition) -> Transition:
        return (run if state is None else run.to(state)), asked

    return asks


def as_if(signal: Signal) -> Callable[..., Transition]:
    """What the machine does on another signal."""
    return lambda machine, run, _moved: machine.advance(run, signal)


def ending(outcome: Outcome) -> Callable[..., Transition]:
    return lambda _machine, run, _moved: finish(run, outcome)
