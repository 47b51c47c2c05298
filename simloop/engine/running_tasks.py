"""The work on tool calls and hooks that runs in tasks beside the task of the run.

Every task that is spawned is waited for or stopped, so that no tool and no hook outlives its run.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from simloop.virtual.clock.timeouts import Timeouts

Rest: TypeAlias = Coroutine[Any, Any, None] | None
"""The rest of some work; None if it waits for nothing, so that it costs no coroutine."""


async def finished(rest: Rest) -> None:
    """Wait for the rest of some work."""
    if rest is not None:
        await rest


Work = Callable[[Timeouts], Coroutine[object, object, None]]
"""The work for one call or hook, under the timeouts of the task that does it."""


class RunningTasks:
    """The `tasks` of the tool calls, or of the hooks, that were started."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []

    def spawn(self, work: Work, timeouts: Timeouts, *, after_the_last: bool) -> None:
        """Begin `work` in a task; `after_the_last` waits until the task before it has ended."""
        last = self.tasks[-1] if self.tasks and after_the_last else None

        async def run() -> None:
            task = asyncio.current_task()
            assert task is not None
            if last is not None:
                await asyncio.wait([last])
                if last.cancelled() or last.exception() is not None:
                    return  # the run ends
            await work(Timeouts(timeouts.loop, task))

        self.tasks.append(timeouts.loop.create_task(run()))

    async def wait(self) -> None:
        """Wait until all have ended. Raises the error of the first that failed, in order."""
        if self.tasks:
            await asyncio.wait(self.tasks, return_when=asyncio.FIRST_EXCEPTION)
            self._raise_errors()
            self.tasks.clear()

    async def stop(self) -> None:
        """Cancel all, and wait until they have ended. Raises the error of the first that failed.

        A task that goes on is cancelled again each time that the caller is.
        """
        if not self.tasks:
            return
        for task in self.tasks:
            task.cancel()
        try:
            await asyncio.gather(*self.tasks, return_exceptions=True)
        finally:
            self._raise_errors()
            self.tasks.clear()

    def _raise_errors(self) -> None:
        for task in self.tasks:
            if task.done() and not task.cancelled() and (error := task.exception()):
                raise error
