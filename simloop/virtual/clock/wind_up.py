"""The end of a run: tasks are cancelled, threads come to their ends, generators are closed.

Not here: what is raised then (clock.py). The rule to keep: nothing of a run is left that garbage
collection, or a later run, would have to end.
"""
# ruff: noqa: SLF001 - a part of the loop in a file of its own

import asyncio
import contextlib
import ctypes
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

from simloop.errors import Deadlock, RunawayRun, ScenarioError
from simloop.virtual.clock.tasks import closes, is_unseen
from simloop.virtual.places import MOST_NAMED
from simloop.virtual.threads.scheduler import Threads

if TYPE_CHECKING:
    from simloop.virtual.clock.loop import VirtualLoop

_Task = asyncio.Task[Any]
_keep_for_ever = ctypes.pythonapi.Py_IncRef


def wind_up(loop: "VirtualLoop", main: _Task, *, waits: bool = True) -> list[_Task]:
    """End the tasks and threads that the run left behind; return the tasks that refuse.

    `waits` tells whether threads may end by themselves, as at the exit of Python.
    """
    # The usual end: one task, which is done. A callback that is ready may still start others.
    tidy = main.done() and len(loop._tasks) == 1 and not loop._ready
    refused = [] if tidy else _drain(loop, set())
    if loop._threads is not None:
        refused += _end_threads(loop, loop._threads, waits=waits)
    refused = list(dict.fromkeys(refused))  # a task may refuse before the threads end and after
    for task in refused:
        _close(loop, task)
        loop._tasks.remove(task)
    if refused and loop._threads is not None:
        loop._threads.end()  # those that the code has started while it was closed
    # After the tasks: closing a generator that a task is still in raises RuntimeError.
    if loop._asyncgens:
        refused += _drain(loop, {loop._start(loop.shutdown_asyncgens(), "close generators")})
    for task in loop._tasks:
        error = task.exception() if is_unseen(task) else None
        if error and task is not main:
            message = f"{task.get_name()} failed and nobody looked at its exception"
            loop.call_exception_handler({"message": message, "exception": error, "task": task})
    return refused


def _end_threads(loop: "VirtualLoop", threads: Threads, *, waits: bool) -> list[_Task]:
    """End the threads of the run, and the tasks that they have started meanwhile."""
    _renew_bounds(loop, len(threads.alive))
    known = len(loop.escapes)
    with contextlib.suppress(Deadlock, RunawayRun):
        while waits and threads.awaited():
            loop.turn()
    if not loop.raises_unseen:
        # A thread of an agent goes on after a stop, and no model answers it any more. Its refused
        # calls fail in the thread; the trace says that the thread was left behind.
        late = loop.escapes[known:]
        loop.escapes[known:] = [one for one in late if not isinstance(one, ScenarioError)]
    loop.threads_left = loop.unfinished_threads()
    refused = _drain(loop, set()) if loop._ready or loop.unfinished() else []
    stubborn = ", ".join(thread.name for thread in threads.end()[:MOST_NAMED])
    if stubborn:
        finding = "threads did not end when they were told to at the end of the run"
        loop.escapes.append(RunawayRun(f"{finding}: {stubborn}"))
    return refused


class _TaskEnded(BaseException):
    """Ends a task that has refused its cancellation, where it waits."""


def _close(loop: "VirtualLoop", task: _Task) -> None:
    """End the coroutine of a task that has refused its cancellation.

    The garbage collector would run the rest of such a task in some later simulation, and asyncio
    would log that it was pending. Ending it here happens at one place in every run.
    """
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = cast("Coroutine[Any, Any, Any]", task.get_coro())
    # Within the task, so that code that catches even this can be suspended where it waits next.
    asyncio._enter_task(loop, task)
    try:
        coroutine.throw(_TaskEnded)
    except BaseException:  # noqa: BLE001 - the run has an error of its own
        return
    finally:
        asyncio._leave_task(loop, task)
    loop.is_spoilt = True  # the coroutine may have left its world and listeners on it
    # Code that catches all exceptions may run for ever when Python closes it, so Python must not.
    _keep_for_ever(ctypes.py_object(coroutine))


def _renew_bounds(loop: "VirtualLoop", count: int) -> None:
    """Count the bounds from here: a run that has used up its own may still clean up."""
    loop.progress.allow(10_000 + 100 * count)
    loop._time_limit_ns = loop.now_ns + loop.max_virtual_ns


def _drain(loop: "VirtualLoop", asked: set[_Task]) -> list[_Task]:
    """Cancel each task once, except those in `asked` or closing a generator; run to the end."""
    unfinished = loop.unfinished()
    _renew_bounds(loop, len(unfinished))
    with contextlib.suppress(Deadlock, RunawayRun):
        # A task may start others while it ends, so the tasks are listed again after each turn.
        # A second cancellation would break off clean-up that waits; a task that goes on after
        # the first is reported. The closing of a generator is itself clean-up.
        while unfinished or loop._ready:
            for task in unfinished:
                if task not in asked and not closes(task):
                    asked.add(task)
                    task.cancel()
            loop.turn()
            unfinished = loop.unfinished()
    return unfinished
