"""The hooks of one point as they must run: in the order of the list, or at once where they may.

Not here: the invariants about them (hooks.py, hook_changes.py). The rule to keep: the order is free
within a stretch of independent hooks that run at once, and nowhere else.
"""

from collections.abc import Sequence
from itertools import groupby

from simloop.engine.settings import EngineSettings
from simloop.kernel.policies import HookOrder
from simloop.trace.entries import Hook
from simloop.world.user_function import UserFunction


def stretches_of(hooks: Sequence[UserFunction], settings: EngineSettings) -> list[range]:
    """Return the places of the hooks that run at once; a hook that runs alone has its own range."""
    if settings.hook_execution.order is not HookOrder.PARALLEL:
        return [range(place, place + 1) for place in range(len(hooks))]
    found: list[range] = []
    for independent, group in groupby(range(len(hooks)), lambda n: hooks[n].is_independent):
        places = list(group)
        whole = [range(places[0], places[-1] + 1)]
        found += whole if independent else [range(place, place + 1) for place in places]
    return found


class Chain:
    """The hooks of one point. `place` is that of the first that has not run yet.

    `ended` is true after a veto, when all hooks that run at once with it have ended.
    """

    __slots__ = ("_ahead", "_ends", "_vetoed", "ended", "names", "place")

    def __init__(self, hooks: Sequence[UserFunction], settings: EngineSettings) -> None:
        self.names = [hook.name for hook in hooks]
        self._ends = [each.stop for each in stretches_of(hooks, settings) for _ in each]
        self._ahead: list[int] = []  # the places after `place` that have run
        self.begin()

    def begin(self) -> None:
        """Begin a call."""
        self.place, self.ended, self._vetoed = 0, False, False
        if self._ahead:
            self._ahead = []

    @property
    def missing(self) -> str:
        """Return the name of a hook that has not run, or an empty text."""
        return "" if self.ended or self.place >= len(self.names) else self.names[self.place]

    @property
    def is_ambiguous(self) -> bool:
        """Return whether two hooks that run at once have one name."""
        stretches: dict[int, list[str]] = {}
        for name, end in zip(self.names, self._ends, strict=True):
            stretches.setdefault(end, []).append(name)
        return any(len(set(names)) < len(names) for names in stretches.values())

    def beside(self, place: int) -> int:
        """Return the place after the hooks that run at once with the hook at `place`."""
        return self._ends[place]

    def run(self, hook: Hook, *, ends: bool) -> str:
        """Return why `hook` must not run now, or an empty text."""
        if not self.missing:
            return f"the hook {hook.hook} runs at {hook.point}, and none may run any more"
        missing, end = self.missing, self._ends[self.place]
        if self.advance(hook) is None:
            return f"the hook {hook.hook} runs at {hook.point} before {missing}"
        self._vetoed = self._vetoed or ends
        self.ended = self._vetoed and self.place == end
        return ""

    def advance(self, hook: Hook) -> int | None:
        """Return the place of a hook that has run, and note it; None if it must not run now."""
        first = self.place
        if first >= len(self.names):
            return None
        if self.names[first] != hook.hook:
            beside = range(first + 1, self._ends[first])
            found = (n for n in beside if self.names[n] == hook.hook and n not in self._ahead)
            place = next(found, None)
            if place is not None:
                self._ahead.append(place)
            return place
        self.place += 1
        while self.place in self._ahead:
            self.place += 1
        return first
