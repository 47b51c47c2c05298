"""The entries about the code of an agent: its sleeps, its blocking calls, what it leaves behind.

No name and no place depends on the version of Python, as far as that is possible: `wait_for` makes
a task in some versions, so tasks that the program has not named have no name.
"""

import asyncio
import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from simloop.escape import writable
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.recorder import Recorder
from simloop.virtual.clock.listener import OpenSession, is_of_simloop, listened
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.clock.waits import name_of_task
from simloop.virtual.places import callers_place, place_of_error, place_of_task
from simloop.world.user_errors import describe
from simloop.world.world import World

MOST_IN_A_ROW = 200
"""How many of these entries a trace has in a row, without traffic between them."""


class AgentRecord:
    """Records what an agent's code does besides its traffic. It is a listener on the loop."""

    def __init__(self, recorder: Recorder, loop: VirtualLoop) -> None:
        self._recorder = recorder
        self._loop = loop
        self._earlier = set(loop.unfinished())
        self._earlier_threads = {name for name, _ in loop.unfinished_threads()}
        self._sessions: list[OpenSession] = []
        self._next = self._in_a_row = 0

    @property
    def hears(self) -> bool:
        """Return whether there is room for an entry, see `_record`."""
        return self._in_a_row <= MOST_IN_A_ROW or len(self._recorder.entries) != self._next

    def sleeps(self, wait_ns: int, place: str) -> None:
        """Record that a coroutine begins to sleep."""
        self._record(entries.Sleep, wait_ns, writable(place))

    def blocked(self, took_ns: int, place: str) -> None:
        """Record that a call has blocked the event loop."""
        self._record(entries.LoopBlocked, took_ns, writable(place))

    def cancels(self, task: asyncio.Task[Any]) -> None:
        """Record that the program cancels a task."""
        frame = sys._getframe(2)  # noqa: SLF001 - the code that calls `cancel`
        if is_of_simloop(frame):
            return
        running = asyncio.current_task(task.get_loop()) is task
        place = callers_place(frame) if running else place_of_task(task)
        self._record(entries.TaskCancelled, writable(name_of_task(task)), writable(place))

    def opens(self, session: OpenSession) -> None:
        """Note a session that the program uses."""
        self._sessions = [each for each in self._sessions if not each.is_closed()]
        if all(each.link is not session.link for each in self._sessions):
            self._sessions.append(session)

    def _record(self, kind: type[AnyEntry], *data: Any) -> None:
        """Record an entry, unless there were many of them since the last traffic.

        A program that does nothing but sleep would otherwise fill the trace, and look busy.
        """
        record = self._recorder.entries
        self._in_a_row = self._in_a_row + 1 if len(record) == self._next else 1
        if self._in_a_row <= MOST_IN_A_ROW:
            self._recorder.record(kind, *data)
            self._next = len(record)

    def end(self, unseen: Iterable[BaseException]) -> None:
        """Record what is left behind: sessions, tasks and threads that go on, `unseen` exceptions.

        Idle workers do not count.
        """
        # First: the tasks of a session go on because of it.
        for session in self._sessions:
            if not session.is_closed():
                place = writable(session.place)
                self._record(entries.LeftBehind, "session", session.name, place)
        current = asyncio.current_task(self._loop)
        for task in self._loop.unfinished():
            if task is current or task in self._earlier:
                continue
            place, name = place_of_task(task), writable(name_of_task(task))
            if place or name:  # a name is the program's, as in `create_task(sleep(9), name="tick")`
                self._record(entries.LeftBehind, "task", name, writable(place))
        for name, place in self._loop.unfinished_threads():
            if name not in self._earlier_threads:
                self._record(entries.LeftBehind, "thread", writable(name), writable(place))
        for error in unseen:
            place = writable(place_of_error(error))
            self._record(entries.LeftBehind, "exception", describe(error), place)


@contextlib.contextmanager
def recorded(world: World) -> Iterator[AgentRecord]:
    """Record what the code of an agent does in the block."""
    record = AgentRecord(world.model.recorder, world.model.loop)
    with listened(world.model.loop, record):
        yield record
