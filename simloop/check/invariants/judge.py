"""The judge: it gives each entry of a run to the invariants that look at its kind.

Not here: the invariants, and what a violation leads to (verify.py, fuzz). The rule to keep: an
entry costs only the invariants that look at its kind, because a judge listens to every fuzzed run.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from simloop.check.invariants.catalog import all_invariants
from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.subject import Subject
from simloop.trace.entries import AnyEntry, Footer


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


class Chosen(NamedTuple):
    """The invariants that are judged, and the reason for each that is not.

    All runs of one plan have the same ones, so a search chooses them once for many runs.
    """

    judged: tuple[Invariant, ...]
    unjudged: Mapping[str, str]


def choose(subject: Subject, invariants: Sequence[Invariant] | None = None) -> Chosen:
    """Return which of `invariants`, by default all, are judged in a run of `subject`."""
    each = all_invariants() if invariants is None else invariants
    reasons = {one.name: reason for one in each if (reason := one.unjudged(subject))}
    return Chosen(tuple(one for one in each if one.name not in reasons), reasons)


class Judge:
    """Judges one conversation, entry by entry; a listener of its recorder.

    `violations` are those found so far, one for each invariant at most; `tell` is called with each.
    `unjudged` has the reason for each invariant that is not judged.
    """

    def __init__(
        self,
        subject: Subject,
        invariants: Sequence[Invariant] | Chosen | None = None,
        tell: Callable[[Violation], None] | None = None,
    ) -> None:
        chosen = invariants if isinstance(invariants, Chosen) else choose(subject, invariants)
        self.subject = subject
        self.violations: list[Violation] = []
        self.unjudged = chosen.unjudged
        self.tell = tell
        self._read = subject.facts.read
        self._follow = None if subject.course is None else subject.course.read
        self._watches: dict[type, list[tuple[Invariant, Any]]] = {}
        for each in chosen.judged:
            self._begin(each)

    def _begin(self, each: Invariant) -> None:
        watch = each.watch(self.subject)
        if next(watch, watch) is watch:
            return  # it has nothing to judge
        for kind in each.sees:
            self._watches.setdefault(kind, []).append((each, watch.send))

    def __call__(self, entry: AnyEntry) -> None:
        """Judge the next entry."""
        self._read(entry)
        if self._follow is not None:
            self._follow(entry)
        if type(entry) in self._watches:
            self._send(entry, entry)

    def _send(self, what: AnyEntry | Footer, entry: AnyEntry) -> None:
        found: list[Invariant] = []
        for each, send in self._watches[type(what)]:
            try:
                send(what)
            except StopIteration as violated:
                found.append(self._find(each, violated.value, entry))
        for each in found:
            self._drop(each)

    def end(self) -> None:
        """Judge that the conversation is over: no prompt and no message follows."""
        record = self.subject.facts.entry
        if record is not None and Footer in self._watches:
            self._send(Footer(record.seq + 1, record.at_ns), record)

    def _find(self, violated: Invariant, text: str, entry: AnyEntry) -> Invariant:
        violation = Violation(violated, text, entry.seq, entry.at_ns)
        self.violations.append(violation)
        if self.tell is not None:
            self.tell(violation)
        return violated

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
    made.end()
    return made
