"""The views of a trace for tests: the calls, the waits, the hooks.

The requests are read in requests.py.

The rule to keep: a view is computed from entries alone, so it works for a trace read from a file
as for one just made.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from simloop.trace import entries
from simloop.trace.entries import AnyEntry


class Call(NamedTuple):
    """A tool call that was run, with the arguments that the tool got."""

    name: str
    arguments: dict[str, Any]


class HookRun(NamedTuple):
    """A hook that ran: where, which, and its result (ok, blocked, failed, timed-out)."""

    point: str
    hook: str
    result: str


def calls(record: Iterable[AnyEntry]) -> Iterator[Call]:
    """Yield every tool call that was run, in the order of the starts."""
    for entry in record:
        if isinstance(entry, entries.ToolStarted):
            yield Call(entry.name, msgspec.json.decode(entry.arguments))


def backoffs_ns(record: Iterable[AnyEntry]) -> list[int]:
    """Return the waits before retries in nanoseconds, in order."""
    return [entry.delay_ns for entry in record if isinstance(entry, entries.Backoff)]


def hook_log(record: Iterable[AnyEntry]) -> Iterator[HookRun]:
    """Yield every hook run, in order."""
    for entry in record:
        if isinstance(entry, entries.Hook):
            yield HookRun(entry.point, entry.hook, entry.result)
