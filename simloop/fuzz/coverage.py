"""Coverage: the events that a run has reached, as a set of small values.

For a machine these are the pairs of consecutive edges of its map, each with the way in which the
newest reply ended; for an agent the pairs of consecutive entries at the boundary.

The rules to keep: the coverage of a run is computed once, after the run, in a fraction of its time;
and the sets are used for membership alone, because their order differs between processes.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from simloop.trace import entries
from simloop.trace.entries import AnyEntry, Prompt, Transition

TakenEdge: TypeAlias = tuple[str, type, str]
"""An edge of a machine's map: the state, the signal and the next state."""

_START = ""


def _of_error(entry: entries.Error) -> object:
    return entry.fault.status, entry.fault.code


_SITES: dict[type, Callable[[Any], object]] = {
    entries.Finish: lambda entry: entry.reason,
    entries.Error: _of_error,
    entries.StreamCut: lambda _: "cut",
}
_DETAILS: dict[type, Callable[[Any], object]] = {
    **_SITES,
    entries.ToolResult: lambda entry: entry.is_error,
    entries.Ended: lambda entry: entry.outcome,
    entries.Request: lambda entry: entry.purpose,
    entries.StopRequested: lambda entry: entry.cause,
}


class Coverage:
    """The coverage of the runs of a search. `edges` are the edges of the machine's map."""

    def __init__(self, *, has_engine: bool) -> None:
        self._read = self._pairs_of_edges if has_engine else self._pairs_of_entries
        self.reached: set[object] = set()
        self.edges: set[TakenEdge] = set()

    def add(self, record: Iterable[AnyEntry]) -> bool:
        """Add a run, and return whether it increases the coverage."""
        before = len(self.reached)
        self._read(record)
        return len(self.reached) > before

    def _pairs_of_edges(self, record: Iterable[AnyEntry]) -> None:
        reached, edges = self.reached, self.edges
        site: object = None
        state = _START
        last: TakenEdge | None = None
        for entry in record:
            if type(entry) is Transition:
                edge = (state, type(entry.signal), entry.state)
                reached.add((last, edge, site))
                edges.add(edge)
                state, last = entry.state, edge
            elif type(entry) in _SITES:
                site = _SITES[type(entry)](entry)
            elif type(entry) is Prompt:
                state, last = _START, None

    def _pairs_of_entries(self, record: Iterable[AnyEntry]) -> None:
        reached = self.reached
        last: object = None
        for entry in record:
            kind = type(entry)
            detail = _DETAILS.get(kind)
            token = (kind, None if detail is None else detail(entry))
            if token != last:  # the pieces of one text are one event
                reached.add((last, token))
                last = token

    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the reached edges and situations; they are equal in every process."""
        return tuple(sorted(map(_name, self.edges))), tuple(sorted(map(_name, self.reached)))


def _name(reached: object) -> str:
    if isinstance(reached, tuple):
        return f"({' '.join(map(_name, reached))})"
    return reached.__name__ if isinstance(reached, type) else str(reached)
