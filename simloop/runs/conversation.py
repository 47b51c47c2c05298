"""A conversation: it offers a run's events to an iteration and to listeners.

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
from typing import Any, Unpack

from simloop.errors import ScenarioError
from simloop.kernel.policies import ToolOrder
from simloop.messages import Message
from simloop.runs.options import RunOptions
from simloop.runs.run import Simulation
from simloop.scenario.schema import Scenario
from simloop.trace.entries import AnyEntry
from simloop.trace.events import DocumentEvents, Event
from simloop.trace.looptrace import LoopTrace
from simloop.virtual.simulate import running_loop


def event_view(run: Simulation) -> DocumentEvents:
    """Return a view of the events of `run`."""
    in_order = {name for name, tool in run.tools.items() if tool.sequential}
    order = run.settings.tool_execution.order
    return DocumentEvents(parallel=order is ToolOrder.PARALLEL, sequential=in_order)


class Conversation:
    """A conversation with the loop of `scenario`, on the virtual clock that is running.

    The scenario supplies the model, the tools and the rest; its own prompts are not used.
    Raises the errors of `run`.
    """

    def __init__(self, scenario: Scenario, **given: Unpack[RunOptions]) -> None:
        self._run = Simulation(scenario, **given)
        self._run.listen(self._see)
        self._view = event_view(self._run)
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
