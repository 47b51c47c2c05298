"""Two machines that get the same signals: proved to be alike, or where they differ first."""

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from faultlist import FAULTS
from faulty import Fault
from msgspec import Struct

from simloop.kernel.effects import Effect
from simloop.kernel.limits import Limits
from simloop.kernel.machine import LegalMap, Machine, Run, Transition, checked_transition
from simloop.kernel.signals import Signal
from simloop.kernel.states import Finished
from simloop.prove.likeness import Difference, Likeness, compare
from simloop.prove.visited import Step
from simloop.runs.registry import machine_for
from simloop.scenario.designs import names

SMALL = Limits(max_steps=2, max_error_count=2, max_compaction_attempts=1, max_steps_per_round=2)


class Inside(Struct, frozen=True):
    """The only state of a disguised machine, with the real one in it."""

    run: Run
    moves: int


class Anything(dict[type[Struct], frozenset[type[Struct]]]):
    """A row of a map that accepts every signal."""

    def __missing__(self, kind: type[Struct]) -> frozenset[type[Struct]]:
        return frozenset({Inside, Finished})


class Disguised:
    """A machine with other states and other counters, which does what another one does."""

    legal: LegalMap = MappingProxyType({Inside: Anything()})

    def __init__(self, inner: Machine) -> None:
        self.inner = inner
        self.name, self.policies = "disguised", inner.policies
        self.bounds, self.unsupported = inner.bounds, inner.unsupported

    def start(self) -> Run:
        return Run(Inside(self.inner.start(), 0))

    def advance(self, run: Run, signal: Signal) -> Transition:
        state = run.state
        assert isinstance(state, Inside)
        after, asked = checked_transition(self.inner, state.run, signal)
        if isinstance(after.state, Finished):
            return Run(after.state), asked
        return Run(Inside(after, (state.moves + 1) % 2), total_steps=7), asked


def compared(one: str | Machine, other: str | Machine, limits: Limits = SMALL) -> Likeness:
    first, second = (machine_for(m, limits) if isinstance(m, str) else m for m in (one, other))
    return compare(first, second, limits)


def followed(machine: Machine, steps: tuple[Step, ...]) -> list[tuple[Effect, ...]]:
    """What a machine asks for after each of these signals."""
    run, asked = machine.start(), []
    for step in steps:
        run, effects = machine.advance(run, step.signal)
        asked.append(tuple(effects))
        assert run == step.run
    return asked


@pytest.mark.parametrize("loop", names())
def test_a_machine_with_other_states_and_counters_is_alike(loop: str) -> None:
    likeness = compared(loop, Disguised(machine_for(loop, SMALL)))
    assert likeness.alike
    assert likeness.pairs > 30


OF_SEVERAL_RUNS = {
    "the next run begins with the errors of the last",
    "the next run begins with the rounds of the last",
    "every run but the first has one try less",
}
"""Faults that show in the second run of a machine only: exploring it alone finds them."""
COUNTED_ONLY = {"a compaction counts twice", "a summary does not count as a step"}
"""Faults of counters that decide nothing under these limits, so that both loops do the same."""


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_fault_is_a_difference_with_the_signals_that_lead_to_it(fault: Fault) -> None:
    right = machine_for(fault.loop, fault.limits)
    wrong = fault.machine(machine_for(fault.loop, fault.limits))
    likeness = compared(right, wrong, fault.limits)
    assert bool(likeness.differences) is (fault.name not in OF_SEVERAL_RUNS | COUNTED_ONLY)
    for difference in likeness.differences:
        assert followed(right, difference.steps) == [step.asked for step in difference.steps]
        signals = [step.signal for step in difference.steps]
        assert signals == [step.signal for step in difference.others] or not difference.others


def first(one: str, other: str) -> Difference:
    return compared(one, other).differences[0]


def test_versions_of_pi_differ_in_what_becomes_of_truncated_calls() -> None:
    difference = first("pi@0.73.1", "pi@0.87.1")
    assert difference.what == (
        "in calling-model on model-replied: length, text, calls: it asks for run-tools, and the "
        "other asks for refuse-tools: length"
    )
    assert [len(difference.steps), len(difference.others)] == [2, 2]


def test_a_difference_that_changes_nothing_of_what_follows_is_passed() -> None:
    """The first call of one version is polled for an abort; later differences are found as well."""
    found = [each.what for each in compared("opencode@1.2.27", "opencode@1.18.33").differences]
    assert "call-model: tools, polls" in found[0]
    assert any("max_retries" in what for what in found)
    assert len(found) == len(set(found))


def test_policies_that_differ_are_named_with_both_values() -> None:
    one, other = machine_for("react", SMALL), machine_for("react", SMALL)
    retry: Any = other.policies.retry
    other.policies = replace(other.policies, retry=replace(retry, initial_delay_ms=9))
    likeness = compared(one, other)
    assert not likeness.differences
    assert likeness.policies == ("retry.initial_delay_ms: 2000, and the other 9",)
    assert not likeness.alike


def test_signals_that_one_design_cannot_get_are_left_out_and_named() -> None:
    one, other = machine_for("reference", SMALL), machine_for("reference", SMALL)
    other.unsupported = {**other.unsupported, "hooks": "it has none"}  # type: ignore[dict-item]
    likeness = compared(one, other)
    assert likeness.alike
    assert [reason.partition(":")[0] for reason in likeness.left_out] == [
        "hook-failed",
        "call-blocked",
        "tools-returned",
    ]


class Fragile(Disguised):
    """A machine that raises at the second signal."""

    def advance(self, run: Run, signal: Signal) -> Transition:
        state = run.state
        assert isinstance(state, Inside)
        if state.moves:
            raise KeyError("gone")
        return super().advance(run, signal)


def test_a_machine_that_raises_differs_from_one_that_does_not() -> None:
    likeness = compared("react", Fragile(machine_for("react", SMALL)))
    difference = likeness.differences[0]
    assert difference.what.endswith("and the other raises KeyError: 'gone'")
    assert [len(difference.steps), len(difference.others)] == [2, 1]


def test_two_machines_that_raise_alike_are_not_followed() -> None:
    one, other = (Fragile(machine_for("react", SMALL)) for _ in range(2))
    assert compared(one, other).alike
