"""A task that can be interrupted and watched."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from pacing import MS

from simloop.engine.cancellation import Cancellation, Timeouts
from simloop.virtual.clock import VirtualLoop, run_virtual
from simloop.virtual.simulate import running_loop

T = TypeVar("T")


def current() -> tuple[VirtualLoop, asyncio.Task[Any]]:
    task = asyncio.current_task()
    assert task is not None
    return running_loop(), task


def play(main: Callable[[Cancellation, Timeouts], Coroutine[Any, Any, T]]) -> T:
    """Run `main` in a task that can be interrupted and watched."""

    async def inside() -> T:
        loop, task = current()
        return await main(Cancellation(loop, task), Timeouts(loop, task))

    return run_virtual(inside())


def now_ms() -> float:
    return running_loop().now_ns / MS


async def is_stopped(awaitable: Awaitable[Any]) -> bool:
    try:
        await awaitable
    except asyncio.CancelledError:
        return True
    return False
