"""Adds entries to a trace as they happen, and bounds how much text they hold.

The rule to keep: recording is on the path of every part, so it builds one Struct and appends it;
nothing is encoded or copied here.
"""

from typing import Any, Protocol

from simloop.errors import RunawayRun
from simloop.trace.entries import AnyEntry

MAX_TRACE_CHARS = 200_000_000


class Clock(Protocol):
    """A source of virtual time."""

    @property
    def now_ns(self) -> int:
        """Return the virtual time in nanoseconds."""
        ...


class Since:
    """The time since a run began, for one that begins in the middle of a simulation."""

    __slots__ = ("_clock", "_start_ns")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start_ns = clock.now_ns

    @property
    def now_ns(self) -> int:
        """Return the virtual nanoseconds since the run began."""
        return self._clock.now_ns - self._start_ns


class Recorder:
    """Numbers and dates the entries of one conversation.

    `chars` counts the characters of the texts in them, and `max_chars` bounds it.
    """

    __slots__ = ("chars", "clock", "entries", "max_chars")

    def __init__(
        self, entries: list[AnyEntry], clock: Clock, max_chars: int = MAX_TRACE_CHARS
    ) -> None:
        self.entries = entries
        self.clock = clock
        self.chars = 0
        self.max_chars = max_chars

    def count(self, chars: int) -> None:
        """Count characters that go into the trace. Raises RunawayRun past `max_chars`.

        To be called before the entry is appended, so that a run that is ended keeps its size.
        """
        self.chars += chars
        if self.chars > self.max_chars:
            raise RunawayRun(
                f"the trace passed max_trace_chars={self.max_chars} characters of text without an "
                "outcome: say less, or raise max_trace_chars in the scenario"
            )

    def record(self, kind: type[AnyEntry], *data: Any) -> None:
        """Append an entry of `kind` with `data` after `seq` and `at_ns`. Raises as `count`."""
        chars = 0
        for value in data:
            if type(value) is str:
                chars += len(value)
        if chars:
            self.count(chars)
        self.entries.append(kind(len(self.entries), self.clock.now_ns, *data))
