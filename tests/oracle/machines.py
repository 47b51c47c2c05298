"""Invariants on loop machines that exploration proves of every machine: counters and limits.

`simloop explore` shows them of a machine of the user's own, for each run that it can have. Here
they judge the recorded runs too, so that a fault of the engine is found.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from simloop.check.invariants.invariant import Watch, invariant
from simloop.check.invariants.machines import counts_errors
from simloop.check.invariants.subject import Subject
from simloop.kernel import effects, signals
from simloop.kernel.machine import Bound
from simloop.kernel.names import NAMES
from simloop.kernel.states import Finished
from simloop.messages import Counters
from simloop.prove.rules import past_a_bound
from simloop.trace.entries import Transition

_ZERO = Counters(0, 0, 0)


@invariant("Each run begins with all counters at zero.", "BUGS.md E6, E9", sees=[signals.Began])
def counters_zero_at_run_start(subject: Subject, entry: Any) -> str:
    """Each prompt of a conversation has its full limits."""
    if entry.counters != _ZERO or _counts(subject.course.before) != (0, 0, 0):
        return f"a run begins with {entry.counters}"
    return ""


_counts = attrgetter("error_count", "total_steps", "compaction_attempts")


@invariant(
    "A counter that bounds a run never decreases, and increases by one or by the steps of a reply.",
    "BUGS.md E1, B17, C1",
    sees=[Transition],
)
def counters_never_decrease(subject: Subject, _: Any) -> str:
    """A counter that is declared to reset may decrease."""
    course = subject.course
    if course.noted:
        return ""
    before, run, signal = course.before, course.run, course.signal
    for bound in course.declared:
        counter = bound.counter
        old, new = getattr(before, counter), getattr(run, counter)
        most = signal.steps if type(signal) is signals.ModelReplied else 1
        if (new < old and not bound.resets) or new - old > most:
            return f"on {NAMES[type(signal)]} {counter} goes from {old} to {new}"
    return ""


@invariant(
    "Each failure before a retry, each step and each compaction increases its counter by one.",
    "BUGS.md A11, A12, B17",
    sees=[Transition],
)
def every_attempt_counted(subject: Subject) -> Watch:
    """The waits before retries show the failures; the trace counts the steps and compactions."""
    course = subject.course
    bounds: Mapping[str, Bound] = course.machine.bounds
    errors = counts_errors(course.machine)
    names = [name for limit, name in _COUNTED.items() if limit in bounds]
    values = attrgetter(*names) if names else lambda _: ()
    of_turns = next((bound for bound in bounds.values() if bound.of_turns), None)
    while True:
        entry = yield
        before, run = course.before, course.run
        if course.noted:
            continue
        if errors:
            cost = run.error_count - before.error_count
            if type(course.effect) is effects.Backoff:
                if cost != 1:
                    return f"a retry increases the errors by {cost}"
            elif cost > 0 and type(run.state) is not Finished:
                return f"{NAMES[type(entry.signal)]} increases the errors, and no retry follows"
        counters = entry.counters
        if of_turns is not None:
            steps, turn = run.total_steps - before.total_steps, type(entry.signal) in _TURNS
            if steps != turn and before.total_steps < of_turns.at:
                return f"{NAMES[type(entry.signal)]} increases the steps by {steps}"
        elif values(run) != values(counters):
            if "max_steps" in bounds and run.total_steps != counters.total_steps:
                steps = run.total_steps
                return f"the machine counts {steps} steps, the replies {counters.total_steps}"
            tried = counters.compaction_attempts
            return f"the machine counts {run.compaction_attempts} compactions of {tried}"


_TURNS = (signals.ModelReplied, signals.ContextCompacted)
_COUNTED = {"max_steps": "total_steps", "max_compaction_attempts": "compaction_attempts"}


@invariant(
    "After a limit is reached, a run requests nothing that the limit forbids.",
    "BUGS.md E1, A5, A13",
    sees=[Transition],
)
def limits_enforced(subject: Subject, _: Any) -> str:
    """The limit is exact: no attempt beyond it is made."""
    course = subject.course
    if course.noted:
        return ""
    return next(past_a_bound(course.run, course.asked, course.machine.bounds), "")


@invariant(
    "A reply that reports more steps than max_steps_per_round ends its run.",
    "BUGS.md E3",
    sees=[signals.StepClosed],
)
def max_steps_per_round_enforced(subject: Subject, _: Any) -> str:
    """The steps of the last reply count, not the sum of all steps."""
    course = subject.course
    most = course.settings.limits.max_steps_per_round
    reply = subject.facts.reply
    if reply is not None and reply.steps > most and type(course.run.state) is not Finished:
        return f"the run goes on after a reply of {reply.steps} steps; a round may have {most}"
    return ""


@invariant(
    "The machine reaches the recorded states when it receives the recorded signals again.",
    "loops.md",
    sees=[Transition],
)
def machine_is_deterministic(subject: Subject, entry: Any) -> str:
    """A machine with state outside its run, or an engine that changes a signal, violates it."""
    course = subject.course
    reached = NAMES[type(course.run.state)]
    if course.wrong or course.noted or reached == entry.state:
        return course.wrong
    return f"on {NAMES[type(entry.signal)]} the machine comes to {reached}, not {entry.state}"
