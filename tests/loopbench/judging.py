"""Whether the witness and the rules tell a faulty loop from the correct one.

    python tests/loopbench/judging.py

judges the agents on SDKs whose packages are here, and prints the problems of each of their faults.
"""

import json

from every import FAULTS
from fault import Fault, applied, play

from simloop.check.invariants.judge import Judge
from simloop.check.invariants.subject import Subject
from simloop.check.trial import Rules, failure_of
from simloop.runs.plan import Plan


def problems(fault: Fault) -> list[str]:
    """Say what the witness, or a rule that the fault violates, does not tell."""
    found = []
    unmet, broken = _judged(fault, fault.right)
    if unmet or broken:
        found.append(f"the correct loop: {unmet} {broken}")
    with applied(fault):
        if not play(fault, fault.right)[1]:
            found.append("the faulty loop meets the expectations of the correct one")
        unmet, broken = _judged(fault, fault.wrong)
    if unmet or not set(fault.violates) <= broken:
        found.append(f"the faulty loop: {unmet} {broken}")
    return found


def _judged(fault: Fault, expected: str) -> tuple[tuple[str, ...], set[str]]:
    """Return what a run of the witness fails of what is expected, and the invariants it breaks."""
    simulation, failed = play(fault, expected)
    found = Judge(Subject.of(simulation)).read(simulation.trace.entries).violations
    broken = {violation.name for violation in found}
    if expected == fault.wrong and not set(fault.violates) <= broken:
        plan = Plan(fault.scenario("{}"), {"loop": fault.given_loop()})
        error = failure_of(plan, Rules(expectations=False))
        if error is not None and not error.name.startswith("Script"):  # the witness is short
            broken.add(error.name)
    return failed, broken


if __name__ == "__main__":
    here = [fault for fault in FAULTS if fault.part == "sdk" and fault.runs_here]
    print(json.dumps({fault.name: problems(fault) for fault in here}))
