"""A task that can be interrupted, and bounded in time."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from pacing import MS

from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.simulate import run_virtual, running_loop
from simloop.world.user_port import Cancellation

T = TypeVar("T")


def current() -> tuple[VirtualLoop, asyncio.Task[Any]]:
    task = asyncio.current_task()
    assert task is not None
    return running_loop(), task


def cancellation(wall_clock_ms: int | None = None) -> Cancellation:
    """Return the cancellation of a run in the current task."""
    loop, task = current()
    cancelling = Cancellation(loop)
    cancelling.open(task, wall_clock_ms)
    return cancelling


def play(main: Callable[[Cancellation], Coroutine[Any, Any, T]]) -> T:
    """Run `main` in a task that can be interrupted."""

    async def inside() -> T:
        return await main(cancellation())

    return run_virtual(inside())


def now_ms() -> float:
    return running_loop().now_ns / MS


async def is_stopped(awaitable: Awaitable[Any]) -> bool:
    try:
        await awaitable
    except asyncio.CancelledError:
        return True
    return False
