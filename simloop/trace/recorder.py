"""The recorder of one conversation: it numbers, dates and keeps the entries of a trace.

Recording is on the path of every part, so nothing is encoded or copied here. A listener sets a flag
or schedules a callback, and never acts on the component that records.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from simloop.errors import SimloopError
from simloop.trace.entries import AnyEntry
from simloop.virtual.progress import runaway

MAX_TRACE_CHARS = 200_000_000
# A stream that never ends and never waits passes no bound on time: this bound stops it.
MAX_ENTRIES = 1_000_000
_BETWEEN = 4_000

E = TypeVar("E", bound=SimloopError)
Listener = Callable[[AnyEntry], None]


class Clock(Protocol):
    """A source of virtual time."""

    @property
    def now_ns(self) -> int: ...


class Since:
    """The time since now, for a conversation that begins in the middle of a simulation."""

    __slots__ = ("_clock", "_start_ns")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start_ns = clock.now_ns

    @property
    def now_ns(self) -> int:
        return self._clock.now_ns - self._start_ns


class Recorder:
    """The entries so far; `append` adds one without text, `count` comes before one with text."""

    __slots__ = (
        "_grown", "_listeners", "append", "chars", "clock", "entries", "error", "is_heard",
        "look_at", "max_chars",
    )  # fmt: skip

    def __init__(
        self, entries: list[AnyEntry], clock: Clock, max_chars: int = MAX_TRACE_CHARS
    ) -> None:
        self.entries = entries
        self.append: Callable[[AnyEntry], None] = entries.append  # until `is_heard`
        self.chars = 0  # of the texts in the entries
        self.is_heard = False
        self.error: SimloopError | None = None  # the first one of simloop at the boundary
        self.max_chars = max_chars
        self.look_at = min(_BETWEEN, MAX_ENTRIES)  # past so many entries, call `look`
        self._grown = 0
        # Most conversations begin with their clock: then no call is needed to read it.
        self.clock = Since(clock) if clock.now_ns else clock
        self._listeners: list[Listener] = []

    def has_grown(self) -> bool:
        before, self._grown = self._grown, len(self.entries)
        return before != self._grown

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)
        self.is_heard = True
        self.append = _notifying(self.entries, self._listeners)

    def close(self) -> None:
        """Forget the listeners, whose cycle would leave the run to the garbage collector."""
        self._listeners.clear()
        self.is_heard = False
        self.append = self.entries.append

    def count(self, chars: int) -> None:
        """Count characters before their entry is appended. Raises RunawayRun past a bound."""
        self.chars = total = self.chars + chars
        if total > self.max_chars:
            self.look()

    def look(self) -> None:
        """Raise RunawayRun if the trace has passed a bound."""
        length = len(self.entries)
        if self.chars > self.max_chars:
            passed = f"the trace passed max_trace_chars={self.max_chars} characters of text"
            hint = "shorten the texts, or raise max_trace_chars in the scenario"
            raise self.keep(runaway(f"{passed} without an outcome", hint))
        if length > MAX_ENTRIES:
            raise self.keep(runaway(f"the trace passed {MAX_ENTRIES} entries without an outcome"))
        self.look_at = min(length + _BETWEEN, MAX_ENTRIES)

    def keep(self, error: E) -> E:
        """Keep the first error of simloop that an agent gets, as it may swallow it; return it."""
        self.error = self.error or error
        return error

    def put(self, entry: AnyEntry, chars: int) -> None:
        """Append an entry with `chars` characters that the caller has built. Raises as `count`."""
        self.chars = total = self.chars + chars
        if total > self.max_chars:
            self.look()
        self.append(entry)

    def record(self, kind: type[AnyEntry], *data: Any) -> None:
        """Append an entry of `kind` with `data` after `seq` and `at_ns`. Raises as `look`."""
        chars = sum([len(value) for value in data if type(value) is str])
        if len(self.entries) > self.look_at:
            self.look()
        self.put(kind(len(self.entries), self.clock.now_ns, *data), chars)


def _notifying(record: list[AnyEntry], listeners: list[Listener]) -> Listener:
    """Return a function that appends and notifies; a method would make a reference cycle."""
    append = record.append

    def append_and_notify(entry: AnyEntry) -> None:
        append(entry)
        for listener in listeners:
            listener(entry)

    return append_and_notify
