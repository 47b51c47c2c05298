"""Actions of the user at triggers of a run: the n-th entry of a kind in the trace.

The rules to keep: only a run with triggers has a cost, and the cost of an entry does not depend
on their number. An action does not happen inside the component that records: it is scheduled, and
happens when the agent next gives other tasks their turn, as an action of a real user would.
"""

from collections.abc import Callable

from simloop.scenario.triggers import Trigger
from simloop.trace.entries import AnyEntry
from simloop.trace.kinds import KINDS, NAME, PART
from simloop.virtual.clock.loop import VirtualLoop

_NAMES = {
    kind: (NAME[kind], "part") if each.trigger == PART else (NAME[kind],)
    for kind, each in KINDS.items()
}
"""The names by which a trigger may await an entry, by its kind."""


class Triggers:
    """A listener of a recorder, which schedules an action when an awaited entry is recorded."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._set: dict[tuple[str, int], list[Callable[[], None]]] = {}
        self._seen: dict[str, int] = {}  # of the awaited entries

    def set(self, trigger: Trigger, act: Callable[[], None]) -> None:
        """Schedule `act` after the entry that `trigger` names."""
        self._seen.setdefault(str(trigger.after), 0)
        self._set.setdefault((str(trigger.after), trigger.nth), []).append(act)

    def has_shown(self, trigger: Trigger) -> bool:
        """Return whether the trace shows the entry that `trigger` names."""
        return self._seen.get(str(trigger.after), 0) >= trigger.nth

    def __call__(self, entry: AnyEntry) -> None:
        """Count the entry, and schedule the actions that wait for it."""
        seen = self._seen
        for name in _NAMES[type(entry)]:
            if name in seen:
                seen[name] += 1
                for act in self._set.get((name, seen[name]), ()):
                    self._loop.call_soon(act)
