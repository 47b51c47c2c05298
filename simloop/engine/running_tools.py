"""The tool calls that are ready to run, and those that run in tasks beside the task of the run.

Not here: what is done for one call (tool_calls.py). The rule to keep: every task that is spawned is
waited for or stopped, so that no tool outlives its run.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from msgspec import Struct

from simloop.messages import ToolCall
from simloop.virtual.timeouts import Timeouts
from simloop.world.tools import Tool

Work = Callable[[Timeouts], Coroutine[object, object, None]]
"""The work for one call, under the timeouts of the task that does it."""


class RunningCalls:
    """The `tasks` of the calls that were started."""

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


Rest: TypeAlias = Coroutine[Any, Any, None] | None
"""The rest of the work on a call; None if it waits for nothing, so that it costs no coroutine."""


async def finished(rest: Rest) -> None:
    """Wait for the rest of the work on a call."""
    if rest is not None:
        await rest


class ReadyCall(Struct, frozen=True, gc=False):
    """A call that may run: its place in the reply, its tool, the arguments, and their JSON."""

    place: int
    call: ToolCall
    tool: Tool
    arguments: dict[str, Any]
    shown: str
