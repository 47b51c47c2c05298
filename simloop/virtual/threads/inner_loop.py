"""The event loops that a program makes inside a simulation, as `asyncio.run` in a thread does.

Such a loop is one of asyncio whose waiting parks its thread on the virtual clock. Nothing of it is
real, so it has no selector, no pipe and no signals.
"""
# ruff: noqa: SLF001 - a loop works on the private parts of asyncio's own
# typeshed ties the type of a callback to its arguments; a loop passes both on unseen.
# mypy: disable-error-code="override"

import asyncio
import sys
import weakref
from typing import Any

from simloop.virtual.clock.instants import NEVER_S
from simloop.virtual.clock.listener import heard_timer
from simloop.virtual.clock.loop import VirtualLoop, refuse_methods
from simloop.virtual.clock.tasks import NumberedTask, dropped, note_awaiter, of_finalizer
from simloop.virtual.threads.scheduler import SimulatedThread, thread_here

_OF_THE_OUTER = frozenset({"stop", "run_forever", "run_until_complete"})


class _Waiting:
    """In the place of a selector: it waits in virtual time, and finds nothing."""

    def __init__(self, loop: "InnerLoop") -> None:
        self._loop = loop
        self._thread: SimulatedThread | None = None
        self._is_woken = False

    def select(self, timeout: float | None = None) -> list[Any]:
        """Park the thread until `wake` or for `timeout` seconds; without end if it is None."""
        me = thread_here()
        if me is not None and not self._is_woken and (timeout is None or timeout > 0):
            self._thread = me
            try:
                me.threads.park_for(me, timeout, "its event loop")
            finally:
                self._thread = None
        self._is_woken = False
        return []

    def wake(self) -> None:
        """End the wait in `select`, or the next one."""
        self._is_woken = True
        if self._thread is not None:
            self._thread.threads.wake(self._thread)


class InnerLoop(asyncio.BaseEventLoop):
    """An event loop of a simulated thread, on the clock of the virtual loop `outer`."""

    def __init__(self, outer: VirtualLoop) -> None:
        super().__init__()
        self.outer = outer
        self._selector = _Waiting(self)
        # In order of first use: asyncio's own WeakSet is ordered by `id()`.
        self._asyncgens: Any = weakref.WeakKeyDictionary()
        self._clock_resolution = 1e-9
        self._task_factory: Any = None

    def time(self) -> float:
        """Return virtual seconds since the start of the run."""
        return self.outer.time()

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        """Call after `delay` seconds; an infinite delay is a very long one."""
        callback = heard_timer(self.outer, self, delay, callback)
        return super().call_later(min(delay, NEVER_S), callback, *args, context=context)

    def create_task(self, coro: Any, *, name: object = None, **kwargs: Any) -> asyncio.Task[Any]:
        """Create a task with a name that counts per run, and a hash that does too."""
        caller = sys._getframe(1)
        if of_finalizer(caller):
            return dropped(coro, self)
        number, default = self.outer.next_task()
        self._check_closed()  # type: ignore[attr-defined]
        name = default if name is None else name
        if self._task_factory is not None:
            return super().create_task(coro, name=name, **kwargs)
        task = NumberedTask(number, coro, loop=self, name=name, **kwargs)
        note_awaiter(task, caller)
        return task

    def _asyncgen_firstiter_hook(self, generator: Any) -> None:
        self._asyncgens.setdefault(generator)

    def _process_events(self, events: list[Any]) -> None:
        """Do nothing: no file is watched."""

    def _write_to_self(self) -> None:
        self._selector.wake()

    def _refuse_method(self, name: str, advice: str, *_: object, **__: object) -> None:
        raise self.outer.refuse(name, advice)

    def __del__(self, *_: object) -> None:
        """Do nothing; this loop holds no sockets, so no leak warning is due."""


refuse_methods(InnerLoop, without=_OF_THE_OUTER)
