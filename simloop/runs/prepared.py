"""A scenario that is prepared to run: its loop, its world and its user.

Not here: what the scenario expects (simulation.py) and the events for an interface
(conversation.py). The rule to keep: a run is a pure function of the scenario, the seed and the
caller's functions.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from simloop.engine.machine_agent import MachineAgent
from simloop.errors import (
    BrokenMachine,
    CannotExpress,
    InternalError,
    ScenarioError,
    SimloopError,
)
from simloop.escape import escape
from simloop.kernel.machine import Feature
from simloop.messages import Message, Queue
from simloop.runs.assembly import (
    fake_model,
    features_of,
    python_code,
    settings_of,
    surroundings_of,
)
from simloop.runs.chosen_loop import ChosenLoop, choose_loop, repeat
from simloop.runs.design import AgentDesign
from simloop.runs.options import RunOptions, check_options, check_scenario
from simloop.runs.registry import reasons_against
from simloop.runs.request_bound import RequestBound
from simloop.runs.run_prompt import run_prompt
from simloop.runs.timetable import Timetable
from simloop.scenario.schema import Scenario
from simloop.trace import entries
from simloop.trace.codec import FORMAT, VERSION, digest
from simloop.trace.entries import Footer, Header
from simloop.trace.looptrace import LoopTrace
from simloop.trace.recorder import Listener, Recorder
from simloop.virtual.clock import VirtualLoop
from simloop.virtual.seeds import Seeds
from simloop.virtual.simulate import running_loop
from simloop.world.agent import Agent
from simloop.world.ending import Ending
from simloop.world.fake_model import FunctionModel, Model
from simloop.world.files import Files
from simloop.world.model_port import ModelPort
from simloop.world.tools import toolbox
from simloop.world.tools_port import ToolsPort
from simloop.world.user_errors import UserError, describe
from simloop.world.user_port import UserPort
from simloop.world.world import World


class PreparedRun:
    """One conversation: a run for each prompt that is sent.

    `trace` exists from the start and grows; it stays complete no matter how a run ends. `endings`
    are the ends of the runs so far. `python` names the code that a trace cannot hold.
    """

    def __init__(self, scenario: Scenario, given: RunOptions) -> None:
        check_scenario(scenario)
        check_options(given)
        seed = given.get("seed")
        try:
            self.loop = chosen = choose_loop(scenario, given)
            reasons = reasons_against(chosen.design.lacks, features_of(scenario, given))
            if reasons:
                raise CannotExpress(chosen.name, reasons)
        except ScenarioError as error:
            error.path = scenario.path or None
            raise
        self._source, self._given = scenario, given
        self.scenario = scenario = chosen.scenario
        self.seeds = Seeds(scenario.seed if seed is None else seed)
        self.model = _choose_model(scenario, given.get("model"))
        self.files = None if scenario.files is None else Files(scenario.files)
        tools = toolbox(given.get("tools", ()))
        self._surroundings = surroundings_of(scenario, tools, self.model, self.seeds, self.files)
        policies = chosen.design.policies
        self._settings = settings_of(
            scenario, given, policies, self.seeds, self._surroundings.faulty
        )
        self.python = (*python_code(given, tools), *(("loop",) if chosen.is_own else ()))
        self.trace = LoopTrace(_header(chosen, self.seeds.seed, self.python))
        self.endings: list[Ending] = []
        self._listeners: list[Listener] = []
        self._world: World | None = None
        self._timetable: Timetable | None = None
        self._agent: Agent | None = None
        self._under_way = False
        self._start_ns = 0

    @property
    def has_begun(self) -> bool:
        """Return whether a prompt has been sent."""
        return self._world is not None

    @property
    def exceptions(self) -> tuple[UserError, ...]:
        """Return the exceptions that functions of the user raised so far."""
        return () if self._world is None else tuple(self._world.model.raised)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the conversation so far; that of an agent of the user's own is not known."""
        return self._agent.messages if isinstance(self._agent, MachineAgent) else ()

    @property
    def elapsed_ns(self) -> int:
        """Return the virtual nanoseconds since the first prompt."""
        return running_loop().now_ns - self._start_ns

    @property
    def reproduce(self) -> str:
        """Return the command, or the call, that repeats the run."""
        return repeat(self._source, self._given, self.seeds.seed, "run", "simloop.run")

    async def send(self, prompt: str) -> Ending:
        """Run one prompt to its outcome; earlier messages stay in the context."""
        if self._under_way:
            raise ScenarioError(
                "a run of this conversation is under way, or was cut short",
                hint="make another one",
            )
        world = self._world or self._open_world(running_loop())
        # Made here and not before: the constructor of an agent may look at the clock.
        agent = self._agent = self._agent or self.loop.design.agent(self._settings)
        task = asyncio.current_task()
        assert task is not None
        assert self._timetable is not None
        self.trace.footer = None
        world.model.recorder.record(entries.Prompt, prompt)
        world.user.begin(task, self.scenario.limits.max_wall_clock_ms)
        self._timetable.plan_abort(first=not self.endings)
        self._under_way = True
        try:
            ending = await run_prompt(agent, prompt, world)
        except (Exception, SystemExit) as error:  # a machine is somebody's code
            self._blame_machine(error)
            raise
        self._under_way = False
        self.endings.append(ending)
        self.trace.footer = Footer(len(self.trace.entries), self.elapsed_ns)
        return ending

    def _open_world(self, loop: VirtualLoop) -> World:
        """Make the world of the conversation on the running loop."""
        scenario, around = self.scenario, self._surroundings
        recorder = Recorder(self.trace.entries, loop, scenario.max_trace_chars)
        raised: list[UserError] = []
        policy = self._settings.tool_execution
        user = UserPort(recorder, loop)
        self._world = world = World(
            ModelPort(around.model, recorder, loop, raised, user.cancellation),
            ToolsPort(around.tools, recorder, loop, raised, policy.timeout_ms),
            user,
        )
        self._start_ns = loop.now_ns
        self._timetable = Timetable(scenario, world)
        if isinstance(self.loop.design, AgentDesign):  # the engine bounds its transitions itself
            recorder.listen(RequestBound(recorder, around.model, scenario.max_transitions))
        for listener in self._listeners:
            recorder.listen(listener)
        return world

    def _blame_machine(self, error: Exception | SystemExit) -> None:
        """Raise BrokenMachine for an error that only the user's own machine can cause."""
        if (
            isinstance(self._agent, MachineAgent)
            and self.loop.is_own
            and (isinstance(error, InternalError) or not isinstance(error, SimloopError))
        ):
            raise BrokenMachine(
                f"the loop `{escape(self.loop.name)}` is broken: {escape(describe(error))}\n"
                f"find out where with: {escape(self.loop.explore)}",
                reproduce=self.reproduce,
            ) from error

    def next_prompt(self) -> list[str]:
        """Return the first message that a loop without a queue has left, which is a prompt then."""
        if Feature.QUEUE not in self.loop.design.lacks or self._world is None:
            return []
        return self._world.user.take(one=True)

    def never_came(self) -> list[str]:
        """Return the places in the file of the user's actions whose moment has not come."""
        return [] if self._timetable is None else self._timetable.never_came()

    def listen(self, listener: Listener) -> None:
        """Call `listener` with each entry of the trace. To be called before the first prompt."""
        self._listeners.append(listener)

    def queue(self, text: str, *, follow_up: bool = False) -> None:
        """Send a user message, read with the next request or when the run would otherwise end."""
        world = self._world or self._open_world(running_loop())
        world.user.send(text, Queue.FOLLOW_UP if follow_up else Queue.STEERING)

    def abort(self) -> None:
        """Stop the run as its user would; callable from tools, hooks, callbacks and timers."""
        if self._world is not None:
            self._world.user.stop()


def _choose_model(scenario: Scenario, model: Model | Callable[..., Any] | None) -> Model:
    if model is None:
        return fake_model(scenario)
    if scenario.model or scenario.summaries:
        raise ScenarioError(
            "there are two models: a script in the scenario, and `model`",
            key="model",
            hint="leave one of them out",
        )
    return model if hasattr(model, "stream") else FunctionModel(model)


def _header(loop: ChosenLoop, seed: int, python: tuple[str, ...]) -> Header:
    scenario = loop.scenario
    whole = scenario.model_dump_json(exclude_defaults=True, by_alias=True).encode()
    return Header(
        format=FORMAT,
        version=VERSION,
        title=scenario.title,
        loop=loop.name,
        seed=seed,
        scenario_digest=digest(whole),
        scenario=msgspec.Raw(whole),
        limits=loop.limits,
        python=python,
        judge_as=loop.judge_as,
    )
