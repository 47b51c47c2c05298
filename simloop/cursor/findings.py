"""The findings on a recorded run: the expectations that it does not meet, and its violations.

Every interface takes its verdict on a run from here, so that a run which `simloop check` refuses is
shown as good by none.
"""

from typing import NamedTuple

from simloop.check.invariants.judge import Violation
from simloop.errors import CheckFailed, SimloopError
from simloop.messages import Outcome
from simloop.runs.expectations import Mismatch
from simloop.trace.looptrace import LoopTrace


class Finding(NamedTuple):
    """Something that is wrong in a run.

    `name` is for a heading, and `subject` and `detail` make a sentence. `seq` is the first entry
    that shows the finding, or None if only the end of the run shows it.
    """

    name: str
    subject: str
    detail: str
    seq: int | None = None

    @property
    def brief(self) -> str:
        """Return the name with the entry, if there is one."""
        return self.name if self.seq is None else f"{self.name} at entry {self.seq}"

    def sentence(self, place: int) -> str:
        """Return the finding as a sentence for a reader who looks at the entry `place`."""
        at = "" if self.seq is None else " here" if self.seq == place else f" at entry {self.seq}"
        return f"{self.subject}{at}: {self.detail}"

    @classmethod
    def of_mismatch(cls, found: Mismatch) -> "Finding":
        """Return the finding for an expectation that does not hold."""
        subject, _, detail = str(found).partition(": ")
        return cls(f"{subject} does not hold", subject, detail, found.seq)

    @classmethod
    def of_violation(cls, found: Violation) -> "Finding":
        """Return the finding for an invariant that is violated."""
        subject = f"The run violates `{found.name}`"
        return cls(f"violates {found.name}", subject, f"{found.text}.", found.seq)

    @classmethod
    def of_error(cls, error: SimloopError) -> "Finding":
        """Return the finding for an error that the run raised."""
        name = type(error).__name__
        return cls(name, name, error.finding if isinstance(error, CheckFailed) else str(error))


class RunEnding(NamedTuple):
    """How a run ended: its outcomes in words, what is wrong with it, and whether all is well."""

    words: str
    wrong: str
    is_good: bool


def ending(trace: LoopTrace, findings: tuple[Finding, ...], *, as_expected: bool) -> RunEnding:
    """Return the ending of a run. `as_expected` says that its scenario states how it ends."""
    outcomes = trace.outcomes
    words = ", ".join(map(str, outcomes)) if outcomes else "did not end"
    wrong = findings[0].brief if findings else ""
    if len(findings) > 1:
        wrong = f"{wrong}, and {len(findings) - 1} more"
    well = as_expected or set(outcomes) == {Outcome.COMPLETED}
    return RunEnding(words, wrong, well and not findings)
