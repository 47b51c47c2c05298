"""A run is a plain value, and the errors of a machine that leaves its map say where and how."""

import copy
import pickle
import re
from collections.abc import Mapping
from itertools import product
from typing import get_args

import pytest
from incases import in_cases
from mermaid import mermaid
from msgspec import Struct

from simloop.errors import InternalError
from simloop.kernel import effects, signals, states
from simloop.kernel.limits import Limits
from simloop.kernel.machine import (
    END,
    ENDINGS,
    Bound,
    Feature,
    IllegalSignal,
    IllegalTransition,
    LegalMap,
    Run,
    Transition,
    checked_transition,
    finish,
    stop,
)
from simloop.kernel.policies import Policies
from simloop.kernel.signals import (
    AbortRequested,
    Began,
    ModelFailed,
    ModelReplied,
    Signal,
    WallClockExpired,
)
from simloop.kernel.states import BackingOff, CallingModel, Finished, Ready, State
from simloop.messages import FinishReason, Outcome
from simloop.runs.loop import machine_for
from simloop.scenario.designs import DESIGNS

REPLY = states.ReplyFacts(FinishReason.STOP, text=True, calls=False)
STATES: list[State] = [
    states.Ready(),
    states.Measuring(),
    states.Compacting(forced=True),
    states.CallingModel(),
    states.RunningTools(REPLY),
    states.ClosingStep(REPLY, blocked=True),
    states.BackingOff(),
    states.Halting(),
    states.Finished(Outcome.MAX_STEPS, "max_steps"),
]
RUN, BEGAN = Run(states.Ready()), signals.Began()

every_state = pytest.mark.parametrize("state", STATES, ids=lambda state: type(state).__name__)


def test_every_state_is_tried_here() -> None:
    assert {type(state) for state in STATES} == set(get_args(State))


@every_state
def test_a_run_is_equal_to_its_copy_in_this_process_and_another(state: State) -> None:
    run = Run(state, 1, 2, 3)
    for twin in (copy.deepcopy(run), pickle.loads(pickle.dumps(run))):
        assert (twin, hash(twin)) == (run, hash(run))


def test_a_run_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        RUN.error_count = 1  # type: ignore[misc]


@in_cases([*get_args(State), *get_args(Signal), *get_args(effects.Effect)])
def test_nothing_the_machine_speaks_can_be_changed(noun: type[Struct]) -> None:
    assert noun.__struct_config__.frozen


# ---------------------------------------------------------------------- moving on


@every_state
def test_a_run_that_moves_to_a_state_keeps_what_was_spent(state: State) -> None:
    assert Run(states.Ready(), 1, 2, 3).to(state) == Run(state, 1, 2, 3)


MAP: LegalMap = {
    states.Ready: {signals.Began: frozenset({states.Measuring})},
    states.Measuring: {signals.ContextMeasured: frozenset({states.CallingModel}), **ENDINGS},
    states.Finished: {},
}


class Decided:
    """A machine with the map above, which makes one transition whatever arrives."""

    name = "decided"
    legal = MAP
    policies = Policies()
    bounds: Mapping[str, Bound] = {}
    unsupported: Mapping[Feature, str] = {}

    def __init__(self, state: State | None) -> None:
        self._state = state
        self.asked: list[tuple[Run, Signal]] = []

    def start(self) -> Run:
        return RUN

    def advance(self, run: Run, signal: Signal) -> Transition:
        self.asked.append((run, signal))
        assert self._state is not None
        return leading_to(self._state)


def leading_to(state: State) -> Transition:
    return Run(state, 1, 2, 3), (effects.MeasureContext(),)


def test_a_move_on_the_map_is_made_as_it_was_decided() -> None:
    machine = Decided(states.Measuring())
    assert checked_transition(machine, RUN, BEGAN) == leading_to(states.Measuring())
    assert machine.asked == [(RUN, BEGAN)]


@pytest.mark.parametrize(
    "signal",
    [signals.BackoffElapsed(), signals.AbortRequested(), signals.ContextMeasured(over=True)],
    ids=repr,
)
def test_a_signal_that_the_map_does_not_let_in_is_never_decided_on(signal: Signal) -> None:
    machine = Decided(None)
    told = f"Ready() does not wait for {signal!r}: please report this"
    with pytest.raises(IllegalSignal, match=f"^{re.escape(told)}$"):
        checked_transition(machine, RUN, signal)
    assert machine.asked == []


def test_a_decision_that_leaves_the_map_is_our_fault_and_the_error_keeps_the_decision() -> None:
    machine = Decided(states.CallingModel())
    told = "Ready() -> CallingModel() on Began() is not on the map: please report this"
    with pytest.raises(IllegalTransition, match=f"^{re.escape(told)}$") as raised:
        checked_transition(machine, RUN, BEGAN)
    assert isinstance(raised.value, InternalError)
    assert raised.value.moved == leading_to(states.CallingModel())


# ---------------------------------------------------------------------- ending

SPENT = Run(states.CallingModel(), 1, 2, 3)


def test_a_run_that_ends_keeps_what_was_spent_and_says_goodbye() -> None:
    assert finish(SPENT, Outcome.COMPLETED) == (
        Run(states.Finished(Outcome.COMPLETED), 1, 2, 3),
        (effects.EndRun(),),
    )


def test_a_run_that_ends_by_a_limit_names_it_and_may_have_words_of_its_own() -> None:
    run, asked = finish(SPENT, Outcome.MAX_STEPS, "max_rounds", "Enough.")
    assert run.state == states.Finished(Outcome.MAX_STEPS, "max_rounds")
    assert asked == (effects.EndRun("Enough."),)


@pytest.mark.parametrize(
    ("signal", "ended"),
    [
        (signals.AbortRequested(), states.Finished(Outcome.ABORTED)),
        (signals.WallClockExpired(), states.Finished(Outcome.TIMED_OUT, "max_wall_clock")),
        (signals.HookFailed(), states.Finished(Outcome.FAILED)),
        (signals.CallBlocked(), states.Finished(Outcome.BLOCKED)),
    ],
    ids=repr,
)
def test_what_stops_a_run_decides_its_outcome(signal: Signal, ended: states.Finished) -> None:
    assert stop(SPENT, signal) == (Run(ended, 1, 2, 3), (effects.EndRun(),))


ARROW = re.compile(r"    (\w+) --> (\w+): (.+)")
LEGAL: LegalMap = {
    Ready: {Began: frozenset({CallingModel})},
    CallingModel: {
        ModelReplied: END,
        ModelFailed: frozenset({Finished, BackingOff}),
        AbortRequested: frozenset({Finished, BackingOff}),
        WallClockExpired: END,
    },
    BackingOff: {},
    Finished: {},
}


def drawn(text: str) -> set[tuple[str, str, str]]:
    """State, signal and target of each arrow, by their names."""
    return {
        (state, signal, target)
        for line in text.splitlines()
        if (found := ARROW.fullmatch(line))
        for state, target, signals in [found.groups()]
        for signal in signals.split(", ")
    }


def test_a_map_is_drawn_from_where_it_begins_to_where_it_ends() -> None:
    assert mermaid(LEGAL).splitlines() == [
        "stateDiagram-v2",
        "    [*] --> Ready",
        "    Ready --> CallingModel: Began",
        "    CallingModel --> BackingOff: ModelFailed, AbortRequested",
        "    CallingModel --> Finished: ModelReplied, ModelFailed",
        "    BackingOff --> [*]",
        "    Finished --> [*]",
    ]


@pytest.mark.parametrize("loop", DESIGNS)
def test_every_edge_is_drawn_but_those_that_end_any_run(loop: str) -> None:
    legal = machine_for(loop, Limits()).legal
    everywhere = set(product((AbortRequested, WallClockExpired), (Finished,)))
    assert drawn(mermaid(legal)) == {
        (state.__name__, signal.__name__, target.__name__)
        for state, row in legal.items()
        for signal, targets in row.items()
        for target in targets
        if (signal, target) not in everywhere
    }
