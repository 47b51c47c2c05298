"""The place that a person names: the number of an entry, or a virtual time.

The rule to keep: a time means the last entry at or before it, so that each time of a run has facts.
"""

from bisect import bisect_right

from simloop.errors import ScenarioError
from simloop.kernel.durations import parse_duration
from simloop.trace.looptrace import LoopTrace

_HINT = "write the number of an entry, counted from 0, or a virtual time such as 5.2s"


def place_of(trace: LoopTrace, named: str | None) -> int:
    """Return the place of an entry by its number or by a time; None is the last entry.

    Raises ScenarioError for a trace without entries, and for a name that is neither.
    """
    last = len(trace.entries) - 1
    if last < 0:
        raise ScenarioError("the trace has no entries", hint="record the run again")
    if named is None:
        return last
    if named.isdecimal() and named.isascii():
        if len(named) > len(str(last)) or int(named) > last:
            raise ScenarioError(f"there is no such entry; the last one is {last}", key="--at")
        return int(named)
    try:
        return place_at(trace, parse_duration(named))
    except ValueError as error:
        raise ScenarioError(f"{named!r} is no entry: {error}", key="--at", hint=_HINT) from error


def place_at(trace: LoopTrace, at_ns: int) -> int:
    """Return the place of the last entry at or before a virtual time, or 0."""
    return max(bisect_right(trace.entries, at_ns, key=lambda entry: entry.at_ns) - 1, 0)
