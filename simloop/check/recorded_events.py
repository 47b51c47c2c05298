"""The events of a recorded run, as a conversation would have sent them.

Not here: making events of entries (trace/exports) and running the trace again (replay.py). The rule
to keep: nothing that a trace names is imported, because a trace may come from a stranger.
"""

import dataclasses

import msgspec

from simloop.check.replay import recorded_scenario
from simloop.runs.conversation import EventView, Names, event_view, no_events
from simloop.runs.loop import is_own
from simloop.scenario.designs import names as loop_names
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.exports.pi_events import DocumentEvents
from simloop.trace.looptrace import LoopTrace


def recorded_events(trace: LoopTrace, names: Names) -> EventView:
    """Return the view that makes events of `trace`, without importing anything that it names.

    Raises ScenarioError if the loop has no events of that name, or if this simloop cannot read the
    recorded scenario.
    """
    header = msgspec.structs.replace(trace.header, python=())  # nothing is run again
    scenario = recorded_scenario(dataclasses.replace(trace, header=header))
    if names == "document" and trace.header.loop not in loop_names():
        return DocumentEvents(parallel=_overlaps(trace.entries))
    if is_own(trace.header.loop):
        raise no_events(trace.header.loop)
    return event_view(scenario, trace.header.loop, names)


def _overlaps(record: list[AnyEntry]) -> bool:
    """Return whether a tool began before the previous one ended, as a user's own loop may allow."""
    running = 0
    for entry in record:
        if isinstance(entry, entries.ToolStarted):
            running += 1
        elif isinstance(entry, entries.ToolResult):
            running -= 1
        if running > 1:
            return True
    return False
