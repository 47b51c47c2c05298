"""The pen: adds entries to a trace as they happen.

The rule to keep: recording is on the path of every part, so it builds one Struct and appends it;
nothing is encoded, copied or looked up here.
"""

from typing import Any, Protocol

from simloop.trace.entries import AnyEntry


class Clock(Protocol):
    """Whatever knows the virtual time."""

    @property
    def now_ns(self) -> int:
        """Virtual nanoseconds."""
        ...


class Since:
    """The time since a run began, for one that begins in the middle of a simulation."""

    __slots__ = ("_clock", "_start_ns")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start_ns = clock.now_ns

    @property
    def now_ns(self) -> int:
        """Virtual nanoseconds since then."""
        return self._clock.now_ns - self._start_ns


class Recorder:
    """Numbers and dates the entries of one run."""

    __slots__ = ("clock", "entries")

    def __init__(self, entries: list[AnyEntry], clock: Clock) -> None:
        self.entries = entries
        self.clock = clock

    def record(self, kind: type[AnyEntry], *data: Any) -> None:
        """Append an entry of `kind` with `data` after `seq` and `at_ns`."""
        self.entries.append(kind(len(self.entries), self.clock.now_ns, *data))
