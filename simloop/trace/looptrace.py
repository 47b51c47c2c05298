"""A trace in memory, and the summary of its rounds that document 002 section 10 asks for.

Not here: the file format (codec.py). The rule to keep: everything a trace says can be read from
its header, entries and footer; a view computes, it stores nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec import Struct

from simloop.messages import FinishReason
from simloop.trace import entries
from simloop.trace.entries import AnyEntry, Footer, Header


class Round(Struct, frozen=True):
    """One main model call and what it cost: the `LoopTrace` record of document 002 section 10.

    `messages` and `tokens` summarise the request, `hooks_ns` is virtual time spent in hooks,
    `finish_reason` is None where the call failed.
    """

    request_number: int
    messages: int
    tokens: int
    hooks_ns: int
    finish_reason: FinishReason | None
    tools: tuple[str, ...]


@dataclass(slots=True)
class LoopTrace:
    """The complete record of a run. `footer` is None, and `truncated` says why, if it was cut."""

    header: Header
    entries: list[AnyEntry] = field(default_factory=list)
    footer: Footer | None = None
    truncated: str = ""

    def rounds(self) -> Iterator[Round]:
        """The rounds of the run, in order."""
        start = 0
        for index, entry in enumerate(self.entries):
            if isinstance(entry, entries.Transition) and entry.state == "measuring":
                yield from _round(self.entries[start:index])
                start = index
        yield from _round(self.entries[start:])


def _round(span: list[AnyEntry]) -> Iterator[Round]:
    requests = [e for e in span if isinstance(e, entries.Request) and e.purpose == "main"]
    if not requests:
        return
    finishes = [e.reason for e in span if isinstance(e, entries.Finish)]
    yield Round(
        request_number=requests[-1].number,
        messages=requests[-1].kept + len(requests[-1].added),
        tokens=requests[-1].tokens,
        hooks_ns=sum(e.took_ns for e in span if isinstance(e, entries.Hook)),
        finish_reason=finishes[-1] if finishes else None,
        tools=tuple(e.name for e in span if isinstance(e, entries.ToolStarted)),
    )
