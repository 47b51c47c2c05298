"""The agent of document 001: iterate over a run, or listen to it.

    agent = Agent(scenario, loop="pi")
    agent.on("tool_call", lambda event: print(event.tool_call.name))
    async for event in agent.run("Create hello.ts"):
        ...

Not here: what the events are (trace/exports/pi_events.py and its neighbours). The rules to keep: an
event is told at the virtual time of the entry that makes it, in the order of the trace, and to
listeners before whoever iterates; an abort or a message in answer to it comes before the next tool
or model call, also where no time passes; nobody polls, and a run without an Agent pays nothing.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Literal, Protocol, Unpack, get_args

from simloop.errors import ScenarioError
from simloop.kernel.policies import ToolOrder
from simloop.loops.opencode import OpencodeLoop
from simloop.loops.pi import PiLoop
from simloop.messages import Message
from simloop.runs.assembly import scripted_tools, tool_execution_of
from simloop.runs.options import RunOptions
from simloop.runs.own_loop import GivenLoop
from simloop.runs.registry import machine_for
from simloop.runs.simulation import Simulation
from simloop.runs.triggers import Triggers
from simloop.scenario.schema import Scenario
from simloop.trace.entries import AnyEntry, Footer
from simloop.trace.exports.event import Event
from simloop.trace.exports.opencode_events import OpencodeEvents
from simloop.trace.exports.pi_events import DocumentEvents
from simloop.trace.exports.pi_program_events import ProgramEvents
from simloop.trace.looptrace import LoopTrace
from simloop.virtual.simulate import running_loop
from simloop.world.tools import Tools, toolbox

Names = Literal["document", "program"]
_KNOWN = f"there are {', '.join(get_args(Names))}"


class EventView(Protocol):
    """What turns the lines of a trace into events. `names` are their types."""

    names: tuple[str, ...]

    def feed(self, line: AnyEntry | Footer) -> Sequence[Event]:
        """The events that the next line makes."""
        ...


def event_view(scenario: Scenario, loop: GivenLoop, names: Names, tools: Tools = ()) -> EventView:
    """The events of a run of `scenario` on `loop`: the document's, or the real program's.

    `tools` are those that were given besides the scenario's. The events of document 001 can be told
    of any loop. Raises ScenarioError if nobody has written down the events of the real program.
    """
    if names not in get_args(Names):
        raise ScenarioError(f"there are no events called `{names}`", key="events", hint=_KNOWN)
    machine = machine_for(loop, scenario.limits, scenario.loops)
    order = tool_execution_of(scenario, machine.policies).order
    parallel = order is ToolOrder.PARALLEL
    in_order = {
        name
        for name, tool in {**scripted_tools(scenario), **toolbox(tools)}.items()
        if tool.sequential
    }
    if names == "document":
        return DocumentEvents(parallel=parallel, sequential=in_order)
    if isinstance(machine, PiLoop):
        cut = bool(machine.options.refuse_cut_calls)
        return ProgramEvents(parallel=parallel, fails_cut_calls=cut, sequential=in_order)
    if isinstance(machine, OpencodeLoop):
        return OpencodeEvents(idles=2 if machine.options.idle_twice else 1)
    raise no_events(machine.name)


def no_events(loop: str) -> ScenarioError:
    """The error for a loop whose real program's events nobody has written down."""
    return ScenarioError(
        f"the events of the program behind `{loop}` are not known",
        key="events",
        hint="there are those of pi and of opencode, and the document's for every loop",
    )


class Agent:
    """A conversation with the loop of `scenario`, on the virtual clock that is running.

    The scenario supplies the model, the tools and the rest; its own prompts are not used. `events`
    chooses the names: those of document 001, or those of the real program. What else may be given:
    see `RunOptions`. Raises as Simulation does.
    """

    def __init__(
        self, scenario: Scenario, *, events: Names = "document", **given: Unpack[RunOptions]
    ) -> None:
        self._simulation = Simulation(scenario, **given)
        self._simulation.watch(_Watched(self._see))
        loop = given.get("loop") or scenario.loop
        self._view = event_view(scenario, loop, events, given.get("tools", ()))
        self._listeners: dict[str, list[Callable[[Any], Any]]] = {n: [] for n in self._view.names}
        self._worker: asyncio.Task[None] | None = None
        self._is_due = False  # a task has been made for a run, and has had no turn yet
        self.messages: tuple[Message, ...] = ()
        """The conversation as it was when the last run ended."""

    @property
    def trace(self) -> LoopTrace:
        """The trace of all runs so far. Its footer says how the last one ended; None during one."""
        return self._simulation.trace

    def on(self, name: str, listener: Callable[[Any], Any]) -> None:
        """Have `listener` called with each event of that name, before whoever iterates has it.

        It may be async. What it raises ends the run, and the iteration raises it. Raises
        ScenarioError for a name that no event has.
        """
        if name not in self._listeners:
            known = ", ".join(self._listeners)
            raise ScenarioError(f"there is no event `{name}`", hint=f"there are {known}")
        self._listeners[name].append(listener)

    async def run(self, prompt: str) -> AsyncGenerator[Event, None]:
        """Run `prompt`; what was said before stays in the context.

        Whoever leaves the iteration early, or is cancelled, cancels the run, and the conversation
        cannot go on. That happens when the iterator is closed: at once with
        `contextlib.aclosing`, else when Python collects it. The run does not wait for whoever
        iterates. Raises ScenarioError during another run, and what `simloop.run` raises.
        """
        if self._worker is not None and not self._worker.done():
            raise ScenarioError(
                "the agent is running already", hint="use steer or follow_up, or wait for its end"
            )
        self._is_due = True
        events = self._events = asyncio.Queue[Event | None]()
        worker = self._worker = running_loop().create_task(self._work(prompt), name="agent")
        try:
            while (event := await events.get()) is not None:
                for listener in tuple(self._listeners[event.type]):  # it may add one
                    told = listener(event)
                    if inspect.isawaitable(told):
                        await told
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
                ended = await self._simulation.send(waiting.pop())
                self.messages = ended.messages
                self._see(ended.entry(len(self.trace.entries), 0))
                waiting = self._simulation.unheard()
        finally:
            self._events.put_nowait(None)

    def _see(self, line: AnyEntry) -> None:
        for event in self._view.feed(line):
            self._events.put_nowait(event)

    def steer(self, text: str) -> None:
        """Say more, to be heard as soon as may be: with the next request."""
        self._simulation.queue(text)

    def follow_up(self, text: str) -> None:
        """Say more, to be heard when the run would otherwise be over.

        Of the loops that come with simloop only pi tells this from `steer`.
        """
        self._simulation.queue(text, follow_up=True)

    def abort(self) -> None:
        """Stop the run as its user would; without a run, of no effect.

        A loop whose document has no way to stop a run is stopped all the same, from outside.
        """
        self._simulation.abort()
        if self._is_due:  # its turn comes before this
            running_loop().call_soon(self._simulation.abort)


class _Watched(Triggers):
    """A trace that tells of each entry as it is appended, after the moments that it is one of."""

    def __init__(self, see: Callable[[AnyEntry], None]) -> None:
        super().__init__()
        self._see = see

    def append(self, entry: AnyEntry) -> None:
        super().append(entry)
        self._see(entry)
