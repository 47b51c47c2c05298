"""The edges of a machine: each is computed and judged once, and only for its machine."""

from typing import Any

import pytest

from simloop import Limits, Reply, Scenario, Simulation
from simloop.check.invariants.edges import JudgedEdge, JudgedEdges
from simloop.check.invariants.invariant import Invariant, invariant
from simloop.check.invariants.judge import Chosen, Judge, choose, judge
from simloop.check.invariants.subject import Subject
from simloop.errors import ScenarioError
from simloop.kernel import signals
from simloop.kernel.effects import Effect
from simloop.kernel.machine import Bound, Run
from simloop.kernel.signals import Signal
from simloop.kernel.states import Measuring
from simloop.loops.reference import ReferenceLoop
from simloop.messages import Counters
from simloop.trace.entries import Transition


class OwnRun(Run, frozen=True, eq=True):
    """A run of a machine of one's own, with a list: it has no hash."""

    seen: list[str] = []  # noqa: RUF012 - msgspec copies it


def played(machine: Any = None) -> tuple[Simulation, list[Any]]:
    simulation = Simulation(
        Scenario(prompt="Go.", model=[Reply(say="Done.")]), loop=machine or "reference"
    )
    simulation.run()
    return simulation, list(simulation.trace.entries)


def counted() -> tuple[Invariant, list[str]]:
    judged: list[str] = []

    @invariant("No run begins.", "a test", sees=[signals.Began, signals.StepClosed])
    def nothing_begins(_: Subject, edge: JudgedEdge) -> str:
        judged.append(type(edge.signal).__name__)
        return f"{edge.state} follows {type(edge.signal).__name__}"

    return nothing_begins, judged


def judged_with(chosen: Chosen, simulation: Simulation, record: list[Any]) -> list[str]:
    made = Judge(Subject.of(simulation.prepared), chosen)
    for entry in record:
        made(entry)
    return [str(each) for each in made.violations]


def test_equal_edges_are_judged_once_for_many_runs_and_violated_in_each() -> None:
    (simulation, record), (one, judged) = played(), counted()
    chosen = choose(Subject.of(simulation.prepared), [one])
    expected = ["nothing-begins: measuring follows Began (entry 1)"]
    assert [judged_with(chosen, simulation, record) for _ in range(3)] == [expected] * 3
    assert judged == ["Began", "StepClosed"]


def test_the_edges_of_another_machine_are_not_taken() -> None:
    (simulation, record), (one, judged) = played(), counted()
    other = played(ReferenceLoop(Limits()))[0]
    chosen = choose(Subject.of(other.prepared), [one])
    judged_with(chosen, simulation, record)
    assert judged == ["Began", "StepClosed"]
    assert not chosen.edges


def test_a_machine_that_goes_elsewhere_than_recorded_is_found_in_each_run() -> None:
    simulation, record = played()
    chosen = choose(Subject.of(simulation.prepared))
    place = next(i for i, entry in enumerate(record) if type(entry) is Transition)
    other = list(record)
    entry = other[place]
    other[place] = Transition(entry.seq, entry.at_ns, entry.signal, "finished", entry.counters)
    assert judged_with(chosen, simulation, record) == []
    found = judged_with(chosen, simulation, other)
    assert found == [
        "machine-is-deterministic: on began the machine comes to measuring, not finished (entry 1)"
    ]
    assert judged_with(chosen, simulation, record) == []


def test_an_edge_names_what_it_reaches_and_what_it_changes() -> None:
    edges = JudgedEdges(ReferenceLoop(Limits(max_steps=1)))
    first = edges[None, signals.Began()]
    assert first.moment is first.counting
    assert Bound not in first.moment
    over = edges[first.run, signals.ContextMeasured(over=False)]
    assert Counters not in over.moment
    assert Counters in over.counting
    assert over.before is first.run
    assert edges[first.run, signals.ContextMeasured(over=False)] is over


def test_a_signal_that_the_machine_does_not_take_leaves_its_run_as_it_is() -> None:
    edges = JudgedEdges(ReferenceLoop(Limits()))
    run = edges[None, signals.Began()].run
    wrong = edges[run, signals.BackoffElapsed()]
    assert wrong.wrong.startswith("the machine does not take BackoffElapsed: ")
    assert wrong.run is run
    assert edges[None, signals.BackoffElapsed()].wrong.endswith("has not begun, or it is over")


class Unhashable(ReferenceLoop):
    """It leaves the states that are known to have a hash once it is under way."""

    def advance(self, run: Run, signal: Signal) -> tuple[Run, tuple[Effect, ...]]:
        after, asked = super().advance(run, signal)
        return OwnRun(after.state, after.error_count, after.total_steps), asked


def test_a_run_without_a_hash_is_judged_and_its_edges_are_not_kept() -> None:
    machine = Unhashable(Limits())
    with pytest.raises(TypeError):
        JudgedEdges(machine)[OwnRun(Measuring()), signals.ContextMeasured(over=False)]
    simulation, record = played(machine)
    assert not judge(Subject.of(simulation.prepared), record).violations


@invariant("A test.", "a test", sees=[signals.Began])
def fails_at_an_edge(_: Subject, edge: JudgedEdge) -> str:
    raise ValueError(edge.state)


def test_an_invariant_of_edges_that_fails_is_named() -> None:
    simulation, record = played()
    with pytest.raises(ScenarioError, match="`fails-at-an-edge` fails: ValueError: measuring"):
        judge(Subject.of(simulation.prepared), record, [counted()[0], fails_at_an_edge])
