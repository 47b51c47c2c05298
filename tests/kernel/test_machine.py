"""A run is a plain value, and the errors of a machine that leaves its map say where and how."""

import copy
import pickle
from typing import get_args

import msgspec
import pytest
from msgspec import Struct

from simloop.errors import InternalError
from simloop.kernel import effects, signals, states
from simloop.kernel.machine import IllegalSignal, Run, not_accepted, not_on_the_map
from simloop.kernel.signals import Signal
from simloop.kernel.states import State
from simloop.messages import FinishReason, Outcome

REPLY = states.Reply(FinishReason.STOP, text=True, calls=False)
STATES: list[State] = [
    states.Ready(),
    states.Measuring(),
    states.Compacting(forced=True),
    states.CallingModel(),
    states.RunningTools(REPLY),
    states.ClosingStep(REPLY),
    states.BackingOff(),
    states.Finished(Outcome.MAX_STEPS, "max_steps"),
]
RUN, BEGAN = Run(states.Ready()), signals.Began()

every_state = pytest.mark.parametrize("state", STATES, ids=lambda state: type(state).__name__)


def test_every_state_is_tried_here() -> None:
    assert {type(state) for state in STATES} == set(get_args(State))


def test_a_refused_signal_is_told_with_the_state_that_refused_it() -> None:
    error = not_accepted(RUN, signals.StepClosed())
    assert str(error) == "Ready() does not wait for StepClosed(queued=False): please report this"


def test_a_refused_signal_is_our_fault_not_the_authors() -> None:
    assert issubclass(IllegalSignal, InternalError)


def test_a_move_off_the_map_is_told_with_both_its_ends() -> None:
    error = not_on_the_map(RUN, BEGAN, Run(states.BackingOff()))
    assert str(error) == "Ready() -> BackingOff() on Began() is not on the map: please report this"


def test_a_run_starts_with_nothing_spent() -> None:
    assert (RUN.error_count, RUN.total_steps, RUN.compaction_attempts) == (0, 0, 0)


@every_state
def test_a_run_is_equal_to_its_deep_copy_and_hashes_alike(state: State) -> None:
    run = Run(state, 1, 2, 3)
    twin = copy.deepcopy(run)
    assert (twin, hash(twin)) == (run, hash(run))


@every_state
def test_a_run_is_equal_to_what_another_process_reads_of_it(state: State) -> None:
    run = Run(state, 1, 2, 3)
    twin = pickle.loads(pickle.dumps(run))
    assert (twin, hash(twin)) == (run, hash(run))


@every_state
def test_a_run_is_equal_to_one_replaced_by_msgspec_without_change(state: State) -> None:
    run = Run(state, 1, 2, 3)
    twin = msgspec.structs.replace(run)
    assert (twin, hash(twin)) == (run, hash(run))


@every_state
def test_a_state_survives_a_round_trip_through_json_when_its_type_is_known(state: State) -> None:
    assert msgspec.json.decode(msgspec.json.encode(state), type=type(state)) == state


def test_runs_in_different_states_are_different_runs() -> None:
    assert len({Run(state) for state in STATES}) == len(STATES)


@pytest.mark.parametrize(
    "other",
    [
        Run(states.Ready(), error_count=1),
        Run(states.Ready(), total_steps=1),
        Run(states.Ready(), compaction_attempts=1),
    ],
    ids=["error-count", "total-steps", "compaction-attempts"],
)
def test_runs_that_differ_in_a_counter_are_different_runs(other: Run) -> None:
    assert len({RUN, other}) == 2


def test_a_run_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        RUN.error_count = 1  # type: ignore[misc]


@pytest.mark.parametrize("noun", [*get_args(State), *get_args(Signal), *get_args(effects.Effect)])
def test_nothing_the_machine_speaks_can_be_changed(noun: type[Struct]) -> None:
    assert noun.__struct_config__.frozen
