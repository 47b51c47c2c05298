"""The witnesses as the invariants judge them, without a search.

    python tests/loopbench/judged.py [NAME...]

prints for each fault the invariants that its witness violates, and then the faults that none of
them reports: there the rule is missing, however many worlds a search visits. A violation on a
correct loop is a false alarm.
"""

import sys

from every import FAULTS
from fault import Fault, applied, play

from simloop import Simulation
from simloop.check.invariants.judge import judge
from simloop.check.invariants.subject import Subject


def violated(fault: Fault, *, faulty: bool) -> list[str]:
    """The invariants that the witness violates, each with what it says."""
    if not faulty:
        return _judged(play(fault, fault.right)[0])
    with applied(fault):
        return _judged(play(fault, fault.wrong)[0])


def _judged(simulation: Simulation) -> list[str]:
    found = judge(Subject.of(simulation.prepared), simulation.trace.entries).violations
    return [str(violation) for violation in found]


def main(names: list[str]) -> None:
    missed = []
    for fault in FAULTS:
        if names and fault.name not in names:
            continue
        for alarm in violated(fault, faulty=False):
            print(f"FALSE ALARM {fault.name}: {alarm}")
        found = violated(fault, faulty=True)
        print(f"{fault.name}: {'; '.join(found) or '-'}")
        if not found:
            missed.append(fault)
    print(f"\n{len(missed)} of {len(FAULTS)} missed")
    for fault in missed:
        print(f"{fault.name} ({fault.loop}): {fault.says}")


if __name__ == "__main__":
    main(sys.argv[1:])
