"""The judge: it gives each entry of a run to the invariants that look at its kind.

Not here: the invariants, and the reports on violations (verify.py, fuzz). The rule to keep: only
the invariants that see the kind of an entry get it, because a judge listens to every fuzzed run.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from traceback import extract_tb
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from simloop.check.invariants.catalog import all_invariants
from simloop.check.invariants.invariant import Check, Invariant, needs_of
from simloop.check.invariants.subject import Subject
from simloop.errors import InternalError, ScenarioError, SimloopError
from simloop.trace.entries import AnyEntry, Footer
from simloop.world.user_errors import describe


class Violation(Struct, frozen=True):
    """The violation of an invariant: its text, and the entry that shows it."""

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


CheckPlace: TypeAlias = tuple[int, Check | None, bool]
"""The place of an invariant that sees an entry: its number, its function if it judges each entry by
itself, and whether it begins at the entry."""


class Places(dict[object, tuple[CheckPlace, ...]]):
    """The places of the invariants that see an entry, for each kind or moment of entries.

    The places that one run looks up are kept for the next run.
    """

    def __init__(self, judged: Sequence[Invariant], seen: Sequence[frozenset[object]]) -> None:
        super().__init__()
        self._judged = judged
        self._seen = seen

    def __missing__(self, moment: object) -> tuple[CheckPlace, ...]:
        kinds = moment if type(moment) is tuple else (moment,)
        found = self[moment] = tuple(
            (place, one.check, not one.begins.isdisjoint(kinds))
            for place, (one, seen) in enumerate(zip(self._judged, self._seen, strict=True))
            if not seen.isdisjoint(kinds)
        )
        return found


class Chosen(NamedTuple):
    """The invariants that are judged, and the reason for each other invariant.

    The choice is the same for all runs of a plan, so a search makes it once for many runs. `places`
    has, for each kind of entries, the places in `judged` of the invariants that see it.
    """

    judged: tuple[Invariant, ...]
    unjudged: Mapping[str, str]
    places: Places


def choose(subject: Subject, invariants: Sequence[Invariant] | None = None) -> Chosen:
    """Return which of `invariants`, by default all, are judged in a run of `subject`."""
    each = all_invariants() if invariants is None else invariants
    given = needs_of(subject)
    reasons = {one.name: reason for one in each if (reason := one.unjudged(subject, given))}
    judged = tuple(one for one in each if one.name not in reasons)
    return Chosen(judged, reasons, _places(judged, tuple(one.seen_in(subject) for one in judged)))


@lru_cache(maxsize=64)
def _places(judged: tuple[Invariant, ...], seen: tuple[frozenset[object], ...]) -> Places:
    return Places(judged, seen)


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
        self._course = subject.course
        self._judged = chosen.judged
        self._places = chosen.places
        # Generators begin late, because most invariants see no entry in most runs.
        self._sends: list[Callable[[Any], object] | None] = [None] * len(chosen.judged)

    def __call__(self, entry: AnyEntry) -> None:
        """Judge the next entry."""
        self._read(entry)
        course = self._course
        places = self._places[type(entry) if course is None else course.read(entry)]
        if places:
            self._send(places, entry, entry)

    def _send(self, places: Iterable[CheckPlace], what: AnyEntry | Footer, entry: AnyEntry) -> None:
        sends, subject, place = self._sends, self.subject, 0
        check: Check | None = None
        left = iter(places)
        try:
            for place, check, begins in left:
                if check is not None:
                    text = check(subject, what)
                    if text and sends[place] is None:
                        self._find(place, text, entry)
                    continue
                send = sends[place]
                if send is None:
                    if not begins:
                        continue
                    send = self._begin(place)
                send(what)
        except StopIteration as violated:
            if check is not None:
                raise _blamed(self._judged[place], violated) from violated
            self._find(place, violated.value, entry)
            self._send(left, what, entry)
        except Exception as error:
            raise _blamed(self._judged[place], error) from error

    def _begin(self, place: int) -> Callable[[Any], object]:
        """Begin to judge an invariant, unless its generator returns at once."""
        watch: Any = self._judged[place].function(self.subject)
        send = self._sends[place] = watch.send if next(watch, watch) is not watch else _ignore
        return send

    def end(self) -> None:
        """Judge the end of the conversation: no prompt and no message follows."""
        last = self.subject.facts.entry
        if last is not None:
            self._send(self._places[Footer], Footer(last.seq + 1, last.at_ns), last)

    def _find(self, place: int, text: str, entry: AnyEntry) -> None:
        """Note a violation, and send nothing more to the invariant that found it."""
        self._sends[place] = _ignore
        violation = Violation(self._judged[place], text, entry.seq, entry.at_ns)
        self.violations.append(violation)
        if self.tell is not None:
            self.tell(violation)


def _ignore(_: object) -> None:
    """Take an entry that is not judged."""


def _blamed(each: Invariant, error: Exception) -> SimloopError:
    """Return the error for an invariant that raises, with the place in its author's file."""
    if isinstance(error, SimloopError):
        return error
    function = each.function
    if function.__module__.partition(".")[0] == "simloop":
        return InternalError(f"the invariant `{each.name}` is broken: {describe(error)}")
    code = getattr(function, "__code__", None)
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
    """Judge a complete trace."""
    made = Judge(subject, invariants)
    for entry in record:
        made(entry)
    made.end()
    return made
