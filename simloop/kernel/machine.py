"""The protocol of a loop machine, and the errors of one that leaves its map.

A machine is a Mealy machine: `advance(run, signal) -> (run, effects)`. It reads no clock, draws no
number and touches no world. The rule to keep: `run` is frozen and hashable, and equal runs of one
machine behave equally for ever after; that is what lets `explore` visit all of them.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from simloop.errors import InternalError
from simloop.kernel.effects import Effect
from simloop.kernel.signals import Signal
from simloop.kernel.states import State

LegalMap = Mapping[type[Struct], Mapping[type[Struct], frozenset[type[Struct]]]]
"""For each state, the signals it accepts, and for each of those the states it may lead to."""


class Run(Struct, frozen=True, gc=False):
    """Where a run stands: everything that decides how it goes on, and nothing else."""

    state: State
    error_count: int = 0
    """Failed or useless model calls; +1 for each, never reset (bug E6: by design, so stated)."""
    total_steps: int = 0
    """Steps of replies; + what each reply reports (at least 1), never reset. A call that fails
    without a reply is no step."""
    compaction_attempts: int = 0
    """Compactions tried, normal and forced, whether or not they helped (bug B4); never reset."""


Transition = tuple[Run, tuple[Effect, ...]]


class Machine(Protocol):
    """A loop design. `name` is what scenarios call it."""

    name: str
    legal: LegalMap

    def start(self) -> Run:
        """The run before anything has happened."""
        ...

    def advance(self, run: Run, signal: Signal) -> Transition:
        """Where `signal` leads `run`, and what is asked of the world.

        Raises IllegalSignal if the state does not accept the signal, InternalError if the machine
        makes a move that is not on its map.
        """
        ...

    def alphabet(self, run: Run) -> tuple[Signal, ...]:
        """The representative signals that can arrive in this run's state, one for each decision."""
        ...


class IllegalSignal(InternalError):  # noqa: N818 - what it is, in the machine's own words
    """A signal arrived in a state that does not wait for it."""


def not_accepted(run: Run, signal: Signal) -> IllegalSignal:
    """The error for a signal that the map does not let in."""
    return IllegalSignal(f"{run.state} does not wait for {signal}: please report this")


def not_on_the_map(run: Run, signal: Signal, after: Run) -> InternalError:
    """The error for a move that the map does not have."""
    return InternalError(
        f"{run.state} -> {after.state} on {signal} is not on the map: please report this"
    )
