"""The agent: the code under test, its end, and the record of what its code does besides traffic.

In its record no name and no place depends on the version of Python: `wait_for` makes a task in some
versions, so tasks that the program has not named have no name.
"""

import asyncio
import contextlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary, ref

from msgspec import Struct

from simloop.errors import ScenarioError
from simloop.escape import writable
from simloop.messages import Counters, Outcome
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.recorder import Recorder
from simloop.virtual.clock.listener import OpenSession, is_of_simloop, listened
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.clock.waits import name_of_task
from simloop.virtual.places import callers_place, place_of_error, place_of_task
from simloop.virtual.threads.calls import call_in_thread
from simloop.world.services import SERVES
from simloop.world.user_functions import describe
from simloop.world.world import World

_TAKES_WORLD: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
"""The functions that were looked at: a signature takes longer than the rest of a plan."""
MOST_IN_A_ROW = 200
"""How many entries of an `AgentRecord` a trace has in a row, without traffic between them."""


class Agent(Protocol):
    """An agent: an async callable, called once for each prompt. `agent_from` makes it from others.

    It returns its last text, or None. An exception ends the prompt as failed; a request to stop
    cancels the call.
    """

    async def __call__(self, prompt: str, world: World) -> str | None:
        """Answer one prompt in `world`."""


def is_agent(made: Any) -> bool:
    """Return whether calls of `made`, or of its instances, are async or read a prompt."""
    return is_async(made) or reads(made) == "prompt"


def is_async(made: Any) -> bool:
    """Return whether `made` is an async function, or an object or a class with async calls."""
    call = getattr(made, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(made) or inspect.iscoroutinefunction(call)


def reads(made: Any) -> str:
    """Return what a function that is not async reads: `prompt`, `unclear`, or an empty text.

    It reads a prompt if its first parameter is called `prompt` or is a str, if the second is a
    world, or if it returns a str. An empty text is for anything that takes limits or no required
    first parameter, or an unnamed one.
    """
    try:
        signature = inspect.signature(_called(made))
    except (TypeError, ValueError):  # not callable, or written in C
        return ""
    parameters = [p for p in signature.parameters.values() if p.kind <= p.POSITIONAL_OR_KEYWORD]
    if not parameters or parameters[0].default is not inspect.Parameter.empty:
        return ""
    first = parameters[0]
    if first.name == "limits" or "Limits" in _written(first.annotation):
        return ""
    is_prompt = first.name == "prompt" or _written(first.annotation) == "str"
    has_world = any(p.name == "world" or "World" in _written(p.annotation) for p in parameters[1:2])
    returned = _written(signature.return_annotation).replace(" ", "")
    if is_prompt or has_world or returned in {"str", "str|None", "Optional[str]"}:
        return "prompt"
    return "" if first.name.startswith("_") else "unclear"


def _called(made: Any) -> Any:
    if not inspect.isclass(made):
        return made
    call = getattr(made, "__call__", None)  # noqa: B004
    return partial(call, None) if inspect.isfunction(call) else None


def _written(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def check_agent(made: Any, name: str) -> None:
    """Raise ScenarioError unless an agent, or the instances of a class, take a prompt."""
    _takes_world(_called(made), name)


def agent_from(made: Any, name: str) -> Agent:
    """Return an agent that passes on the arguments that `made` takes: a prompt, perhaps a world.

    One that is not async runs in a simulated thread, which ends where it waits if the prompt is
    stopped. Raises ScenarioError for an agent that takes other arguments.
    """
    takes_world, awaits = _takes_world(made, name), is_async(made)
    if takes_world and awaits:
        return cast("Agent", made)

    async def agent(prompt: str, world: World) -> str | None:
        call = partial(made, *((prompt, world) if takes_world else (prompt,)))
        answer: Any = call() if awaits else await call_in_thread(call, "agent")
        return cast("str | None", await answer if inspect.isawaitable(answer) else answer)

    return agent


def _takes_world(made: Any, name: str) -> bool:
    if not inspect.isfunction(made):
        return _binds_world(made, name)
    if made not in _TAKES_WORLD:
        _TAKES_WORLD[made] = _binds_world(made, name)
    return _TAKES_WORLD[made]


def _binds_world(made: Any, name: str) -> bool:
    signature = inspect.signature(made)
    second = [*signature.parameters.values()][1:2]
    alone = not any(each.default is each.empty or each.name == "world" for each in second)
    for count in (1, 2) if alone else (2, 1):
        with contextlib.suppress(TypeError):
            signature.bind(*range(count))
            return count > 1
    message = f"the agent `{name}` takes {signature}, not a prompt and a world"
    hint = "write `async def agent(prompt, world)`, or `def`; `world` may be left out"
    raise ScenarioError(message, key="loop", hint=hint)


class Ending(Struct, frozen=True):
    """The end of a run. `text` is the model's last text, `message` the message to the user."""

    outcome: Outcome
    limit: str = ""  # that ended the run, if one did
    message: str = ""
    text: str = ""
    counters: Counters | None = None  # of a machine
    exit: int | None = None  # the exit status of a whole program
    through: str = ""  # the framework that let the scripted failure of a tool end the run


class AgentRecord:
    """Records what an agent's code does besides its traffic. It is a listener on the loop."""

    def __init__(self, recorder: Recorder, loop: VirtualLoop) -> None:
        self._recorder = recorder
        self._loop = loop
        self._earlier = set(loop.unfinished())
        self._earlier_threads = {name for name, _ in loop.unfinished_threads()}
        self._sessions: list[OpenSession] = []
        self._changed: dict[ref[Any], str] = {}  # databases, with the newest place
        self._next = self._in_a_row = 0

    @property
    def hears(self) -> bool:
        """Return whether there is room for an entry, see `_record`."""
        return self._in_a_row <= MOST_IN_A_ROW or len(self._recorder.entries) != self._next

    def sleeps(self, wait_ns: int, place: str) -> None:
        if not SERVES.get():
            self._record(entries.Sleep, wait_ns, writable(place))

    def blocked(self, took_ns: int, place: str) -> None:
        self._record(entries.LoopBlocked, took_ns, writable(place))

    def held(self, took_ns: int, place: str) -> None:
        self._record(entries.LockHeld, took_ns, writable(place))

    def loses(self, rows: int, place: str) -> None:
        self._record(entries.LeftBehind, "transaction", f"{rows} changed rows", writable(place))

    def changes(self, database: Any, place: str) -> None:
        self._changed[ref(database)] = place

    def cancels(self, task: asyncio.Task[Any]) -> None:
        frame = sys._getframe(2)  # noqa: SLF001 - the code that calls `cancel`
        if is_of_simloop(frame) or SERVES.get():
            return
        running = asyncio.current_task(task.get_loop()) is task
        place = callers_place(frame) if running else place_of_task(task)
        self._record(entries.TaskCancelled, writable(name_of_task(task)), writable(place))

    def opens(self, session: OpenSession) -> None:
        self._sessions = [each for each in self._sessions if not each.is_closed()]
        if all(each.link is not session.link for each in self._sessions):
            self._sessions.append(session)

    def _record(self, kind: type[AnyEntry], *data: Any) -> None:
        """Record an entry, unless many came without traffic, as of a program that only sleeps."""
        record = self._recorder.entries
        self._in_a_row = self._in_a_row + 1 if len(record) == self._next else 1
        if self._in_a_row <= MOST_IN_A_ROW:
            self._recorder.record(kind, *data)
            self._next = len(record)

    def end(self, unseen: Iterable[BaseException]) -> None:
        """Record what is left behind: changes, sessions, tasks, threads, programs, exceptions."""
        for database, place in self._changed.items():
            if rows := getattr(database(), "uncommitted", 0):
                self.loses(rows, place)
        # First: the tasks of a session go on because of it.
        for session in self._sessions:
            if not session.is_closed():
                self._record(entries.LeftBehind, "session", session.name, writable(session.place))
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
        programs = [] if self._loop.processes is None else [*self._loop.processes.unfinished()]
        for name, place in programs:
            self._record(entries.LeftBehind, "program", writable(name), writable(place))
        for error in unseen:
            place = writable(place_of_error(error))
            self._record(entries.LeftBehind, "exception", describe(error), place)


@contextlib.contextmanager
def recorded(world: World) -> Iterator[AgentRecord]:
    """Record what the code of an agent does in the block."""
    record = AgentRecord(world.model.recorder, world.model.loop)
    with listened(world.model.loop, record):
        yield record
