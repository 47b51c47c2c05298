"""The judge: it gives each entry of a run to the invariants that look at its kind.

Not here: the invariants, and what a violation leads to (verify.py, fuzz). The rule to keep: an
entry costs only the invariants that look at its kind, because a judge listens to every fuzzed run.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from traceback import extract_tb
from typing import Any, NamedTuple

from msgspec import Struct

from simloop.check.invariants.catalog import all_invariants
from simloop.check.invariants.invariant import Invariant
from simloop.check.invariants.subject import Subject
from simloop.errors import InternalError, ScenarioError, SimloopError
from simloop.trace.entries import AnyEntry, Footer
from simloop.world.user_errors import describe


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

    All runs of one plan have the same ones, so a search chooses them once for many runs. `places`
    has, for each kind of entries, the places in `judged` of the invariants that see it.
    """

    judged: tuple[Invariant, ...]
    unjudged: Mapping[str, str]
    places: Mapping[type, tuple[int, ...]]


def choose(subject: Subject, invariants: Sequence[Invariant] | None = None) -> Chosen:
    """Return which of `invariants`, by default all, are judged in a run of `subject`."""
    each = all_invariants() if invariants is None else invariants
    reasons = {one.name: reason for one in each if (reason := one.unjudged(subject))}
    judged = tuple(one for one in each if one.name not in reasons)
    kinds = dict.fromkeys(kind for one in judged for kind in one.sees)
    places = {
        kind: tuple(place for place, one in enumerate(judged) if kind in one.sees) for kind in kinds
    }
    return Chosen(judged, reasons, places)


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
        self._judged = chosen.judged
        # Each invariant, and nothing in the place of one that has nothing to judge.
        self._sends = [_begun(each, subject) for each in chosen.judged]
        sends = self._sends
        self._watches: dict[type, list[Any]] = {
            kind: [send for place in places if (send := sends[place]) is not None]
            for kind, places in chosen.places.items()
        }

    def __call__(self, entry: AnyEntry) -> None:
        """Judge the next entry."""
        self._read(entry)
        if self._follow is not None:
            self._follow(entry)
        sends = self._watches.get(type(entry))
        if sends is not None:
            self._send(sends, entry, entry)

    def _send(self, sends: Sequence[Any], what: AnyEntry | Footer, entry: AnyEntry) -> None:
        send: Any = None
        try:
            for send in sends:
                send(what)
        except StopIteration as violated:
            left = sends[sends.index(send) + 1 :]
            self._find(send, violated.value, entry)
            self._send(left, what, entry)
        except Exception as error:
            raise _blamed(self._judged[self._sends.index(send)], error) from error

    def end(self) -> None:
        """Judge that the conversation is over: no prompt and no message follows."""
        last = self.subject.facts.entry
        if last is not None and Footer in self._watches:
            self._send(self._watches[Footer], Footer(last.seq + 1, last.at_ns), last)

    def _find(self, send: Any, text: str, entry: AnyEntry) -> None:
        """Note a violation, and send nothing more to the invariant that found it."""
        invariant = self._judged[self._sends.index(send)]
        for kind in invariant.sees:
            self._watches[kind] = [each for each in self._watches[kind] if each != send]
        violation = Violation(invariant, text, entry.seq, entry.at_ns)
        self.violations.append(violation)
        if self.tell is not None:
            self.tell(violation)


def _begun(each: Invariant, subject: Subject) -> Any:
    """Return the function that sends entries to an invariant; None if it has nothing to judge."""
    try:
        watch: Any = each.watch(subject)
        return None if next(watch, watch) is watch else watch.send
    except Exception as error:
        raise _blamed(each, error) from error


def _blamed(each: Invariant, error: Exception) -> SimloopError:
    """Return the error of an invariant that failed: of its author, with the place in their file."""
    if isinstance(error, SimloopError):
        return error
    if each.watch.__module__.partition(".")[0] == "simloop":
        return InternalError(f"the invariant `{each.name}` is broken: {describe(error)}")
    code = getattr(each.watch, "__code__", None)
    frames = [frame for frame in extract_tb(error.__traceback__) if frame.filename != __file__]
    line = frames[-1].lineno if frames else getattr(code, "co_firstlineno", None)
    place = frames[-1].filename if frames else getattr(code, "co_filename", None)
    return ScenarioError(
        f"the invariant `{each.name}` fails: {describe(error)}",
        path=place,
        line=line,
        hint="an invariant is a generator function that returns the text of the first violation",
    )


def judge(
    subject: Subject, record: Iterable[AnyEntry], invariants: Sequence[Invariant] | None = None
) -> Judge:
    """Judge a trace that is there as a whole."""
    made = Judge(subject, invariants)
    for entry in record:
        made(entry)
    made.end()
    return made
