"""Runs the hooks of a point at once where they allow it (documents 000 and 002, section 9).

Not here: the call of one hook, its timeout, its isolation and its entry (user_code.py). The rules
to keep: a hook that is not marked as independent runs alone, in its place; and an independent hook
changes nothing, so that no other hook depends on when it ran.
"""

import asyncio
from functools import partial
from itertools import groupby

from simloop.engine.hooks import AfterToolCall, BeforeToolCall, Blockable, HookInput
from simloop.engine.running_tasks import RunningTasks
from simloop.engine.user_code import UserCode
from simloop.virtual.clock.timeouts import Timeouts
from simloop.world.user_function import UserFunction


class ParallelHooks(UserCode):
    """Runs stretches of independent hooks at once, and every other hook in its place."""

    async def fire(
        self, point: str, hooks: tuple[UserFunction, ...], given: HookInput, timeouts: Timeouts
    ) -> None:
        """Run the hooks of one point. Stops after a hook or a stretch that blocks the call.

        Raises CancelledError if the run is to end.
        """
        for independent, stretch in groupby(hooks, _is_independent):
            run = self._fire_at_once if independent else self._fire_in_order
            await run(point, tuple(stretch), given, timeouts)
            if _is_decided(given):
                return

    async def _fire_in_order(
        self, point: str, hooks: tuple[UserFunction, ...], given: HookInput, timeouts: Timeouts
    ) -> None:
        await super().fire(point, hooks, given, timeouts)

    async def _fire_at_once(
        self, point: str, hooks: tuple[UserFunction, ...], given: HookInput, timeouts: Timeouts
    ) -> None:
        """Run each hook in a task and with an input of its own, and wait until all have ended."""
        inputs = [given.apart() for _ in hooks]
        running = RunningTasks()
        for hook, own in zip(hooks, inputs, strict=True):
            fire_one = partial(self._fire_in_order, point, (hook,), own)
            running.spawn(fire_one, timeouts, after_the_last=False)
        tasks = list(running.tasks)
        try:
            await running.wait()
        finally:
            await running.stop()
        # The run ends; or a hook has cancelled its task, as alone it would cancel that of the run.
        if any(task.cancelled() for task in tasks):
            raise asyncio.CancelledError
        _decide(given, inputs)


def _is_independent(hook: UserFunction) -> bool:
    return hook.is_independent


def _is_decided(given: HookInput) -> bool:
    """Return whether a hook has blocked the call, or answered it by its failure."""
    return bool(getattr(given, "blocked", None) is not None or getattr(given, "failure", ""))


def _decide(given: HookInput, inputs: list[HookInput]) -> None:
    """Pass on the decision of hooks that ran at once: that of the first in the list.

    A hook that forbids the call outranks one whose failure answers it: the call does not happen.
    """
    if isinstance(given, Blockable):
        reasons = [own.blocked for own in inputs if isinstance(own, Blockable)]
        given.blocked = next((reason for reason in reasons if reason is not None), None)
    if isinstance(given, _AtToolCall) and not _is_decided(given):
        failures = [own.failure for own in inputs if isinstance(own, _AtToolCall)]
        given.failure = next(filter(None, failures), "")


_AtToolCall = BeforeToolCall | AfterToolCall
