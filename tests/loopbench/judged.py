"""The witnesses as the invariants judge them, without a search.

    python tests/loopbench/judged.py [NAME...]

prints for each fault the invariants that its witness violates, and then the faults that none of
them reports: there the rule is missing, however many worlds a search visits. A violation on a
correct loop is a false alarm.
"""

import sys

from every import FAULTS
from fault import Fault, applied, play

from simloop.check.invariants.judge import judge
from simloop.check.invariants.subject import Subject
from simloop.check.trial import Rules, failure_of
from simloop.runs.plan import Plan


def violated(fault: Fault, *, faulty: bool) -> dict[str, str]:
    """The invariants that the witness violates, by name, each with the violation."""
    if not faulty:
        return _judged(fault, fault.right)
    with applied(fault):
        return _judged(fault, fault.wrong)


def _judged(fault: Fault, expected: str) -> dict[str, str]:
    simulation = play(fault, expected)[0]
    found = judge(Subject.of(simulation), simulation.trace.entries).violations
    broken = {violation.name: str(violation) for violation in found}
    if not broken:
        plan = Plan(fault.scenario("{}"), {"loop": fault.given_loop()})
        error = failure_of(plan, Rules(expectations=False))
        if error is not None and not error.name.startswith("Script"):  # the witness is short
            broken[error.name] = f"{error.name}: {error.text}"
    return broken


def main(names: list[str]) -> None:
    missed = []
    for fault in FAULTS:
        if names and fault.name not in names:
            continue
        for alarm in violated(fault, faulty=False).values():
            print(f"FALSE ALARM {fault.name}: {alarm}")
        found = violated(fault, faulty=True).values()
        print(f"{fault.name}: {'; '.join(found) or '-'}")
        if not found:
            missed.append(fault)
    print(f"\n{len(missed)} of {len(FAULTS)} missed")
    for fault in missed:
        print(f"{fault.name} ({fault.loop}): {fault.says}")


if __name__ == "__main__":
    main(sys.argv[1:])
