"""The judge: it gives each entry of a run to the invariants that look at its kind.

Not here: the invariants, and what a violation leads to (verify.py, fuzz). The rule to keep: an
entry costs only the invariants that look at its kind, because a judge listens to every fuzzed run.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from simloop.check.invariants.catalog import all_invariants
from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.subject import Subject
from simloop.trace.entries import AnyEntry


class Violation(Struct, frozen=True):
    """The violation of an invariant: which, why, and the entry at which it was found."""

    invariant: Invariant
    text: str
    seq: int
    at_ns: int

    @property
    def name(self) -> str:
        """Return the name of the invariant."""
        return self.invariant.name

    def __str__(self) -> str:
        return f"{self.name}: {self.text} (entry {self.seq})"


class Judge:
    """Judges one conversation, entry by entry; a listener of its recorder.

    `violations` are those found so far, one for each invariant at most. `unjudged` has the reason
    for each invariant that is not judged.
    """

    def __init__(self, subject: Subject, invariants: Sequence[Invariant] | None = None) -> None:
        self.subject = subject
        self.violations: list[Violation] = []
        self.unjudged: dict[str, str] = {}
        self._read = subject.facts.read
        self._watches: dict[type, list[tuple[Invariant, Any]]] = {}
        for each in all_invariants() if invariants is None else invariants:
            reason = each.unjudged(subject)
            if reason:
                self.unjudged[each.name] = reason
            else:
                self._begin(each)

    def _begin(self, each: Invariant) -> None:
        watch = each.watch(self.subject)
        next(watch)
        for kind in each.sees:
            self._watches.setdefault(kind, []).append((each, watch.send))

    def __call__(self, entry: AnyEntry) -> None:
        """Judge the next entry."""
        self._read(entry)
        watches = self._watches.get(type(entry))
        if watches is None:
            return
        found: list[Invariant] = []
        for each, send in watches:
            try:
                send(entry)
            except StopIteration as violated:
                self.violations.append(Violation(each, violated.value, entry.seq, entry.at_ns))
                found.append(each)
        for each in found:
            self._drop(each)

    def _drop(self, found: Invariant) -> None:
        """Send nothing more to an invariant that is violated."""
        for kind in found.sees:
            self._watches[kind] = [watch for watch in self._watches[kind] if watch[0] is not found]


def judge(
    subject: Subject, record: Iterable[AnyEntry], invariants: Sequence[Invariant] | None = None
) -> Judge:
    """Judge a trace that is there as a whole."""
    made = Judge(subject, invariants)
    for entry in record:
        made(entry)
    return made
