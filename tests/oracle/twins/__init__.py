"""The twins of the loop designs: each decides once more what its machine decides.

A twin is written from docs/loops.md, from the docstrings of the options and from the documents, as
tables and plain conditions. It judges each move of a machine that is exactly of its class; a
subclass may decide otherwise. The state before a move is the machine's own: the move that led
there has been judged before.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from oracle.policies import misjudges
from oracle.twins.moves import NOT_BEGUN, Twin, told
from oracle.twins.opencode import OpencodeTwin
from oracle.twins.pi import PiTwin
from oracle.twins.react import ReactTwin
from oracle.twins.reference import ReferenceTwin
from simloop.check.invariants.invariant import Need, Watch, invariant
from simloop.check.invariants.subject import Subject
from simloop.kernel import signals
from simloop.kernel.limits import Limits
from simloop.kernel.names import describe
from simloop.loops.opencode import OpencodeLoop
from simloop.loops.pi import PiLoop
from simloop.loops.react import ReactLoop
from simloop.loops.reference import ReferenceLoop
from simloop.trace.entries import Transition

_TWINS: dict[type, type[Twin]] = {
    ReferenceLoop: ReferenceTwin,
    PiLoop: PiTwin,
    ReactLoop: ReactTwin,
    OpencodeLoop: OpencodeTwin,
}


def twin_of(subject: Subject) -> Twin | None:
    """Return the twin of a bundled design for its options and the limits of the run."""
    machine: Any = subject.machine
    made: Any = _TWINS.get(type(machine))
    return None if made is None else _twin(made, machine.options, subject.course.settings.limits)


@lru_cache(maxsize=64)
def _twin(made: Callable[[Any, Limits], Twin], options: Any, limits: Limits) -> Twin:
    return made(options, limits)


@invariant(
    "A bundled design decides about each signal what its documentation says: effects, next state, "
    "counters and end.",
    "loops.md",
    sees=[Transition],
    needs=[Need.MACHINE],
)
def design_decides_like_its_twin(subject: Subject) -> Watch:
    """Its options, its limits, the reply and its counters decide, and nothing else."""
    twin, course = twin_of(subject), subject.course
    if twin is None:
        return ""
    known = twin.known
    while True:
        yield
        if course.noted:
            continue
        before, signal, made = course.before, course.signal, (course.run, course.asked)
        right = known.get((before, signal)) or twin.moved(before, signal)
        if right == made:
            continue
        if type(signal) is signals.Began and before != NOT_BEGUN:
            return f"a run begins in {before}"
        if right is not None:
            asks = f"on {describe(signal)} the machine asks for {told(*made)}"
            return f"{asks}; its twin says {told(*right)}"
        if made != (before, ()):  # else the signal is wrong, and the machine refuses it
            return f"the machine takes {describe(signal)} in {describe(before.state)}"


@invariant(
    "A bundled design declares the policies, the bounds and the deviations that its options and "
    "limits say.",
    "loops.md",
    sees=[signals.Began],
)
def design_has_its_policies(subject: Subject, _: object) -> str:
    """They are those of the machine: a scenario may replace its policies."""
    twin = twin_of(subject)
    machine: Any = subject.machine
    if twin is None or subject.shared.get(design_has_its_policies):
        return ""
    subject.shared[design_has_its_policies] = True  # it is the same in all runs
    return twin.declared.differs(machine) or misjudges(machine.policies.retry)
