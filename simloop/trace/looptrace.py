"""A trace in memory, and views for tests that are computed from its entries alone."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from simloop.messages import Outcome
from simloop.trace import entries
from simloop.trace.entries import AnyEntry, Ended, Footer, Header


class LoopTrace(Struct):
    """The record of a scenario's runs; `footer` is None before their end, or in a cut file."""

    header: Header
    entries: list[AnyEntry] = field(default_factory=list)
    footer: Footer | None = None
    truncated: str = ""

    @property
    def elapsed_ns(self) -> int:
        if self.footer is not None:
            return self.footer.elapsed_ns
        return self.entries[-1].at_ns if self.entries else 0

    @property
    def no_end(self) -> str:
        if self.footer is not None:
            return ""
        if self.truncated:
            return f"the trace is truncated: {self.truncated}"
        return "the trace has no end: its run had not ended when it was written"

    @property
    def ends(self) -> tuple[Ended, ...]:
        # An `isinstance` that fails on a Struct takes much longer.
        return tuple(entry for entry in self.entries if type(entry) is Ended)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        return tuple(end.outcome for end in self.ends)


class Call(NamedTuple):
    """A tool call that was run, with the arguments that the tool got."""

    name: str
    arguments: dict[str, Any]


def calls(record: Iterable[AnyEntry]) -> Iterator[Call]:
    """Yield every tool call that was run, in the order of the starts."""
    for entry in record:
        if isinstance(entry, entries.ToolStarted):
            yield Call(entry.name, msgspec.json.decode(entry.arguments))


def refused(record: Iterable[AnyEntry]) -> list[entries.Refused]:
    """Return the refusals that no scenario means, in order."""
    return [entry for entry in record if type(entry) is entries.Refused and not entry.meant]
