"""The user's actions during a conversation: messages and an abort, at a time or after an entry.

Not here: the prompts. The rule to keep: an action whose trigger never comes is found, because a
test of an abort that never happened tests nothing.
"""

from collections.abc import Callable
from functools import partial

from simloop.kernel.signals import AbortRequested
from simloop.messages import Queue
from simloop.runs.triggers import Triggers
from simloop.scenario.schema import Scenario
from simloop.scenario.triggers import Trigger
from simloop.virtual.clock.loop import VirtualLoop
from simloop.world.user_port import UserPort
from simloop.world.world import World


class Timetable:
    """The planned actions of a scenario's user in one world, which begins with it."""

    def __init__(self, scenario: Scenario, world: World) -> None:
        self._scenario = scenario
        self._user: UserPort = world.user
        self._loop: VirtualLoop = world.model.loop
        self._start_ns = self._loop.now_ns
        self._triggers: Triggers | None = None
        if scenario.queue or scenario.abort is not None:
            self._schedule(world)

    def _schedule(self, world: World) -> None:
        """Schedule the messages during a run, and an abort that waits for the trace."""
        user, abort = self._user, self._scenario.abort
        if any(trigger.after for trigger in self._scenario.triggers().values()):
            self._triggers = Triggers(self._loop)
            world.model.recorder.listen(self._triggers)
        if abort is not None and abort.after is not None:
            self._set(abort, user.stop)
        planned = []
        for queued in self._scenario.queue:
            queue = Queue.FOLLOW_UP if queued.follow_up else Queue.STEERING
            if queued.at is not None:
                planned.append((self._start_ns + queued.at, queue, queued.say))
            else:
                self._set(queued, partial(user.send, queued.say, queue))
        user.plan(planned)

    def _set(self, trigger: Trigger, act: Callable[[], None]) -> None:
        assert self._triggers is not None
        self._triggers.set(trigger, act)

    def plan_abort(self, *, first: bool) -> None:
        """Plan the abort of the run that begins, unless its time was in an earlier run."""
        abort = self._scenario.abort
        if abort is None or abort.at is None:
            return
        when_ns = self._start_ns + abort.at
        if first or when_ns > self._loop.now_ns:
            self._user.cancellation.plan(when_ns, AbortRequested())

    def never_came(self) -> list[str]:
        """Return the places in the file of the actions whose trigger has not come."""
        if self._scenario.abort is None and not self._scenario.queue:
            return []
        triggers = self._scenario.triggers().items()
        return [place for place, trigger in triggers if not self._has_come(trigger)]

    def _has_come(self, trigger: Trigger) -> bool:
        if trigger.at is not None:
            return trigger.at <= self._loop.now_ns - self._start_ns
        assert self._triggers is not None
        return self._triggers.has_shown(trigger)
