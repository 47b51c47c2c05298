"""The pen: adds entries to a trace as they happen.

The rule to keep: recording is on the path of every part, so it builds one Struct and appends it;
nothing is encoded, copied or looked up here.
"""

from typing import Any, Protocol

from simloop.trace.entries import AnyEntry


class Clock(Protocol):
    """Whatever knows the virtual time."""

    now_ns: int


class Recorder:
    """Numbers and dates the entries of one run."""

    __slots__ = ("clock", "entries")

    def __init__(self, entries: list[AnyEntry], clock: Clock) -> None:
        self.entries = entries
        self.clock = clock

    def record(self, kind: type[AnyEntry], *data: Any) -> None:
        """Append an entry of `kind` with `data` after `seq` and `at_ns`."""
        self.entries.append(kind(len(self.entries), self.clock.now_ns, *data))
