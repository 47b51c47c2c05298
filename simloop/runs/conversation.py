"""The conversation of document 001: it offers a run's events to an iteration and to listeners.

    conversation = Conversation(scenario, loop="pi")
    conversation.on("tool_call", lambda event: print(event.tool_call.name))
    async for event in conversation.run("Create hello.ts"):
        ...

An event arrives at the virtual time of the entry that makes it, in the order of the trace;
listeners receive it before the iteration does. An abort or a message in answer to an event takes
effect before the next tool or model call, even if no time passes. Nothing polls.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable
from typing import Any, Literal, TypeAlias, Unpack, get_args

from simloop.engine.hook_meter import HookCost
from simloop.errors import ScenarioError
from simloop.kernel.policies import ToolOrder
from simloop.loops.opencode import OpencodeLoop
from simloop.messages import Message
from simloop.runs.loop import called, loop_of
from simloop.runs.options import GivenLoop, RunOptions
from simloop.runs.plan import Plan, tool_execution_of
from simloop.runs.run import Simulation
from simloop.runs.scripted import scripted_tools
from simloop.scenario.schema import Scenario
from simloop.trace.entries import AnyEntry
from simloop.trace.exports.events import DocumentEvents, Event, SessionEvents
from simloop.trace.looptrace import LoopTrace
from simloop.virtual.simulate import running_loop
from simloop.world.tools import Tools, toolbox

Names = Literal["document", "session"]
_KNOWN = f"there are {', '.join(get_args(Names))}"


EventView: TypeAlias = DocumentEvents | SessionEvents
"""A converter from the lines of a trace to events."""


def event_view(scenario: Scenario, loop: GivenLoop, names: Names, tools: Tools = ()) -> EventView:
    """Return a view of the events of `scenario` on `loop`: those of document 001, or of 004.

    `tools` are the caller's tools besides the scenario's. Every loop has the events of document
    001 (`document`), and opencode also the session's of document 004 (`session`). Raises
    ScenarioError for a loop without them.
    """
    if names not in get_args(Names):
        raise ScenarioError(f"there are no events called `{names}`", key="events", hint=_KNOWN)
    chosen = loop_of(scenario, {"loop": loop})
    order = tool_execution_of(scenario, chosen.policies).order
    parallel = order is ToolOrder.PARALLEL
    in_order = {
        name
        for name, tool in {**scripted_tools(scenario), **toolbox(tools)}.items()
        if tool.sequential
    }
    if names == "document":
        return DocumentEvents(parallel=parallel, sequential=in_order)
    if isinstance(chosen.machine, OpencodeLoop):
        return SessionEvents()
    raise no_events(called(loop) if chosen.machine is None else chosen.machine.name)


def no_events(loop: str) -> ScenarioError:
    """Return the error for a loop that has no events of a session."""
    return ScenarioError(
        f"`{loop}` has no events of a session, which only opencode has",
        key="events",
        hint="choose the events `document`, which every loop has",
    )


class Conversation:
    """A conversation with the loop of `scenario`, on the virtual clock that is running.

    The scenario supplies the model, the tools and the rest; its own prompts are not used. `events`
    chooses the names: those of document 001, or the session's of document 004. `RunOptions` lists
    the other options. Raises the errors of `run`.
    """

    def __init__(
        self, scenario: Scenario, *, events: Names = "document", **given: Unpack[RunOptions]
    ) -> None:
        self._run = Simulation(Plan(scenario, given))
        self._run.listen(self._see)
        loop = given.get("loop") or scenario.loop
        self._view = event_view(scenario, loop, events, given.get("tools", ()))
        self._listeners: dict[str, list[Callable[[Any], Any]]] = {n: [] for n in self._view.names}
        self._worker: asyncio.Task[None] | None = None
        self._is_due = False  # a task for a run exists, and has not started yet
        self.messages: tuple[Message, ...] = ()
        """The conversation at the end of the last run."""

    @property
    def trace(self) -> LoopTrace:
        """Return the trace of all runs so far.

        Its footer states how the last run ended; during a run the footer is None.
        """
        return self._run.trace

    @property
    def hook_cost(self) -> tuple[HookCost, ...] | None:
        """Return the real time of each hook so far, or None without the option `hook_cost`."""
        return self._run.hook_cost

    def on(self, name: str, listener: Callable[[Any], Any]) -> None:
        """Call `listener` with each event of that name, before the iteration receives the event.

        The listener may be async. An exception of the listener ends the run, and the iteration
        raises it. Raises ScenarioError for a name that no event has.
        """
        if name not in self._listeners:
            known = ", ".join(self._listeners)
            raise ScenarioError(f"there is no event `{name}`", hint=f"there are {known}")
        self._listeners[name].append(listener)

    async def run(self, prompt: str) -> AsyncGenerator[Event, None]:
        """Run `prompt` and yield its events; earlier messages stay in the context.

        Leaving the iteration early, or cancelling it, cancels the run, and the conversation
        cannot go on. The cancellation happens when the iterator is closed: at once with
        `contextlib.aclosing`, else when Python collects it. The run does not wait for its
        consumer. Raises ScenarioError during another run, and the errors of `simloop.run`.
        """
        if self._worker is not None and not self._worker.done():
            raise ScenarioError(
                "the conversation is running already",
                hint="use steer or follow_up, or wait for its end",
            )
        self._is_due = True
        events = self._events = asyncio.Queue[Event | None]()
        worker = self._worker = running_loop().create_task(self._work(prompt), name="conversation")
        try:
            while (event := await events.get()) is not None:
                for listener in tuple(self._listeners[event.type]):  # it may add one
                    answer = listener(event)
                    if inspect.isawaitable(answer):
                        await answer
                yield event
            await worker
        finally:
            worker.cancel()
            await asyncio.wait([worker])

    async def _work(self, prompt: str) -> None:
        self._is_due = False
        try:
            waiting = [prompt]
            while waiting:  # what a loop without a queue has not heard is its next prompt
                await self._run.send(waiting.pop())
                self.messages = self._run.messages
                waiting = self._run.next_prompt()
        finally:
            self._events.put_nowait(None)

    def _see(self, line: AnyEntry) -> None:
        for event in self._view.feed(line):
            self._events.put_nowait(event)

    def steer(self, text: str) -> None:
        """Send a user message during the run; the next request contains it."""
        self._run.queue(text)

    def follow_up(self, text: str) -> None:
        """Send a user message that the loop reads when the run would otherwise end.

        Among the bundled loops only pi distinguishes this from `steer`.
        """
        self._run.queue(text, follow_up=True)

    def abort(self) -> None:
        """Stop the run as its user would; without a run, do nothing.

        If the loop's document has no way to stop a run, the call cancels the run from outside.
        """
        self._run.abort()
        if self._is_due:  # its turn comes before this
            running_loop().call_soon(self._run.abort)
