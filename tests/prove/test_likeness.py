"""A machine is compared with the design that it declares, in every order of signals."""

from typing import Any

import pytest
from broken import SMALL, Change, Silent, change

from simloop.kernel import states
from simloop.kernel.effects import EndRun, TakeQueued
from simloop.kernel.machine import Run, Transition
from simloop.kernel.signals import ModelFailed, Signal
from simloop.loops.pi import PiLoop
from simloop.loops.reference import ReferenceLoop
from simloop.prove import likeness
from simloop.prove.likeness import first_difference
from simloop.runs.loop import machine_for
from simloop.scenario.designs import names


def against(machine: Any, design: str = "reference") -> str:
    return first_difference(machine, machine_for(design, SMALL), SMALL)


@pytest.mark.parametrize("name", names())
def test_each_design_and_version_is_like_itself(name: str) -> None:
    assert against(machine_for(name, SMALL), name) == ""


@pytest.mark.parametrize("name", ["reference", "pi", "opencode"])
def test_a_version_that_decides_otherwise_differs_from_its_design(name: str) -> None:
    (version,) = (each for each in names() if each.startswith(f"{name}@"))
    assert against(machine_for(version, SMALL), name).startswith("after began")


class TakesNothing(ReferenceLoop):
    def advance(self, run: Run, signal: Signal) -> Transition:
        after, asked = super().advance(run, signal)
        return after, tuple(each for each in asked if not isinstance(each, TakeQueued))


class Raises(ReferenceLoop):
    def advance(self, run: Run, signal: Signal) -> Transition:
        if isinstance(signal, ModelFailed):
            raise KeyError(signal.error)
        return super().advance(run, signal)


BACKOFF = "asks for Backoff(failures=1, polls=False)"
TAKES = "asks for TakeQueued(queue=None, one=False), MeasureContext()"
FAILED = "after began, context-measured, model-failed: rate-limit, retryable it"
RETRY = change("reference", "a retry", "_recover", "(failed.to(_BACKING_OFF)",
               "(run.to(_BACKING_OFF)")  # fmt: skip
EARLY = change("reference", "early", "_exceeded", "total_steps >= self", "total_steps + 1 >= self")


@pytest.mark.parametrize(
    ("machine", "difference"),
    [
        (Raises(SMALL), f"{FAILED} fails with KeyError, and the design {BACKOFF}"),
        (Silent(ReferenceLoop(SMALL), states.BackingOff),
         f"{FAILED} asks for nothing, and the design {BACKOFF}"),
        (TakesNothing(SMALL), f"after began it asks for MeasureContext(), and the design {TAKES}"),
    ],
)  # fmt: skip
def test_the_first_difference_has_the_shortest_way_to_it(machine: Any, difference: str) -> None:
    assert against(machine) == difference


@pytest.mark.parametrize(
    ("broken", "shows"),
    [
        (RETRY, f"{BACKOFF}, and the design ends as too-many-errors (max_error_count) by "),
        (EARLY, "it ends as max-steps (max_steps) by EndRun("),
    ],
)
def test_a_limit_that_is_counted_otherwise_shows_as_another_end(broken: Change, shows: str) -> None:
    assert shows in against(broken.machine())


class KeepsNothing(ReferenceLoop):
    def advance(self, run: Run, signal: Signal) -> Transition:
        after, asked = super().advance(run, signal)
        return after, tuple(EndRun(keep=False) if type(each) is EndRun else each for each in asked)


def test_ends_that_keep_other_messages_differ_in_words() -> None:
    text = against(KeepsNothing(SMALL))
    one, other = text.split(" it ")[1].split(", and the design ")
    assert one.startswith("ends as ")
    assert one.replace("keep=False", "keep=True") == other


def test_machines_that_fail_alike_are_alike_and_go_no_further() -> None:
    assert first_difference(Raises(SMALL), Raises(SMALL), SMALL) == ""


class Counts(PiLoop):
    """A machine that counts without a bound what decides nothing."""

    def advance(self, run: Run, signal: Signal) -> Transition:
        after, asked = super().advance(run, signal)
        counters = after.error_count, after.total_steps, run.compaction_attempts + 1
        return Run(after.state, *counters), asked


def test_a_counter_without_a_bound_ends_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likeness, "MOST_PAIRS", 300)
    assert first_difference(Counts(SMALL), PiLoop(SMALL), SMALL) == ""


def test_the_bound_is_far_above_the_pairs_of_each_design(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likeness, "MOST_PAIRS", likeness.MOST_PAIRS // 20)
    late = change("reference", "late", "_exceeded", "total_steps >= self", "total_steps > self")
    assert against(late.machine())
