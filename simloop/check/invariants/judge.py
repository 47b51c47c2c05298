"""The judge gives each entry of a run to the invariants that look at its kind."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from traceback import extract_tb
from typing import Any, NamedTuple, Self

from msgspec import Struct

from simloop.check.invariants import agents, decisions, machines, pauses, told, tools, user
from simloop.check.invariants import outside as outside_world
from simloop.check.invariants import requests as sent_requests
from simloop.check.invariants.invariant import Check, Invariant, Need
from simloop.check.invariants.subject import Subject
from simloop.errors import InternalError, ScenarioError, SimloopError
from simloop.runs.loop import loaded
from simloop.trace.entries import AnyEntry, Footer
from simloop.world.user_functions import describe

_MODULES = (sent_requests, agents, tools, outside_world, told, user, pauses, decisions, machines)
_added: dict[str, tuple[Invariant, ...]] = {}
_WRITTEN = (
    "write module:name for a function with the decorator `simloop.invariant`; the module is looked "
    "up in the current folder and among the installed packages"
)


@cache
def all_invariants() -> tuple[Invariant, ...]:
    """Return the catalogue."""
    own = (each for module in _MODULES for each in in_module(module))
    return tuple(dict.fromkeys((*own, *(each for given in _added.values() for each in given))))


def in_module(module: object) -> tuple[Invariant, ...]:
    """Return the invariants of a module, in the order of their definitions."""
    given = getattr(module, "__dict__", {})
    return tuple(value for value in given.values() if isinstance(value, Invariant))


def add_invariants(*names: str) -> Callable[[], None]:
    """Judge the invariants that each `module` or `module:name` names in every run from now on.

    They come after those of simloop. The function that is returned takes them away again. Raises
    ScenarioError for a name that names none.
    """
    new = {name: _named(name) for name in names if name not in _added}
    _added.update(new)
    all_invariants.cache_clear()

    def take_away() -> None:
        for name in new:
            _added.pop(name, None)
        all_invariants.cache_clear()

    return take_away


def added_names() -> tuple[str, ...]:
    """Return the names that were added, for a process that is to judge alike."""
    return tuple(_added)


def _named(name: str) -> tuple[Invariant, ...]:
    found = loaded(name, "invariant", _WRITTEN, "--invariants")
    if own := (found,) if isinstance(found, Invariant) else in_module(found):
        return own
    raise ScenarioError(f"`{name}` is no invariant", key="--invariants", hint=_WRITTEN)


class Violation(Struct, frozen=True):
    """The violation of an invariant: its text, and the entry that shows it."""

    invariant: Invariant
    text: str
    seq: int
    at_ns: int

    @property
    def name(self) -> str:
        return self.invariant.name

    def __str__(self) -> str:
        return f"{self.name}: {self.text} (entry {self.seq})"


class Seen(NamedTuple):
    """The invariants that see an entry, each by its place among those that are judged."""

    checks: tuple[tuple[int, Check], ...]  # they judge each entry by itself
    watches: tuple[tuple[int, bool], ...]  # whether they begin at the entry


class Places(dict[object, Seen | None]):
    """The invariants that see an entry, by its kind or moment; what a run looks up is kept."""

    def __init__(self, judged: Sequence[Invariant]) -> None:
        super().__init__()
        self._judged = judged

    def __missing__(self, moment: object) -> Seen | None:
        kinds = moment if type(moment) is tuple else (moment,)
        see = [at for at in enumerate(self._judged) if not at[1].sees.isdisjoint(kinds)]
        checks = tuple((place, one.check) for place, one in see if one.check is not None)
        watches = tuple((at, not one.begins.isdisjoint(kinds)) for at, one in see if one.watch)
        found = self[moment] = Seen(checks, watches) if see else None
        return found


class Chosen(NamedTuple):
    """The invariants that are judged in all runs of a plan, and why each other one is not."""

    judged: tuple[Invariant, ...]
    unjudged: Mapping[str, str]
    places: Places


def choose(subject: Subject, invariants: Sequence[Invariant] | None = None) -> Chosen:
    """Return which of `invariants`, by default all, are judged in a run of `subject`."""
    each = all_invariants() if invariants is None else invariants
    given = {need for need in Need if getattr(subject, need.value, None) is not None}
    given |= {Need.AGENT} if subject.machine is None else set()
    reasons = {one.name: reason for one in each if (reason := one.unjudged(subject, given))}
    judged = tuple(one for one in each if one.name not in reasons)
    return Chosen(judged, reasons, _places(judged))


_places = lru_cache(maxsize=64)(Places)


class Judge:
    """Judges one conversation, entry by entry; a listener of its recorder."""

    def __init__(
        self, subject: Subject, invariants: Sequence[Invariant] | Chosen | None = None
    ) -> None:
        chosen = invariants if isinstance(invariants, Chosen) else choose(subject, invariants)
        self.subject = subject
        self.violations: list[Violation] = []  # one for each invariant at most
        self.unjudged = chosen.unjudged  # with the reasons
        self.tell: Callable[[Violation], None] | None = None  # called with each violation
        self._judged = chosen.judged
        self._places = chosen.places
        # Generators begin late, because most invariants see no entry in most runs.
        self._sends: list[Callable[[Any], object] | None] = [None] * len(chosen.judged)

    def __call__(self, entry: Any) -> None:
        """Judge the next entry. A Footer is the end of the conversation, and no fact."""
        # All in one function: a call for each entry would cost as much as an invariant.
        subject, sends, kind, place = self.subject, self._sends, type(entry), 0
        if (seen := self._places[kind if kind is Footer else subject.read(entry)]) is None:
            return
        found: list[tuple[int, str]] | None = None
        try:
            for place, check in seen[0]:
                if (text := check(subject, entry)) and sends[place] is None:
                    found = [*(found or ()), (place, text)]
            for place, begins in seen[1]:
                if (send := sends[place]) is None:
                    if not begins:
                        continue
                    send = self._begin(place)
                try:
                    send(entry)
                except StopIteration as violated:
                    found = [*(found or ()), (place, violated.value)]
        except Exception as error:
            raise _blamed(self._judged[place], error) from error
        finally:
            if found is not None:
                self._find(found)

    def _begin(self, place: int) -> Callable[[Any], object]:
        watch: Any = self._judged[place].watch(self.subject)  # type: ignore[misc]
        send = self._sends[place] = watch.send if next(watch, watch) is not watch else _ignore
        return send

    def read(self, record: Iterable[AnyEntry], *, ended: bool = True) -> Self:
        """Judge entries, and the end of the conversation: no prompt and no message follows."""
        for entry in record:
            self(entry)
        last = self.subject.facts.entry
        if ended and last is not None:
            self(Footer(last.seq + 1, last.at_ns))
        return self

    def _find(self, found: list[tuple[int, str]]) -> None:
        """Note violations, by place and text; their invariants are sent nothing more."""
        entry = self.subject.facts.entry
        assert entry is not None
        for place, text in sorted(found):
            self._sends[place] = _ignore
            violation = Violation(self._judged[place], text, entry.seq, entry.at_ns)
            self.violations.append(violation)
            if self.tell is not None:
                self.tell(violation)


def _ignore(_: object) -> None:
    """Take an entry that is not judged."""


def _blamed(each: Invariant, error: Exception) -> SimloopError:
    if isinstance(error, SimloopError):
        return error
    function: Any = each.watch or each.check
    if function.__module__.partition(".")[0] == "simloop":
        return InternalError(f"the invariant `{each.name}` is broken: {describe(error)}")
    lines = [(each.filename, each.lineno) for each in extract_tb(error.__traceback__)]
    code = function.__code__
    own = [(code.co_filename, code.co_firstlineno), *(at for at in lines if at[0] != __file__)]
    path, line = own[-1]
    return ScenarioError(
        f"the invariant `{each.name}` fails: {describe(error)}", path=path, line=line,
        hint="an invariant is a generator function that returns the text of the first violation",
    )  # fmt: skip
