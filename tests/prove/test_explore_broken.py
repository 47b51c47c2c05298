"""Whatever breaks a loop is found by one exploration, with a counterexample that leads there."""

from collections.abc import Sequence
from functools import cache

import pytest
from broken import (
    SMALL,
    Change,
    Redrawn,
    Silent,
    Staying,
    change,
    edges,
    goes_round,
    proof_of,
    refused,
    refusing,
    replayed,
    without,
)
from msgspec import Struct

from simloop.kernel import effects, signals, states
from simloop.kernel.effects import Effect
from simloop.kernel.machine import Edge, IllegalSignal
from simloop.kernel.names import NAMES
from simloop.kernel.signals import Signal
from simloop.prove.graph import RuleViolation
from simloop.runs.loop import machine_for
from simloop.scenario.designs import names

FREE = [
    change("reference", "a retry", "_recover", "(failed.to(_BACKING_OFF)", "(run.to(_BACKING_OFF)"),
    change("reference", "a compaction", "_resume",
           "return self._measure(tried)", "return self._measure(run)"),
    change("reference", "an overflow", "_decide_rarely",
           "return self._make_room(run)", "return run.to(_BACKING_OFF), (effects.Backoff(1),)"),
    change("react", "a failed call", "advance",
           "return finish(run, Outcome.FAILED)", "return run.to(states.CallingModel()), _CALL"),
    change("pi", "a reply without calls", "_follow",
           "if reply.calls or closed.steering:", "if True:"),
    change("opencode", "a failed call", "_catch",
           "return finish(failed, Outcome.FAILED)",
           "return run.to(states.BackingOff()), (effects.Backoff(1),)"),
    change("opencode", "a compaction", "_resume",
           "self._is_spent(counted)", "self._is_spent(run)",
           "return self._call_with_queued(counted)",
           "return run.to(Turning(answered=False)), _TURN"),
]  # fmt: skip

COMPACTED = [signals.ContextCompacted(shrunk) for shrunk in (True, False)]
ERRORS, STEPS, COMPACTIONS = "max_error_count", "max_steps", "max_compaction_attempts"
# The limit, what is asked for once too often, the loop, the method; right, too late, too early.
OFF_BY_ONE = [
    (ERRORS, "backoff", "reference", "_recover",
     "error_count >= self", "error_count > self", "error_count + 1 >= self"),
    (STEPS, "call-model", "reference", "_exceeded",
     "total_steps >= self", "total_steps > self", "total_steps + 1 >= self"),
    (COMPACTIONS, "compact", "reference", "_make_room",
     "attempts >= self", "attempts > self", "attempts + 1 >= self"),
    ("max_rounds", "call-model", "react", "_go_on",
     "total_steps >= self", "total_steps > self", "total_steps + 1 >= self"),
    ("max_retries", "backoff", "opencode", "_catch",
     "error_count > self", "error_count - 1 > self", "error_count >= self"),
    (STEPS, "call-model", "opencode", "_is_spent",
     "total_steps >= self", "total_steps > self", "total_steps + 1 >= self"),
]  # fmt: skip
TOO_LATE = [
    *(
        (limit, asks, change(loop, limit, method, right, late))
        for limit, asks, loop, method, right, late, _ in OFF_BY_ONE
    ),
    (COMPACTIONS, "compact",
     change("reference", "normal", "_enter_round", "attempts < self", "attempts <= self")),
    (STEPS, "call-model",
     change("reference", "a reply", "_follow",
            "self._exceeded(run) or self._measure", "self._measure")),
    (STEPS, "call-model",
     change("reference", "a useless reply", "_recover",
            "self._exceeded_on_a_detour(failed) or ", "")),
    (STEPS, "call-model",
     change("reference", "only just", "_exceeded", "total_steps >= self", "total_steps == self")),
]  # fmt: skip
TOO_EARLY = [
    (limit, change(loop, limit, method, right, early))
    for limit, _, loop, method, right, _, early in OFF_BY_ONE
]


def named(broken: Change) -> str:
    return f"{broken.loop}: {broken.name}"


def violation(found: Sequence[RuleViolation], *words: str) -> RuleViolation:
    """The violation that has all these words."""
    fitting = [one for one in found if set(words) <= set(one.what.replace(",", " ").split())]
    assert fitting, f"nothing about {words} in {[one.what for one in found]}"
    return fitting[0]


# What is not broken


@pytest.mark.parametrize("loop", names())
def test_with_a_loop_that_is_not_broken_nothing_is_found(loop: str) -> None:
    assert proof_of(machine_for(loop, SMALL)).violations == ()


# A counter that is never incremented, a path that goes on for free


@pytest.mark.parametrize("broken", FREE, ids=named)
def test_a_path_that_goes_on_for_free_is_a_way_round(broken: Change) -> None:
    proof = proof_of(broken.machine())
    assert goes_round(broken.machine(), proof.lasso)


# A bound that is off by one


@pytest.mark.parametrize(
    ("limit", "asks", "broken"), TOO_LATE, ids=[named(broken) for *_, broken in TOO_LATE]
)
def test_a_bound_that_is_one_too_late_asks_for_more_than_is_allowed(
    limit: str, asks: str, broken: Change
) -> None:
    machine = broken.machine()
    bound = machine.bounds[limit]
    found = violation(proof_of(machine).violations, limit, asks)
    run, asked = replayed(broken.machine(), found.counterexample)
    assert getattr(run, bound.counter) >= bound.at
    assert asks in {NAMES[type(effect)] for effect in asked}


@pytest.mark.parametrize(
    ("limit", "broken"), TOO_EARLY, ids=[named(broken) for _, broken in TOO_EARLY]
)
def test_a_bound_that_is_one_too_early_ends_a_run_that_has_not_reached_it(
    limit: str, broken: Change
) -> None:
    machine = broken.machine()
    bound = machine.bounds[limit]
    run, _ = replayed(
        broken.machine(), violation(proof_of(machine).violations, limit).counterexample
    )
    assert isinstance(run.state, states.Finished)
    assert run.state.limit == limit
    assert getattr(run, bound.counter) == bound.at - 1


# An edge that is missing from the map


@cache
def taken(loop: str) -> list[Edge]:
    machine = machine_for(loop, SMALL)
    proof = proof_of(machine)
    return [edge for edge in edges(machine.legal) if edge not in proof.untaken]


# One test for each loop and not for each edge, because each edge takes a proof.
QUICK = ("pi", "react", "pi@0.87.1")
LONG = ("reference", "opencode", "opencode@1.18.34")
every_loop = pytest.mark.parametrize(
    "loop", [*QUICK, *(pytest.param(loop, marks=pytest.mark.slow) for loop in LONG)]
)


@every_loop
def test_an_edge_that_is_missing_from_the_map_is_found_and_a_run_that_takes_it_ends_there(
    loop: str,
) -> None:
    sound = machine_for(loop, SMALL)
    for edge in taken(loop):
        machine = Redrawn(sound, without(sound.legal, edge))
        found = violation(proof_of(machine).violations, *missing(machine, edge))
        assert type(replayed(machine, found.counterexample)[0].state) is edge[0]
        assert refused(machine, found.counterexample, edge[1]) is not None


def missing(machine: Redrawn, edge: Edge) -> tuple[str, ...]:
    """The words of a missing edge: the map lacks the whole signal, or one state it leads to."""
    state, signal, target = (NAMES[kind] for kind in edge)
    if edge[1] in machine.legal[edge[0]]:
        return state, target, signal, "map"
    return state, "refuses", signal


# A signal that is refused, and can arrive


@every_loop
def test_a_signal_that_is_refused_and_can_arrive_is_found(loop: str) -> None:
    sound = machine_for(loop, SMALL)
    for state, signal in dict.fromkeys(edge[:2] for edge in taken(loop)):
        machine = Redrawn(sound, refusing(sound.legal, state, signal))
        found = violation(proof_of(machine).violations, NAMES[state], "refuses", NAMES[signal])
        assert type(replayed(machine, found.counterexample)[0].state) is state
        assert refused(machine, found.counterexample, signal) is IllegalSignal


# A state that cannot be left


@pytest.mark.parametrize("loop", [*QUICK, "opencode@1.18.34"])
def test_a_state_that_asks_for_nothing_cannot_be_left(loop: str) -> None:
    for stuck in dict.fromkeys(edge[2] for edge in taken(loop)):
        if stuck is not states.Finished:
            machine = Silent(machine_for(loop, SMALL), stuck)
            found = violation(proof_of(machine).violations, NAMES[stuck], "cannot", "left:")
            run, asked = replayed(machine, found.counterexample)
            assert (type(run.state), asked) == (stuck, ())


@pytest.mark.parametrize(
    ("loop", "stuck", "asks", "by"),
    [
        ("reference", states.BackingOff, effects.Backoff(1), [signals.BackoffElapsed()]),
        ("pi", states.Compacting, effects.Compact(forced=False), COMPACTED),
        ("react", states.ClosingStep, effects.CloseStep(keep=True), [signals.StepClosed()]),
        ("opencode", states.BackingOff, effects.Backoff(1), [signals.BackoffElapsed()]),
    ],
)
def test_a_state_that_can_be_left_only_for_itself_goes_round_and_has_no_end(
    loop: str, stuck: type[Struct], asks: Effect, by: list[Signal]
) -> None:
    machine = Staying(machine_for(loop, SMALL), stuck, asks, *by)
    proof = proof_of(machine)
    assert goes_round(machine, proof.lasso)
    found = violation(proof.violations, "no", "way", "end")
    run, _ = replayed(machine, found.counterexample)
    assert type(run.state) is stuck
    assert NAMES[stuck] in found.what
