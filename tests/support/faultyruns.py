"""Runs that are wrong on purpose, for the tests of the invariants.

A wrong engine is a right run with other entries: `violated` records a run, makes the edits and
judges the result. A wrong machine is a loop whose `advance` is another function: see `misled`.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from simloop import Reply, Scenario, Simulation
from simloop.check.invariants.judge import Judge
from simloop.check.invariants.subject import Subject
from simloop.kernel.machine import Run, Transition
from simloop.kernel.signals import Signal
from simloop.kernel.states import ClosingStep
from simloop.messages import FinishReason, Message
from simloop.runs.options import RunOptions
from simloop.trace.entries import AnyEntry, Request
from simloop.trace.entries import Transition as Moved

LOOK = Reply.model_validate({"say": "I look.", "call": {"look": {}}})
DONE = Reply(say="Done.")
TOOLS = {"look": {"returns": "seen"}}

Edit = Callable[[list[Any]], list[Any]]


def scenario(*replies: Any, **given: Any) -> Scenario:
    """Return a scenario with the tool `look`; a reply may be a mapping, as in a file."""
    tools = given.pop("tools", TOOLS)
    return Scenario.model_validate(
        {"prompt": "Go.", "model": list(replies), "tools": tools, **given}
    )


def violations(played: Scenario, *edits: Edit, **given: Any) -> dict[str, str]:
    """Run a scenario, however it ends, edit its entries, and return the violations by name."""
    options: RunOptions = {**given}  # type: ignore[typeddict-item]
    simulation = Simulation(played, **options)
    subject = Subject.of(simulation)
    with contextlib.suppress(Exception):  # the run until then is what counts
        simulation.run()
    record: list[AnyEntry] = list(simulation.trace.entries)
    for edit in edits:
        record = edit(record)
    numbered = [msgspec.structs.replace(each, seq=seq) for seq, each in enumerate(record)]
    return {each.name: each.text for each in Judge(subject).read(numbered).violations}


def violated(played: Scenario, *edits: Edit, **given: Any) -> set[str]:
    """Run a scenario, edit its entries, and return the names of the violated invariants."""
    return set(violations(played, *edits, **given))


# ------------------------------------------------------------------ edits of a record


def place(record: Sequence[Any], kind: type, nth: int = 0) -> int:
    """Return the place of the entry of that kind, or of the transition on that signal."""
    found = [
        at
        for at, each in enumerate(record)
        if type(each) is kind or (type(each) is Moved and type(each.signal) is kind)
    ]
    return found[nth]


def changed(kind: type, nth: int = 0, **fields: Any) -> Edit:
    """Change fields of an entry; of the signal itself if `kind` is one."""

    def edit(record: list[Any]) -> list[Any]:
        at = place(record, kind, nth)
        entry: Any = record[at]
        if type(entry) is not kind:
            fields_of_entry = {"signal": msgspec.structs.replace(entry.signal, **fields)}
        else:
            fields_of_entry = fields
        record[at] = msgspec.structs.replace(record[at], **fields_of_entry)
        return record

    return edit


def dropped(kind: type, nth: int = 0) -> Edit:
    """Leave an entry out."""

    def edit(record: list[Any]) -> list[Any]:
        del record[place(record, kind, nth)]
        return record

    return edit


def doubled(kind: type, nth: int = 0) -> Edit:
    """Have an entry twice."""

    def edit(record: list[Any]) -> list[Any]:
        at = place(record, kind, nth)
        return [*record[: at + 1], *record[at:]]

    return edit


def swapped(kind: type, one: int, other: int) -> Edit:
    """Exchange two entries of a kind, each at the time of the other."""

    def edit(record: list[Any]) -> list[Any]:
        first, second = place(record, kind, one), place(record, kind, other)
        a, b = record[first], record[second]
        record[first] = msgspec.structs.replace(b, at_ns=a.at_ns)
        record[second] = msgspec.structs.replace(a, at_ns=b.at_ns)
        return record

    return edit


def inserted(before: type, entry: AnyEntry, nth: int = 0) -> Edit:
    """Put an entry before another, at the time of that one."""

    def edit(record: list[Any]) -> list[Any]:
        at = place(record, before, nth)
        record.insert(at, msgspec.structs.replace(entry, at_ns=record[at].at_ns))
        return record

    return edit


def later(kind: type, seconds: float, nth: int = 0) -> Edit:
    """Have an entry, and all after it, come so much later."""

    def edit(record: list[Any]) -> list[Any]:
        at = place(record, kind, nth)
        moved = [
            msgspec.structs.replace(each, at_ns=each.at_ns + int(seconds * 1e9))
            for each in record[at:]
        ]
        return [*record[:at], *moved]

    return edit


def sending(nth: int, messages: Callable[[tuple[Message, ...]], Sequence[Message]]) -> Edit:
    """Have request `nth` (from 0) add other messages to those that it repeats."""

    def edit(record: list[Any]) -> list[Any]:
        at = place(record, Request, nth)
        added = tuple(messages(record[at].added))
        record[at] = msgspec.structs.replace(record[at], added=added)
        return record

    return edit


# ------------------------------------------------------------------ machines


class _Anywhere(dict[Any, Any]):
    """A map that allows every move: the fault of the machine is not to be found by its map."""

    def __init__(self, legal: Any) -> None:
        everywhere = frozenset(
            {state for row in legal.values() for to in row.values() for state in to} | set(legal)
        )
        signals = {signal for row in legal.values() for signal in row}
        super().__init__({state: dict.fromkeys(signals, everywhere) for state in everywhere})


Advance = Callable[[Callable[[Run, Signal], Transition], Run, Signal], Transition]


def misled(loop: Any, advance: Advance, **options: Any) -> Any:
    """Return a subclass of a loop whose moves are those of `advance(right, run, signal)`.

    `right` makes the move of the loop itself.
    """

    class Misled(loop):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.legal: Any = _Anywhere(self.legal)

        def advance(self, run: Run, signal: Signal) -> Transition:
            return advance(super().advance, run, signal)

    return Misled


def hearing(kind: type, **fields: Any) -> Advance:
    """Have the machine hear other fields in each signal of a kind."""

    def advance(right: Any, run: Run, signal: Signal) -> Transition:
        heard = msgspec.structs.replace(signal, **fields) if type(signal) is kind else signal
        moved: Transition = right(run, heard)
        return moved

    return advance


def remembering(finish: FinishReason) -> Advance:
    """Have the machine remember another finish reason at the end of a step."""

    def advance(right: Any, run: Run, signal: Signal) -> Transition:
        if type(run.state) is ClosingStep:
            run = run.to(ClosingStep(msgspec.structs.replace(run.state.reply, finish=finish)))
        moved: Transition = right(run, signal)
        return moved

    return advance
