"""Changes at the cursor: a fault, an abort or a latency more, or the fault at the cursor less.

A change is a function of the scenario alone, so that its result can be saved.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop.kernel.machine import Feature
from simloop.trace import entries
from simloop.trace.kinds import TRIGGERS, kind_of
from simloop.world.faults import FAILURES, FAULTS, TOOL_ENDS
from simloop_tui.scripts import (
    Draft,
    check_repeatable,
    content_of,
    next_reply,
    request_of,
    unrolled,
)


class Change(NamedTuple):
    """A change of a scenario: its name, as a menu shows it, and the function that makes it.

    `mends` says that it switches the fault at the cursor off.
    """

    name: str
    apply: Callable[[Draft], Draft]
    mends: bool = False


FAULTS_OF_MENU = tuple(fault for fault in FAULTS if fault.words)
"""The faults that can be inserted."""


def changes_at(position: Position) -> tuple[Change, ...]:
    """Return the changes that can be made at a position, in the order of a menu.

    The one that switches the fault at the cursor off, if there is one, is the first.
    Raises ScenarioError if the run cannot be repeated: its trace lacks Python code.
    """
    check_repeatable(position.recording, "fork")
    number = next_reply(position)
    request = request_of(position, number)
    found = [*_without_fault_here(position)]
    found += [
        Change(f"{fault.words} for request #{request}", _inserting(position, number, fault.reply))
        for fault in FAULTS_OF_MENU
    ]
    if _can_abort(position.recording):
        found.append(Change("the user aborts here", _aborting(position)))
    if number < len(unrolled(position.recording, content_of(position.recording))):
        found += [
            Change(
                f"the reply to request #{request} comes {seconds} s later",
                _delaying(position, number, seconds),
            )
            for seconds in (1, 60, 600)
        ]
    found += _without_chance(position)
    return tuple(found)


def without_fault(position: Position) -> Change | None:
    """Return the change that switches off the fault at a position, or None if there is none.

    Raises ScenarioError as `changes_at` does.
    """
    check_repeatable(position.recording, "fork")
    found = (*_without_fault_here(position), *_without_chance(position))
    return found[0] if found else None


def _inserting(position: Position, number: int, reply: Draft) -> Callable[[Draft], Draft]:
    def apply(tree: Draft) -> Draft:
        script = unrolled(position.recording, tree)
        return {**tree, "model": [*script[:number], reply, *script[number:]]}

    return apply


def _delaying(position: Position, number: int, seconds: int) -> Callable[[Draft], Draft]:
    def apply(tree: Draft) -> Draft:
        script = unrolled(position.recording, tree)
        pace = {**script[number].get("pace", {}), "first_part": f"{seconds}s"}
        script[number] = {**script[number], "pace": pace}
        return {**tree, "model": script}

    return apply


def _can_abort(recording: RecordedRun) -> bool:
    machine = recording.machine
    return machine is None or Feature.ABORT not in machine.unsupported


def _aborting(position: Position) -> Callable[[Draft], Draft]:
    """Return the change that aborts the run at the cursor.

    It comes after the newest entry of this instant that a trigger can name, or at its time.
    """
    trigger: Draft = {"at": f"{position.at_ns}ns"}
    for place in range(position.place, position.start, -1):
        entry = position.recording.entries[place]
        if entry.at_ns != position.at_ns:
            break
        kind = kind_of(entry)
        if kind in TRIGGERS:
            same = position.recording.index.places[type(entry)]
            trigger = {"after": kind, "nth": bisect_right(same, place)}
            break
    return lambda tree: {**tree, "abort": trigger}


def _without_fault_here(position: Position) -> Iterator[Change]:
    entry = position.entry
    match entry:
        case entries.Error() | entries.StreamCut():
            number = _reply_of(position, entry.request)
            if number is not None:
                words = f"request #{entry.request} does not fail"
                yield Change(words, _mending(position, number), mends=True)
        case entries.ToolResult(is_error=True, name=name):
            words = f"the tool {name} does not fail"
            yield Change(words, lambda tree: _tool_mended(tree, name), mends=True)
        case entries.Hook(hook=name, result=result) if result in {"failed", "timed-out", "blocked"}:
            words = f"the hook {name} is left out"
            yield Change(words, lambda tree: _hook_left_out(tree, name), mends=True)
        case entries.StopRequested():
            yield Change("the user does not abort", _not_stopped, mends=True)


def _without_chance(position: Position) -> Iterator[Change]:
    if position.recording.scenario is not None and position.recording.scenario.faults is not None:
        yield Change("no faults of chance", lambda tree: _without(tree, "faults"))


def _reply_of(position: Position, request: int) -> int | None:
    sent = position.recording.requests
    main = [number for number, each in sent.items() if each.purpose == "main"]
    return main.index(request) if request in main else None


def _mending(position: Position, number: int) -> Callable[[Draft], Draft]:
    """Return the change that removes a reply's failure, or the reply if it was nothing else."""

    def apply(tree: Draft) -> Draft:
        script = unrolled(position.recording, tree)
        mended = {key: value for key, value in script[number].items() if key not in FAILURES}
        kept = [mended] if mended.keys() - {"pace"} else []
        return {**tree, "model": [*script[:number], *kept, *script[number + 1 :]]}

    return apply


def _tool_mended(tree: Draft, name: str) -> Draft:
    tools = dict(tree.get("tools", {}))
    given = tools.get(name, {})
    tool = {key: value for key, value in given.items() if key not in TOOL_ENDS}
    return {**tree, "tools": {**tools, name: {**_without(tool, "takes"), "returns": "done"}}}


def _hook_left_out(tree: Draft, name: str) -> Draft:
    hooks = [hook for hook in tree.get("hooks", []) if _name_of(hook) != name]
    return {**tree, "hooks": hooks}


def _name_of(hook: Draft) -> str:
    return str(hook.get("name") or hook.get("at"))


def _not_stopped(tree: Draft) -> Draft:
    limits = {k: v for k, v in tree.get("limits", {}).items() if k != "max_wall_clock"}
    return {**_without(tree, "abort"), "limits": limits}


def _without(tree: Draft, key: str) -> Draft:
    return {name: value for name, value in tree.items() if name != key}
