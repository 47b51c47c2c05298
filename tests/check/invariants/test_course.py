"""The course of a machine: it makes the recorded transitions again, and finds those it does not."""

from typing import Any

from simloop import Limits, Reply, Scenario, Simulation
from simloop.check.invariants.judge import Judge
from simloop.check.invariants.subject import Course, Subject
from simloop.kernel import signals
from simloop.kernel.effects import CallModel, Effect
from simloop.kernel.machine import Bound, Run
from simloop.kernel.signals import Signal
from simloop.kernel.states import CallingModel, Measuring
from simloop.loops.reference import ReferenceLoop
from simloop.messages import Counters
from simloop.trace.entries import Transition

NONE = Counters(0, 0, 0)


class OwnRun(Run, frozen=True):
    """A run of a machine of one's own, with a further counter."""

    used: int = 0


class Own(ReferenceLoop):
    """It bounds a run by a counter that only its own runs have."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self.bounds = {**self.bounds, "max_used": Bound("used", 5)}

    def start(self) -> Run:
        return OwnRun(super().start().state)

    def advance(self, run: Run, signal: Signal) -> tuple[Run, tuple[Effect, ...]]:
        after, asked = super().advance(run, signal)
        return OwnRun(after.state, after.error_count, after.total_steps), asked


def played(machine: Any = None) -> tuple[Subject, list[Any]]:
    scenario = Scenario(prompt="Go.", model=[Reply(say="Done.")])
    simulation = Simulation(scenario, loop=machine or "reference")
    simulation.run()
    return Subject.of(simulation), list(simulation.trace.entries)


def moved(course: Course, *sent: Signal) -> list[object]:
    return [
        course.read(Transition(number, 0, signal, "measuring", NONE))
        for number, signal in enumerate(sent)
    ]


def test_a_machine_that_goes_elsewhere_than_recorded_is_found() -> None:
    subject, record = played()
    place = next(i for i, entry in enumerate(record) if type(entry) is Transition)
    entry = record[place]
    record[place] = Transition(entry.seq, entry.at_ns, entry.signal, "finished", entry.counters)
    assert [str(each) for each in Judge(subject).read(record).violations] == [
        "machine-is-deterministic: on began the machine comes to measuring, not finished (entry 1)"
    ]


def test_a_transition_names_its_signal_and_what_it_reaches() -> None:
    course = played()[0].course
    _, second = moved(course, signals.Began(), signals.ContextMeasured(over=False))
    assert second == (Transition, signals.ContextMeasured, CallModel, CallingModel)
    assert type(course.before.state) is Measuring
    assert type(course.run.state) is CallingModel


def test_a_signal_that_the_machine_does_not_take_leaves_its_run_as_it_is() -> None:
    course = played()[0].course
    moved(course, signals.Began(), signals.BackoffElapsed())
    assert course.wrong.startswith("the machine does not take BackoffElapsed: ")
    assert course.run is course.before
    assert type(course.run.state) is Measuring
    assert course.asked == ()


def test_a_signal_before_the_first_one_leaves_the_run_where_its_machine_starts() -> None:
    course = played(Own(Limits()))[0].course
    moved(course, signals.BackoffElapsed())
    assert course.wrong.startswith("the machine does not take BackoffElapsed: ")
    assert course.run == OwnRun(ReferenceLoop(Limits()).start().state)


def test_a_machine_whose_runs_have_a_further_counter_is_judged() -> None:
    subject, record = played(Own(Limits()))
    assert not Judge(subject).read(record).violations
