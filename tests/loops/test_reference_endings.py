"""The reference loop ended by hooks, an abort or the wall clock; and that it is a function."""

import pytest
from arrivals import (
    ANSWER,
    FITS,
    OVER,
    RATE_LIMITED,
    SHRUNK,
    TOOLS,
    WAITED,
    WAYS,
    ending,
    play,
    state_after,
)

from simloop.errors import InternalError, SimloopError
from simloop.kernel import states
from simloop.kernel.limits import Limits
from simloop.kernel.machine import IllegalSignal, Run, Transition, checked_transition
from simloop.kernel.signals import (
    AbortRequested,
    Began,
    CallBlocked,
    HookFailed,
    Signal,
    StepClosed,
    WallClockExpired,
)
from simloop.loops.reference import LEGAL, ReferenceLoop
from simloop.messages import Outcome

# Hooks, abort, wall clock


@pytest.mark.parametrize("state", [states.CallingModel, states.RunningTools, states.ClosingStep])
def test_a_hook_that_fails_the_run_ends_it(state: type) -> None:
    assert ending(*WAYS[state], HookFailed()) == states.Finished(Outcome.FAILED)


def test_a_hook_that_fails_the_run_is_no_error_of_the_model() -> None:
    assert play(FITS, HookFailed())[0].error_count == 0


def test_a_call_that_a_hook_forbids_ends_the_run_as_blocked() -> None:
    assert ending(FITS, CallBlocked()) == states.Finished(Outcome.BLOCKED)


def test_every_state_but_the_first_and_the_last_has_a_way_into_it() -> None:
    assert set(WAYS) == set(LEGAL) - {states.Ready, states.Finished}


@pytest.mark.parametrize("state", WAYS)
def test_the_way_into_a_state_leads_there(state: type) -> None:
    assert isinstance(state_after(*WAYS[state]), state)


@pytest.mark.parametrize("state", WAYS)
def test_an_abort_ends_the_run_in_any_state(state: type) -> None:
    assert ending(*WAYS[state], AbortRequested()) == states.Finished(Outcome.ABORTED)


@pytest.mark.parametrize("state", WAYS)
def test_the_wall_clock_ends_the_run_in_any_state(state: type) -> None:
    ended = states.Finished(Outcome.TIMED_OUT, "max_wall_clock")
    assert ending(*WAYS[state], WallClockExpired()) == ended


@pytest.mark.parametrize(
    "signal", [AbortRequested(), WallClockExpired()], ids=["abort", "wall-clock"]
)
def test_a_run_cannot_end_before_it_began(signal: Signal) -> None:
    loop = ReferenceLoop()
    with pytest.raises(IllegalSignal):
        checked_transition(loop, loop.start(), signal)


@pytest.mark.parametrize("signal", [AbortRequested(), WallClockExpired()], ids=["abort", "clock"])
def test_an_early_end_keeps_what_was_spent(signal: Signal) -> None:
    spent = (*RATE_LIMITED, WAITED, OVER, SHRUNK, *TOOLS)
    run, _ = play(*spent, signal)
    assert (run.error_count, run.total_steps, run.compaction_attempts) == (1, 1, 1)


def test_an_abort_during_a_compaction_does_not_count_it() -> None:
    assert play(OVER, AbortRequested())[0].compaction_attempts == 0


@pytest.mark.parametrize(
    "signal", [AbortRequested(), WallClockExpired(), Began(), FITS, WAITED], ids=str
)
def test_a_finished_run_ends_only_once(signal: Signal) -> None:
    with pytest.raises(IllegalSignal):
        play(*ANSWER, signal)


# A machine is a function


class Lost(ReferenceLoop):
    """A machine that backs off whatever happens."""

    def advance(self, run: Run, signal: Signal) -> Transition:
        return Run(states.BackingOff()), ()


def test_a_move_that_is_not_on_the_map_is_an_internal_error() -> None:
    loop = Lost()
    with pytest.raises(InternalError, match=r"Ready\(\) -> BackingOff\(\) on Began\(\)"):
        checked_transition(loop, loop.start(), Began())


def test_a_refused_signal_leaves_the_run_as_it_was() -> None:
    loop = ReferenceLoop()
    run = loop.start()
    with pytest.raises(SimloopError):
        checked_transition(loop, run, WAITED)
    assert run == loop.start()


def test_the_same_signal_leads_the_same_run_to_the_same_place_every_time() -> None:
    loop = ReferenceLoop()
    run, _ = play(*RATE_LIMITED)
    assert checked_transition(loop, run, WAITED) == checked_transition(loop, run, WAITED)


def test_two_loops_with_equal_limits_are_the_same_machine() -> None:
    run, _ = play(*TOOLS[:3], max_steps=1)
    one, other = (ReferenceLoop(Limits(max_steps=1)) for _ in range(2))
    assert checked_transition(one, run, StepClosed()) == checked_transition(
        other, run, StepClosed()
    )


def test_two_runs_of_one_loop_do_not_touch_each_other() -> None:
    loop = ReferenceLoop(Limits(max_error_count=1))
    run, _ = checked_transition(loop, loop.start(), Began())
    checked_transition(loop, checked_transition(loop, run, FITS)[0], RATE_LIMITED[1])
    assert checked_transition(loop, run, FITS)[0].error_count == 0
