"""The user's actions during a conversation: messages and an abort, at a time or after an entry.

An action whose trigger never comes is found, because a test of an abort that never happened tests
nothing. Only a run with triggers has a cost, and the cost of an entry does not depend on their
number.
"""

from collections.abc import Callable
from functools import partial

from simloop.kernel.signals import AbortRequested
from simloop.messages import Queue
from simloop.scenario.schema import Scenario
from simloop.scenario.triggers import Trigger
from simloop.trace.entries import AnyEntry
from simloop.trace.kinds import KINDS, NAME, PART
from simloop.virtual.clock.loop import VirtualLoop
from simloop.world.world import World

_NAMES = {
    kind: (NAME[kind], "part") if each.trigger == PART else (NAME[kind],)
    for kind, each in KINDS.items()
}
"""The names by which a trigger may await an entry, by its kind."""


class Timetable:
    """The planned actions of a scenario's user in one world, which begins with it.

    An action does not happen inside the component that records its trigger: it is scheduled, and
    happens when the agent next gives other tasks their turn, as an action of a real user would.
    """

    def __init__(self, scenario: Scenario, world: World) -> None:
        self._abort = scenario.abort
        self._loop: VirtualLoop = world.model.loop
        self._user = world.user
        self._start_ns = self._loop.now_ns
        self._triggers: dict[str, Trigger] = {}
        self._acts: dict[tuple[str, int], list[Callable[[], None]]] = {}
        self._seen: dict[str, int] = {}  # of the awaited entries
        if scenario.queue or scenario.abort is not None:
            self._triggers = scenario.triggers()
            self._schedule(scenario, world)

    def _schedule(self, scenario: Scenario, world: World) -> None:
        if any(trigger.after for trigger in self._triggers.values()):
            world.model.recorder.listen(self._see)
        if self._abort is not None and self._abort.after is not None:
            self._set(self._abort, self._user.stop)
        planned = []
        for queued in scenario.queue:
            queue = Queue.FOLLOW_UP if queued.follow_up else Queue.STEERING
            if queued.at is not None:
                planned.append((self._start_ns + queued.at, queue, queued.say))
            else:
                self._set(queued, partial(self._user.send, queued.say, queue))
        self._user.plan(planned)

    def _set(self, trigger: Trigger, act: Callable[[], None]) -> None:
        self._seen.setdefault(str(trigger.after), 0)
        self._acts.setdefault((str(trigger.after), trigger.nth), []).append(act)

    def _see(self, entry: AnyEntry) -> None:
        seen = self._seen
        for name in _NAMES[type(entry)]:
            if name in seen:
                seen[name] += 1
                for act in self._acts.get((name, seen[name]), ()):
                    self._loop.call_soon(act)

    def plan_abort(self, *, first: bool) -> None:
        """Plan the abort of the run that begins, unless its time was in an earlier run."""
        if self._abort is None or self._abort.at is None:
            return
        when_ns = self._start_ns + self._abort.at
        if first or when_ns > self._loop.now_ns:
            self._user.cancellation.plan(when_ns, AbortRequested())

    def never_came(self) -> list[str]:
        """Return the places in the file of the actions whose trigger has not come."""
        return [place for place, each in self._triggers.items() if not self._has_come(each)]

    def _has_come(self, trigger: Trigger) -> bool:
        if trigger.at is not None:
            return trigger.at <= self._loop.now_ns - self._start_ns
        return self._seen.get(str(trigger.after), 0) >= trigger.nth
