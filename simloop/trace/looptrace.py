"""A trace in memory, the summary of its rounds, and views for tests.

A view is computed from entries alone, so it works for a trace read from a file as for one just
made; requests.py has the requests.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from simloop.messages import FinishReason, Outcome
from simloop.trace import entries
from simloop.trace.entries import AnyEntry, Ended, Footer, Header


class Round(Struct, frozen=True):
    """One main model call and what it cost.

    `messages` and `tokens` summarise the request, `hooks_ns` is virtual time spent in hooks,
    where hooks that run at once count once. `finish_reason` is None where the call failed.
    """

    request_number: int
    messages: int
    tokens: int
    hooks_ns: int
    finish_reason: FinishReason | None
    tools: tuple[str, ...]


class LoopTrace(Struct):
    """The complete record of a scenario's runs.

    `footer` is None if the run has not ended, or if the file was cut; `truncated` tells of a cut.
    """

    header: Header
    entries: list[AnyEntry] = field(default_factory=list)
    footer: Footer | None = None
    truncated: str = ""

    @property
    def elapsed_ns(self) -> int:
        """Return the virtual nanoseconds up to the last line of the trace."""
        if self.footer is not None:
            return self.footer.elapsed_ns
        return self.entries[-1].at_ns if self.entries else 0

    @property
    def no_end(self) -> str:
        """Return the reason why the trace has no end; empty if it has one."""
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

    @property
    def has_machine(self) -> bool:
        """Return whether a loop machine made the run: only its transitions are in a trace."""
        return any(type(entry) is entries.Transition for entry in self.entries)

    def rounds(self) -> Iterator[Round]:
        finishes = {e.request: e.reason for e in self.entries if isinstance(e, entries.Finish)}
        starts = list(_round_starts(self.entries))
        for start, end in pairwise((*starts, len(self.entries))):
            yield _round(self.entries[start:end], finishes)


def _round_starts(record: list[AnyEntry]) -> Iterator[int]:
    """Yield the position of the decision before each main request and before its hooks.

    An agent without an engine records no decision: then it is the position of the request.
    """
    moved: int | None = None
    for index, entry in enumerate(record):
        if isinstance(entry, entries.Transition):
            moved = index
        elif isinstance(entry, entries.Request) and entry.purpose == "main":
            yield index if moved is None else moved
            moved = None


def _round(span: list[AnyEntry], finishes: Mapping[int, FinishReason]) -> Round:
    request = next(e for e in span if isinstance(e, entries.Request) and e.purpose == "main")
    return Round(
        request_number=request.number,
        messages=request.kept + len(request.added),
        tokens=request.tokens,
        hooks_ns=_in_hooks_ns([e for e in span if isinstance(e, entries.Hook)]),
        finish_reason=finishes.get(request.number),
        tools=tuple(e.name for e in span if isinstance(e, entries.ToolStarted)),
    )


def _in_hooks_ns(hooks: list[entries.Hook]) -> int:
    if not hooks:
        return 0
    total_ns, counted_ns = 0, hooks[-1].at_ns  # all from `counted_ns` on is in the total
    for hook in reversed(hooks):  # an entry stands where its hook ended
        start_ns = hook.at_ns - hook.took_ns
        total_ns += max(0, min(hook.at_ns, counted_ns) - start_ns)
        counted_ns = min(counted_ns, start_ns)
    return total_ns


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


def refused(record: Iterable[AnyEntry]) -> list[entries.Refused]:
    """Return the refusals that no scenario means, in order."""
    return [entry for entry in record if type(entry) is entries.Refused and not entry.meant]


def hook_log(record: Iterable[AnyEntry]) -> Iterator[HookRun]:
    """Yield every hook run, in order."""
    for entry in record:
        if isinstance(entry, entries.Hook):
            yield HookRun(entry.point, entry.hook, entry.result)
