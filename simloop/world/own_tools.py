"""The behaviour that a scenario states for a tool which the agent's own code calls.

Not here: recording the call (own_calls.py, traced.py) and reading the settings (runs). The rule to
keep: the scenario's settings of a tool hold for a recorded function of its name, as they hold for a
tool of the world; the function itself runs where the scenario states no result.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar

from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.threads.calls import run_blocking
from simloop.world.chance import FaultSites, disturb_tool

T = TypeVar("T")


class ToolBehaviour(NamedTuple):
    """The settings of one tool.

    `wait` takes the time of the tool before it ends, and is None for a tool that takes none.
    `result` returns or raises in the place of the function, and is None for a tool whose result is
    not stated. `details` are for the interface.
    """

    wait: Callable[[], Coroutine[Any, Any, None]] | None = None
    result: Callable[[], Any] | None = None
    details: Any = None
    timeout_ms: int | None = None


_AS_IT_IS = ToolBehaviour()


class OwnTools:
    """The behaviour of the tools of one conversation that the agent's own code calls.

    `timeout_ms` bounds a call whose tool has no timeout of its own. A call that a timeout ends
    raises TimeoutError, and one that a fault of chance breaks raises ConnectionError.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        timeout_ms: int | None = None,
        behaviours: Mapping[str, ToolBehaviour] | None = None,
        sites: FaultSites | None = None,
    ) -> None:
        self._loop = loop
        self._behaviours = behaviours or {}
        self._timeout_ms = timeout_ms
        self._sites = sites

    def of(self, name: str) -> ToolBehaviour:
        """Return the behaviour of a tool."""
        return self._behaviours.get(name, _AS_IT_IS)

    async def call(self, name: str, function: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of a tool whose own code is `function`."""
        behaviour = self.of(name)

        async def course() -> Any:
            await self._before(behaviour)
            return await function() if behaviour.result is None else behaviour.result()

        return await _within(behaviour.timeout_ms or self._timeout_ms, course())

    def call_blocking(self, name: str, function: Callable[[], Any]) -> Any:
        """Return the result as `call` does; the caller is blocked until the result is there.

        Nothing interrupts `function`: one that returns too late is late.
        """
        behaviour = self.of(name)
        timeout_ms = behaviour.timeout_ms or self._timeout_ms
        begin_ns = self._loop.now_ns
        if behaviour.wait is not None or self._sites is not None:
            run_blocking(_within(timeout_ms, self._before(behaviour)))
        value = function() if behaviour.result is None else behaviour.result()
        if timeout_ms is not None and self._loop.now_ns - begin_ns > timeout_ms * 10**6:
            raise _timed_out(timeout_ms)
        return value

    async def _before(self, behaviour: ToolBehaviour) -> None:
        """Take the time of the tool, and suffer its faults of chance."""
        if self._sites is not None:
            await disturb_tool(self._sites)
        if behaviour.wait is not None:
            await behaviour.wait()


async def _within(timeout_ms: int | None, course: Coroutine[Any, Any, T]) -> T:
    """Return the result of `course`. Raises TimeoutError if it takes longer."""
    if timeout_ms is None:
        return await course
    try:
        async with asyncio.timeout(timeout_ms / 1000) as timeout:
            value = await course
    except TimeoutError:
        if timeout.expired():
            raise _timed_out(timeout_ms) from None
        raise
    if timeout.expired():  # a result that comes all the same is late
        raise _timed_out(timeout_ms)
    return value


def _timed_out(timeout_ms: int) -> TimeoutError:
    return TimeoutError(f"timed out after {timeout_ms} ms")
