"""Actions at named moments of a run: when the trace shows an entry for the n-th time.

The rules to keep: only a run with such moments has a cost. Its trace is this list instead of a
plain one, and nothing else in the simulator depends on it. The cost of an entry does not depend on
the number of moments.
"""

from collections.abc import Callable

from simloop.scenario.schema import Trigger
from simloop.trace.entries import AnyEntry

_PARTS = frozenset(
    {"text-delta", "reasoning-delta", "tool-call-delta", "tool-call", "finish", "error"}
)


class Triggers(list[AnyEntry]):
    """A list of entries that calls an action when an awaited entry is appended."""

    def __init__(self) -> None:
        super().__init__()
        self._set: dict[tuple[str, int], list[Callable[[], None]]] = {}
        self._seen: dict[str, int] = {}

    def set(self, moment: Trigger, act: Callable[[], None]) -> None:
        """Call `act` after the entry that `moment` names."""
        self._set.setdefault((str(moment.after), moment.nth), []).append(act)

    def has_shown(self, moment: Trigger) -> bool:
        """Return whether the trace shows the entry that `moment` names."""
        return self._seen.get(str(moment.after), 0) >= moment.nth

    def append(self, entry: AnyEntry) -> None:
        """Append the entry, then call the actions that wait for it."""
        super().append(entry)
        kind = str(type(entry).__struct_config__.tag)
        for name in (kind, "part") if kind in _PARTS else (kind,):
            seen = self._seen[name] = self._seen.get(name, 0) + 1
            for act in self._set.get((name, seen), ()):
                act()
