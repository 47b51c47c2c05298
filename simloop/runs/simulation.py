"""The public functions `run` and `arun`, and the Simulation behind them.

Not here: the course of one prompt (run_prompt.py) and the expectations (mismatch.py). The rule to
keep: a run is a pure function of the scenario, the seed and the caller's functions.
"""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Unpack

import msgspec

from simloop.engine.machine_agent import MachineAgent
from simloop.errors import (
    BrokenMachine,
    CannotExpress,
    CheckFailed,
    ExpectationFailed,
    InternalError,
    ScenarioError,
    ScriptExhausted,
    ScriptUnused,
    SimloopError,
)
from simloop.escape import escape
from simloop.kernel import signals
from simloop.kernel.machine import Feature
from simloop.messages import Message, Queue
from simloop.runs.account import account
from simloop.runs.assembly import (
    fake_model,
    features_of,
    python_code,
    settings_of,
    surroundings_of,
)
from simloop.runs.chosen_loop import ChosenLoop, choose_loop, repeat
from simloop.runs.mismatch import in_trace, mismatches_by_default
from simloop.runs.options import RunOptions, check_options, check_scenario
from simloop.runs.registry import reasons_against
from simloop.runs.result import Result
from simloop.runs.run_prompt import run_prompt
from simloop.runs.triggers import Triggers
from simloop.scenario.catalog import name_of
from simloop.scenario.expect import Expect
from simloop.scenario.schema import Scenario, Trigger
from simloop.trace import entries
from simloop.trace.codec import FORMAT, VERSION, digest
from simloop.trace.entries import Footer, Header
from simloop.trace.looptrace import LoopTrace
from simloop.trace.recorder import Listener, Recorder
from simloop.virtual.clock import VirtualLoop, run_virtual
from simloop.virtual.seeds import Seeds
from simloop.virtual.simulate import running_loop, simulate
from simloop.world.agent import Agent
from simloop.world.ending import Ending
from simloop.world.fake_model import FakeModel, FunctionModel, Model
from simloop.world.files import Files
from simloop.world.model_port import ModelPort
from simloop.world.tools import toolbox
from simloop.world.tools_port import ToolsPort
from simloop.world.user_errors import UserError, describe
from simloop.world.user_port import UserPort
from simloop.world.world import World


class Simulation:
    """One conversation: a run for each prompt of a scenario.

    `trace` exists from the start and grows; it stays complete no matter how the run ends.
    """

    def __init__(self, scenario: Scenario, **given: Unpack[RunOptions]) -> None:
        check_scenario(scenario)
        check_options(given)
        seed = given.get("seed")
        try:
            self._loop = chosen = choose_loop(scenario, given)
            self._check_features(features_of(scenario, given))
        except ScenarioError as error:
            error.path = scenario.path or None
            raise
        self._source, self._given = scenario, given
        self.scenario = scenario = chosen.scenario
        self.seeds = Seeds(scenario.seed if seed is None else seed)
        self._model = _choose_model(scenario, given.get("model"))
        self._files = None if scenario.files is None else Files(scenario.files)
        tools = toolbox(given.get("tools", ()))
        self._surroundings = surroundings_of(scenario, tools, self._model, self.seeds, self._files)
        policies = chosen.design.policies
        settings = settings_of(scenario, given, policies, self.seeds, self._surroundings.faulty)
        self._settings = settings
        self._agent: Agent | None = None
        self._python = (*python_code(given, tools), *(("loop",) if chosen.is_own else ()))
        self.trace = LoopTrace(_header(chosen, self.seeds.seed, self._python))
        self._listeners: list[Listener] = []
        self._world: World | None = None
        self._triggers: Triggers | None = None
        self._endings: list[Ending] = []
        self._under_way = False
        self._start_ns = 0

    def run(self) -> Result:
        """Run the scenario on the virtual clock. Raises the errors of the function `run`."""
        try:
            if self._python:
                return simulate(self.arun(), seed=self.seeds.seed)
            return run_virtual(self.arun())
        except CheckFailed as error:  # the clock's own findings do not pass through `arun`
            error.reproduce = self._reproduce()
            raise

    def _check_features(self, asked_for: Mapping[Feature, bool]) -> None:
        reasons = reasons_against(self._loop.design.lacks, asked_for)
        if reasons:
            raise CannotExpress(self._loop.name, reasons)

    @property
    def expected(self) -> Expect:
        """Return the expectations of the loop that runs the scenario."""
        return self._loop.expected

    async def arun(self) -> Result:
        """Run the scenario on the running virtual clock. Raises the errors of `run`."""
        if self._world is not None:
            raise ScenarioError("this simulation has been run", hint="make another one")
        try:
            waiting = [self.scenario.prompt, *self.scenario.then]
            while waiting:
                await self.send(waiting.pop(0))
                waiting = [*self.unheard(), *waiting]
            result = self._result()
            self._check_account(result)
        except CheckFailed as error:
            error.reproduce = error.reproduce or self._reproduce()
            if isinstance(error, ScriptExhausted | ScriptUnused):
                error.path = self.scenario.path or None
            if isinstance(error, ScriptExhausted) and self._loop.name != self.scenario.loop:
                error.hint = f"add a reply, or {self._elsewhere('{error: ScriptExhausted}')}"
            raise
        except ScenarioError as error:
            error.path = error.path or self.scenario.path or None
            raise
        found = mismatches_by_default(self.expected, result)
        return dataclasses.replace(result, mismatches=found) if found else result

    async def send(self, prompt: str) -> Ending:
        """Run one prompt to its outcome; earlier messages stay in the context."""
        if self._under_way:
            raise ScenarioError(
                "a run of this simulation is under way, or was cut short", hint="make another one"
            )
        world = self._world or self._open_world(running_loop())
        # Made here and not before: the constructor of an agent may look at the clock.
        agent = self._agent = self._agent or self._loop.design.agent(self._settings)
        task = asyncio.current_task()
        assert task is not None
        self.trace.footer = None
        world.model.recorder.record(entries.Prompt, prompt)
        world.user.begin(task, self.scenario.limits.max_wall_clock_ms)
        self._plan_abort(world)
        self._under_way = True
        try:
            ending = await run_prompt(agent, prompt, world)
        except (Exception, SystemExit) as error:  # a machine is somebody's code
            self._blame_machine(error)
            raise
        self._under_way = False
        self._endings.append(ending)
        self.trace.footer = Footer(len(self.trace.entries), self._elapsed_ns())
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
        if any(moment.after for moment in (*scenario.queue, scenario.abort) if moment is not None):
            self._triggers = Triggers(loop)
            recorder.listen(self._triggers)
        for listener in self._listeners:
            recorder.listen(listener)
        self._schedule_queued(world, loop)
        return world

    def _blame_machine(self, error: Exception | SystemExit) -> None:
        """Raise BrokenMachine for an error that only the user's own machine can cause."""
        if (
            isinstance(self._agent, MachineAgent)
            and self._loop.is_own
            and (isinstance(error, InternalError) or not isinstance(error, SimloopError))
        ):
            raise BrokenMachine(
                f"the loop `{escape(self._loop.name)}` is broken: {escape(describe(error))}\n"
                f"find out where with: {escape(self._loop.explore)}",
                reproduce=self._reproduce(),
            ) from error

    @property
    def exceptions(self) -> tuple[UserError, ...]:
        """Return the exceptions that functions of the user raised so far."""
        return () if self._world is None else tuple(self._world.model.raised)

    @property
    def is_reproduced_by_its_file(self) -> bool:
        """Return whether the command line can repeat this run without code of the caller."""
        others = [name for name in self._python if name != "loop"]
        return bool(self.scenario.path) and self._loop.has_name and not others

    def account(self, command: str = "") -> str:
        """Return the end of the run's timeline, then the command that repeats the run."""
        shown = account(self.trace, (), self.exceptions).lstrip("\n")
        return f"{shown}\nreproduce: {escape(command or self._reproduce())}"

    def _elapsed_ns(self) -> int:
        return running_loop().now_ns - self._start_ns

    def unheard(self) -> list[str]:
        """Return the user messages sent while a loop without a queue was busy: the next prompt."""
        if Feature.QUEUE not in self._loop.design.lacks or self._world is None:
            return []
        return self._world.user.take(one=True)

    def expects(self, error: SimloopError) -> bool:
        """Return whether the scenario expects `error` instead of an outcome.

        Raises ExpectationFailed if it does, and another of its expectations does not hold.
        """
        expect = self.expected
        if expect.error != type(error).__name__:
            return False
        unmet = tuple(in_trace(expect, self.trace.entries))
        if unmet:
            raise ExpectationFailed("\n".join(map(str, unmet)), reproduce=self._reproduce())
        return True

    def _missed(self) -> list[str]:
        """Return the places of the user actions whose moment never came."""
        moments = self.scenario.moments().items()
        return [place for place, moment in moments if not self._has_come(moment)]

    def _has_come(self, moment: Trigger) -> bool:
        if moment.at is not None:
            return moment.at <= self._elapsed_ns()
        assert self._triggers is not None
        return self._triggers.has_shown(moment)

    def _check_account(self, result: Result) -> None:
        """Raise ScriptUnused for unused replies and moments, with how the run ended.

        The error states the outcome, because ending early often explains unused replies.
        """
        expect = self.expected
        error = self._left_over()
        if error is None or expect.unused is not None:
            return  # compared with the other expectations
        error.others = (f"it ended with {result.outcome}: {result.message}",)
        if self._loop.name == self.scenario.loop:
            error.others += tuple(map(str, mismatches_by_default(expect, result)))
        else:
            says = f"{{outcome: {result.outcome}, unused: {result.unused}}}"
            error.hint = self._elsewhere(says)
        raise error

    def _elsewhere(self, says: str) -> str:
        """Return the advice to state `says` for this loop, which is not the scenario's own."""
        name = name_of(self.scenario.path)
        if name and self._loop.is_own:  # nobody can change the file
            return f"say what this loop does in its `expect_on`, or with --expect: {name}: {says}"
        if not self._loop.has_name:  # a file names only loops that it can find
            return f"say in Python what this loop does, in expect_on[{self._loop.name!r}]: {says}"
        return f"say under expect_on what this loop does: {self._loop.name}: {says}"

    def _unused(self) -> list[str]:
        """Return the places of unused replies, and of moments that never came."""
        replies = self._model.unused() if isinstance(self._model, FakeModel) else []
        return [*replies, *self._missed()]

    def _left_over(self) -> ScriptUnused | None:
        missed = self._missed()
        told = f"these moments never came: {', '.join(missed)}"
        try:
            if isinstance(self._model, FakeModel):
                self._model.check_account()
        except ScriptUnused as error:
            error.message += f"; {told}" if missed else ""
            return error
        hint = "find out why it ended early, or delete them"
        return ScriptUnused(told, key=missed[0], hint=hint) if missed else None

    def _schedule_queued(self, world: World, loop: VirtualLoop) -> None:
        """Schedule the user's messages during a run, and an abort that waits for the trace."""
        if self.scenario.abort is not None and self.scenario.abort.after is not None:
            self._on(self.scenario.abort, world.user.stop)
        planned = []
        for queued in self.scenario.queue:
            queue = Queue.FOLLOW_UP if queued.follow_up else Queue.STEERING
            if queued.at is not None:
                planned.append((loop.now_ns + queued.at, queue, queued.say))
            else:
                self._on(queued, partial(world.user.send, queued.say, queue))
        world.user.plan(planned)

    def _plan_abort(self, world: World) -> None:
        """Schedule the user's abort of this run, unless its time is over."""
        abort = self.scenario.abort
        if abort is not None and abort.at is not None:
            when_ns = self._start_ns + abort.at
            if not self._endings or when_ns > running_loop().now_ns:
                world.user.cancellation.plan(when_ns, signals.AbortRequested())

    def _on(self, moment: Trigger, act: Callable[[], None]) -> None:
        assert self._triggers is not None
        self._triggers.set(moment, act)

    def listen(self, listener: Listener) -> None:
        """Call `listener` with each entry of the trace. To be called before the first prompt."""
        self._listeners.append(listener)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the conversation so far; that of an agent of the user's own is not known."""
        return self._agent.messages if isinstance(self._agent, MachineAgent) else ()

    def queue(self, text: str, *, follow_up: bool = False) -> None:
        """Send a user message, read with the next request or when the run would otherwise end."""
        world = self._world or self._open_world(running_loop())
        world.user.send(text, Queue.FOLLOW_UP if follow_up else Queue.STEERING)

    def abort(self) -> None:
        """Stop the run as its user would; callable from tools, hooks, callbacks and timers."""
        if self._world is not None:
            self._world.user.stop()

    def _result(self) -> Result:
        """Return the result of the conversation."""
        ending = self._endings[-1]
        return Result(
            outcome=ending.outcome,
            outcomes=tuple(each.outcome for each in self._endings),
            text=ending.text,
            message=ending.message,
            limit=ending.limit,
            counters=ending.counters,
            messages=self.messages,
            elapsed_ns=self._elapsed_ns(),
            trace=self.trace,
            files=None if self._files is None else self._files.snapshot(),
            left_over=tuple(self._unused()),
            exceptions=self.exceptions,
            reproduce=self._reproduce(),
        )

    def _reproduce(self) -> str:
        return repeat(self._source, self._given, self.seeds.seed, "run", "simloop.run")


def run(scenario: Scenario, **given: Unpack[RunOptions]) -> Result:
    """Run a scenario and return how it ended. `RunOptions` lists the other options.

    Raises ScriptExhausted or ScriptUnused if the script does not fit the run, Deadlock or
    RunawayRun if the run does not end, ScenarioError for a scenario that cannot run. An expectation
    that does not hold raises nothing: see `Result.failures` and `Result.check`.
    """
    return Simulation(scenario, **given).run()


async def arun(scenario: Scenario, **given: Unpack[RunOptions]) -> Result:
    """Run a scenario on the clock of `simulate`, inside a coroutine that `simulate` runs.

    Takes the options of `run`, and raises its errors.
    """
    return await Simulation(scenario, **given).arun()


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
