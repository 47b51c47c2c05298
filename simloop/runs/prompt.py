"""The course of one prompt around an agent, from its prompt entry to its end entry.

Every run has exactly one prompt entry and, with an outcome, one end entry.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

from msgspec.structs import astuple

from simloop.engine.machine_agent import MachineAgent
from simloop.errors import ScenarioError, SimloopError
from simloop.escape import writable
from simloop.kernel.signals import AbortRequested
from simloop.messages import Message, Outcome, Queue
from simloop.scenario.schema import Scenario, Trigger
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.kinds import KINDS, NAME, PART
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.clock.timeouts import GRACE_NS
from simloop.world.agent import Agent, AgentRecord, Ending, recorded
from simloop.world.services import ServiceThread
from simloop.world.user_functions import describe, framework_around, is_of_the_program, keep
from simloop.world.world import World

_TURNS = 100  # that a thread may take to end
_PARTS = {kind: ("part",) if each.trigger == PART else () for kind, each in KINDS.items()}
_NAMES = {kind: (NAME[kind], *parts) for kind, parts in _PARTS.items()}
"""The names by which a trigger may await an entry, by its kind."""

UNSEEN = "a task or a callback of the agent, and no code looked at it"
"""The origin of an exception that asyncio only logs."""


class OwnAgent:
    """An agent of the user's own: an exception ends it as failed, unless it was asked to stop."""

    messages: tuple[Message, ...] = ()

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def answer(self, prompt: str, world: World) -> Ending:
        with recorded(world) as code:
            return await _ending_of(self._agent, prompt, world, code)


Performer: TypeAlias = MachineAgent | OwnAgent
"""An agent in a conversation: one that the engine drives, or the user's own."""


async def run_prompt(agent: Performer, prompt: str, world: World) -> Ending:
    """Run `agent` on `prompt` and return its end. Raises the errors of simloop."""
    recorder, loop = world.model.recorder, world.model.loop
    start_ns = loop.now_ns
    try:
        ending = await agent.answer(prompt, world)
    finally:
        world.user.cancellation.close()
    *said, counters, status, through = astuple(ending)
    recorder.record(entries.Ended, *said, loop.now_ns - start_ns, counters, status, through)
    return ending


async def _ending_of(agent: Agent, prompt: str, world: World, code: AgentRecord) -> Ending:
    cancellation, recorder, loop = world.user.cancellation, world.model.recorder, world.model.loop
    record = recorder.entries
    task = asyncio.current_task()
    assert task is not None
    text, failure, through, outside = None, None, "", task.cancelling()
    exits: list[BaseException] = []

    def end_by(error: BaseException) -> None:
        if not exits:  # one cancellation, as when asyncio ends a program
            task.cancel()
        exits.append(error)

    loop.raises_unseen, loop.on_exit = False, end_by
    try:
        text = await agent(prompt, world)
    except asyncio.CancelledError as error:
        if cancellation.pending is None and recorder.error is None and not exits:
            if task.cancelling() > outside:
                raise  # another task cancels the run, and not its user
            failure = _kept(error, world)  # it cancelled itself; nobody asked (bug D4)
    except SimloopError:
        raise
    except BaseException as error:
        if not is_of_the_program(error, loop):
            raise
        failure, through = _kept(error, world), framework_around(error)
    finally:
        loop.on_exit = lambda _: None  # by what the agent left behind, which simloop ends
    unseen = loop.take_unseen()
    for each in unseen:
        keep(world.model.raised, UNSEEN, each)
    if exits:  # a task of the agent ended the program; whatever the agent made of that is void
        task.uncancel()
        failure = _kept(exits[0], world)
    if recorder.error is not None:
        raise recorder.error
    code.end(unseen)
    if cancellation.pending is not None:
        aborted = isinstance(cancellation.take(), AbortRequested)
        outcome, limit = (Outcome.ABORTED, "") if aborted else (Outcome.TIMED_OUT, "max_wall_clock")
        return Ending(outcome, limit, outcome.message(), _last_text(record))
    if failure is not None:
        cause = Outcome.FAILED.message(cause=failure)
        return Ending(Outcome.FAILED, "", cause, _last_text(record), through=through)
    said = _checked(text)
    return Ending(Outcome.COMPLETED, "", said, said)


def _kept(error: BaseException, world: World) -> str:
    keep(world.model.raised, "the agent", error)
    return describe(error)


def _checked(text: Any) -> str:
    if text is not None and not isinstance(text, str):
        message = f"the agent returned {type(text).__name__}, not a text"
        raise ScenarioError(message, key="loop", hint="return its last text, or None")
    return writable(text or "")


def _last_text(record: Sequence[AnyEntry]) -> str:
    pieces: list[str] = []
    number = None
    for entry in reversed(record):
        if isinstance(entry, entries.TextDelta) and number in (None, entry.request):
            number = entry.request
            pieces.append(entry.text)
        elif isinstance(entry, entries.Prompt) or (
            isinstance(entry, entries.Request) and entry.number == number
        ):
            break
    return "".join(reversed(pieces))


async def end_rest(loop: VirtualLoop) -> None:
    """End the tasks and threads that an agent has left running, as the end of its process does."""
    tasks = [each for each in loop.unfinished() if each is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    if tasks:
        ended, _ = await asyncio.wait(tasks, timeout=GRACE_NS / 1e9)
        for task in ended:
            if not task.cancelled():
                task.exception()  # nobody is left to look at it
    threads = [] if loop.threads is None else loop.threads.interrupt(ServiceThread)
    for _ in range(_TURNS):
        if all(each.is_done for each in threads):
            break
        await asyncio.sleep(0)


class Timetable:
    """The planned actions of a scenario's user in one world, which begins with it.

    An action does not happen inside the component that records its trigger: it is scheduled, and
    happens when the agent next gives other tasks their turn, as an action of a real user would.
    """

    def __init__(self, scenario: Scenario, world: World) -> None:
        self._abort = scenario.abort
        self._loop: VirtualLoop = world.model.loop
        self._user = world.user
        self._start_ns = self._loop.now_ns
        self._triggers: dict[str, Trigger] = {}
        self._acts: dict[tuple[str, int], list[Callable[[], None]]] = {}
        self._seen = Counter[str]()  # the entries, by their names
        if scenario.queue or scenario.abort is not None:
            self._triggers = scenario.triggers()
            if any(trigger.after for trigger in self._triggers.values()):
                world.model.recorder.listen(self._see)
            if self._abort is not None and self._abort.after is not None:
                self._set(self._abort, self._user.stop)
            planned = []
            for queued in scenario.queue:
                queue = Queue.FOLLOW_UP if queued.follow_up else Queue.STEERING
                if queued.at is not None:
                    planned.append((self._start_ns + queued.at, queue, queued.say))
                else:
                    self._set(queued, partial(self._user.send, queued.say, queue))
            self._user.plan(planned)

    def _set(self, trigger: Trigger, act: Callable[[], None]) -> None:
        self._acts.setdefault((str(trigger.after), trigger.nth), []).append(act)

    def _see(self, entry: AnyEntry) -> None:
        for name in _NAMES[type(entry)]:
            self._seen[name] += 1
            for act in self._acts.get((name, self._seen[name]), ()):
                self._loop.call_soon(act)

    def plan_abort(self, *, first: bool) -> None:
        """Plan the abort of the run that begins, unless its time was in an earlier run."""
        if self._abort is None or self._abort.at is None:
            return
        when_ns = self._start_ns + self._abort.at
        if first or when_ns > self._loop.now_ns:
            self._user.cancellation.plan(when_ns, AbortRequested())

    def never_came(self, elapsed_ns: int) -> list[str]:
        """Return the places of the actions that did not happen in a run that took so long."""
        return [
            place
            for place, each in self._triggers.items()
            if (self._seen[str(each.after)] < each.nth if each.at is None else each.at > elapsed_ns)
        ]
