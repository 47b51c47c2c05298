"""One run of a plan, with one seed: its world, its prompts, and its result."""

import asyncio
import contextlib
import gc
import inspect
import warnings
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar, Unpack

from msgspec.structs import asdict, replace

from simloop import errors
from simloop.escape import escape, writable
from simloop.kernel.machine import Feature
from simloop.messages import Message, Outcome, Queue
from simloop.runs.garbage import collected
from simloop.runs.options import RunOptions, check_scenario
from simloop.runs.plan import Plan
from simloop.runs.prompt import Performer, Timetable, end_rest, run_prompt
from simloop.runs.result import Result, check_tool_settings, mismatches_by_default, nearest_sent
from simloop.runs.scripts import Scripts
from simloop.scenario.catalog import name_of
from simloop.scenario.people import Then
from simloop.scenario.schema import Scenario
from simloop.trace import entries, looptrace
from simloop.trace.entries import Footer
from simloop.trace.recorder import Listener, Recorder
from simloop.virtual.border.output import Output
from simloop.virtual.border.seal import kept_border
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.seeds import Seeds
from simloop.virtual.simulate import run_virtual, running_loop, simulate
from simloop.wire.clients.interception import intercept, interception
from simloop.world import fake_model, files, model_port, tools_port, user_port
from simloop.world.agent import Ending
from simloop.world.user_functions import UserError, describe, is_of_the_program
from simloop.world.world import World, inhabited

T = TypeVar("T")


class _Course(NamedTuple):
    """The course of a run, as a fork tells it."""

    trace: looptrace.LoopTrace
    endings: list[Ending]
    exceptions: tuple[UserError, ...]
    error: errors.SimloopError | None
    output: Output
    bodies: Mapping[int, bytes]


_Told: TypeAlias = tuple[Result | BaseException, _Course]


class Simulation:
    """One run of a scenario, from its first prompt to its result. `run` makes it; it runs once.

    `trace` exists from the start and grows; it stays complete no matter how a run ends. `endings`
    are the ends of the prompts so far. `python` names the code that a trace cannot hold, and
    `settings` are those of the engine.
    """

    def __init__(self, scenario: Scenario | Plan, **given: Unpack[RunOptions]) -> None:
        plan = scenario if isinstance(scenario, Plan) else Plan(scenario, given)
        self._plan = plan
        self.loop = plan.loop
        self.python = plan.python
        self.expected = plan.expected
        stated = given.get("seed"), plan.given.get("seed"), plan.scenario.seed
        self.seeds = Seeds(next(seed for seed in stated if seed is not None))
        self.trace = looptrace.LoopTrace(plan.header(self.seeds.seed))
        self.scripts = Scripts(plan, self.seeds, self.trace)
        self.settings = plan.settings(self.seeds)
        self.endings: list[Ending] = []
        self._listeners: list[Listener] = []
        self._world: World | None = None
        self._timetable: Timetable | None = None
        self._agent: Performer | None = None
        self._under_way = False
        self._start_ns = 0
        self.output = Output()
        """What the code of the run has printed, where output is captured."""
        self._told: _Course | None = None
        self._files = self.scripts.files
        self._stopped = set[int]()

    @property
    def scenario(self) -> Scenario:
        """Return the scenario, with all that was added during the run."""
        return self.scripts.scenario

    @property
    def exceptions(self) -> tuple[UserError, ...]:
        return self._course().exceptions

    @property
    def error(self) -> errors.SimloopError | None:
        """Return the first error of simloop that an agent got, even if it swallowed the error."""
        return self._course().error

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the conversation so far; that of an agent of the user's own is not known."""
        return () if self._agent is None else self._agent.messages

    @property
    def elapsed_ns(self) -> int:
        return running_loop().now_ns - self._start_ns

    @property
    def reproduce(self) -> str:
        return self._plan.command(self.seeds.seed)

    @property
    def bodies(self) -> Mapping[int, bytes]:
        """Return the raw bodies of the requests over HTTP by their numbers, if they are kept."""
        return self._course().bodies

    @property
    def unused_places(self) -> list[str]:
        """Return the places of unused replies, and of the user's actions that never happened."""
        scripts = self.scripts
        return [*scripts.unused_replies(), *scripts.unused_answers(), *self._never_came()]

    def _never_came(self) -> list[str]:
        table, elapsed_ns = self._timetable, self.trace.elapsed_ns
        never = [] if table is None else table.never_came(elapsed_ns)
        return [*never, *self.scripts.unused_lines()]

    def run(self) -> Result:
        """Run the scenario on the virtual clock. Raises the errors of the function `run`."""
        return self._here_or_in_a_fork(self._run)

    def run_unchecked(self) -> Result:
        """Run as `run` does; neither the script nor the expectations need to fit."""

        def run() -> Result:
            self.on_clock(self.converse())
            return self.result()

        return self._here_or_in_a_fork(run)

    def _here_or_in_a_fork(self, make: Callable[[], Result]) -> Result:
        if (program := self.loop.program) is None and not self._plan.given.get("isolate"):
            return make()
        from simloop.runs.isolation import isolated  # noqa: PLC0415 - most runs need none

        def made() -> _Told:
            try:
                return make(), self._course()
            except BaseException as error:  # noqa: BLE001 - raised below, in the parent
                return error, self._course()

        if program is None:
            play = isolated
        else:
            self._files = self._files or files.Files()
            play = partial(program.play, files=self._files)
        told = play(made, so_far=lambda: (KeyboardInterrupt(), self._course()), take=self._take)
        ended = self._take(told)
        if isinstance(ended, BaseException):
            raise ended
        return replace(ended, trace=self.trace)

    def _take(self, told: _Told) -> Result | BaseException:
        ended, self._told = told
        trace = self._told.trace
        self.trace.entries[:] = trace.entries
        self.trace.footer, self.trace.header = trace.footer, trace.header
        self.endings, self.output = self._told.endings, self._told.output
        return ended

    def _course(self) -> _Course:
        if self._told is not None:
            return self._told
        world, provider = self._world, self.scripts.provider
        raised = () if world is None else tuple(world.model.raised)
        error = None if world is None else world.model.recorder.error
        bodies = {} if provider is None else provider.bodies
        return _Course(self.trace, self.endings, raised, error, self.output, bodies)

    def _run(self) -> Result:
        try:
            return self.on_clock(self.arun())
        except errors.CheckFailed as error:  # the clock's own findings do not pass through `arun`
            error.reproduce = self.reproduce
            if (cause := self.error) is not None and cause is not error:
                self._complete(cause)
                raise cause from error  # an agent that swallowed it went on and did not end
            raise
        except asyncio.CancelledError as error:
            message = "the run has no outcome, because its code cancelled the task that it runs in"
            hint = "cancel only tasks that the code has started"
            raise errors.CheckFailed(message, hint=hint, reproduce=self.reproduce) from error

    async def arun(self) -> Result:
        """Run the scenario on the running virtual clock. Raises the errors of `run`."""
        if self._world is not None:
            raise errors.ScenarioError("this simulation has been run", hint="make another one")
        try:
            try:
                await self.converse()
            finally:
                await self.scripts.aclose()
            check_tool_settings(self.scenario, self.loop.name, self.trace)
            result = self.result()
            self._check_script(result)
        except errors.SimloopError as error:
            self._complete(error)
            raise
        found = mismatches_by_default(self.expected, result)
        return replace(result, mismatches=found) if found else result

    def result(self) -> Result:
        course = self._course()
        return Result(
            **asdict(self.endings[-1]), outcomes=tuple(each.outcome for each in self.endings),
            messages=self.messages, elapsed_ns=self.trace.elapsed_ns, trace=self.trace,
            files=None if self._files is None else self._files.snapshot(),
            unused_places=tuple(self.unused_places), exceptions=course.exceptions,
            reproduce=self.reproduce, bodies=course.bodies,
        )  # fmt: skip

    def _complete(self, error: errors.SimloopError) -> None:
        path = self.scenario.path or None
        if isinstance(error, errors.ScriptExhausted | errors.ScriptUnused):
            error.path = path
        if isinstance(error, errors.ScriptExhausted):
            error.others += tuple(nearest_sent(self.expected, self.trace))
        if isinstance(error, errors.ScriptExhausted) and self.loop.name != self.scenario.loop:
            error.hint = f"add a reply, or {self._advice('{error: ScriptExhausted}')}"
        if isinstance(error, errors.CheckFailed):
            error.reproduce = error.reproduce or self.reproduce
        elif isinstance(error, errors.ScenarioError):
            error.path = error.path or path

    def _check_script(self, result: Result) -> None:
        if not result.unused_places or self.expected.unused is not None:
            return  # the latter is compared with the other expectations
        answers, never = self.scripts.unused_answers(), self._never_came()
        told = [f"these answers were not used up: {', '.join(answers)}"] if answers else []
        told += [f"these actions of the user never happened: {', '.join(never)}"] if never else []
        model, hint = self.scripts.model, "find out why the run ended early, or delete them"
        try:
            if isinstance(model, fake_model.FakeModel):
                model.check_account()
            error = errors.ScriptUnused("; ".join(told), key=[*answers, *never][0], hint=hint)
        except errors.ScriptUnused as of_replies:
            error = of_replies
            error.message = "; ".join((error.message, *told))
        end = ": ".join(filter(None, (f"it ended with {result.outcome}", result.message)))
        error.others = (end,)
        if self.loop.name == self.scenario.loop:
            error.others += tuple(map(str, mismatches_by_default(self.expected, result)))
        else:
            error.hint = self._advice(f"{{outcome: {result.outcome}, unused: {result.unused}}}")
        raise error

    def _advice(self, stated: str) -> str:
        name, loop = name_of(self.scenario.path), self.loop
        place = f"under expect_on: {loop.name}"
        if name and loop.is_own:  # nobody can change the file
            place = f"to its `expect_on`: {name}"
        return f"if this is right, add {place}: {stated}"

    def on_clock(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of this run on a clock, sealed if a trace cannot hold its code."""
        seed, shuffled = self.seeds, self.scenario.shuffle_ties
        try:
            if self.loop.is_own and self.loop.machine is None:
                with collected():  # a finalizer of this run must not be called in the next one
                    try:
                        return simulate(main, seed=seed.seed, shuffle_ties=shuffled)
                    finally:
                        self._agent = None
            if self.python or self._plan.has_commands:
                return simulate(main, seed=seed.seed, shuffle_ties=shuffled)
            return run_virtual(main, shuffle_seed=seed.number("ties") if shuffled else None)
        finally:
            # An interrupt may have come before it began. One that did begin is never closed here:
            # code that catches every exception would run for ever.
            if inspect.getcoroutinestate(main) == inspect.CORO_CREATED:
                main.close()
            if self._world is not None:
                self._world.model.recorder.close()
            footer, entries_now = self.trace.footer, len(self.trace.entries)
            if footer is not None and footer.entries != entries_now:  # those of a thread came later
                self.trace.footer = Footer(entries_now, footer.elapsed_ns)

    async def converse(self) -> None:
        waiting: list[str | Then] = [self.scenario.prompt, *self.scenario.then]
        while waiting:
            prompt = waiting.pop(0)
            if isinstance(prompt, Then):
                await self._pause(prompt)
                prompt = prompt.say
            await self.send(prompt)
            if Feature.QUEUE in self.loop.unsupported and self._world is not None:
                # The first message that a loop without a queue has left is a prompt then.
                waiting = [*self._world.user.take(one=True), *waiting]

    async def _pause(self, then: Then) -> None:
        if self._world is not None and (then.after or then.restart):
            with inhabited(self._world):  # what the agent has left running goes on
                await asyncio.sleep(then.after / 1e9)
                if then.restart:
                    await end_rest(self._world.model.loop)
        if then.restart:
            self.restart()

    def restart(self) -> None:
        """Let a fresh instance of the agent answer the next prompt. The trace states it."""
        self._agent = None
        # The end of a process closes files and databases silently.
        with warnings.catch_warnings(action="ignore", category=ResourceWarning):
            gc.collect()
        if self._world is not None:
            self._world.model.recorder.record(entries.Restarted)

    async def send(self, prompt: str) -> Ending:
        """Run one prompt to its outcome; earlier messages stay in the context."""
        if self._under_way:
            message = "a run of this conversation is under way, or was cut short"
            raise errors.ScenarioError(message, hint="start a new conversation")
        world = self._world or self._open_world(running_loop())
        if self.scripts.provider is not None:
            intercept(self.scripts.provider)
        # Made here and not before: the constructor of an agent may look at the clock and keys.
        agent = self._agent = self._agent or self.loop.agent(self.settings)
        return await self._answer(agent, prompt, world)

    async def _answer(self, agent: Performer, prompt: str, world: World) -> Ending:
        task = asyncio.current_task()
        assert task is not None
        assert self._timetable is not None
        self.trace.footer = None
        prompt = writable(prompt)
        world.model.recorder.record(entries.Prompt, prompt)
        world.user.begin(task, self.scenario.limits.max_wall_clock_ms)
        self._timetable.plan_abort(first=not self.endings)
        world.model.before = world.model.requests
        self._under_way = True
        try:
            with inhabited(world):
                ending = await run_prompt(agent, prompt, world)
                self._leave(world, ending)
        except BaseException as error:
            is_machine = self.loop.is_own and self.loop.machine is not None  # somebody's code
            is_ours = isinstance(error, errors.SimloopError)
            is_blamed = is_machine and (not is_ours or isinstance(error, errors.InternalError))
            if is_blamed and is_of_the_program(error, world.model.loop):
                broken = f"the loop `{escape(self.loop.name)}` is broken: {escape(describe(error))}"
                message = f"{broken}\nfind out where with: {escape(self.loop.explore)}"
                raise errors.BrokenMachine(message, reproduce=self.reproduce) from error
            raise
        self._under_way = False
        self.endings.append(ending)
        self.trace.footer = Footer(len(self.trace.entries), self.elapsed_ns)
        return ending

    def _leave(self, world: World, ending: Ending) -> None:
        """Let threads that go on have the world, but for those that have not heard a stop."""
        if (threads := world.model.loop.threads) is None:
            return
        at_work = [each.ident for each in threads.at_work()]
        if ending.outcome in (Outcome.ABORTED, Outcome.TIMED_OUT):
            self._stopped.update(at_work)
        for ident in at_work:
            if ident not in self._stopped:  # until it ends, or its loop does
                world.model.loop.worlds_of_threads.setdefault(ident, world)

    def _open_world(self, loop: VirtualLoop) -> World:
        scenario, scripts = self.scenario, self.scripts
        self.output = loop.output or self.output
        recorder = Recorder(self.trace.entries, loop, scenario.max_trace_chars)
        raised: list[UserError] = []
        policy, rules = self.settings.tool_execution, self.settings.tool_rules
        user = user_port.UserPort(recorder, loop)
        model = model_port.ModelPort(scripts.disturbed, recorder, loop, raised, user.cancellation)
        given = recorder, loop, raised, policy.timeout_ms, rules.results_fail
        tools = tools_port.ToolsPort(scripts.tools, *given, self._plan.behaviours, scripts.sites)
        absent = scenario.offline, scenario.absent
        self._world = world = World(model, tools, user, scripts.answer_http(model), *absent)
        scripts.open(world)
        self._start_ns = loop.now_ns
        loop.progress.hear(recorder.has_grown)
        if scenario.mcp is not None:
            world.tools.server = scenario.mcp.server(loop.now_ns)
        self._timetable = Timetable(scenario, world)
        for listener in self._listeners:
            recorder.listen(listener)
        return world

    def listen(self, listener: Listener) -> None:
        """Call `listener` with each entry of the trace. To be called before the first prompt."""
        self._listeners.append(listener)

    def end(self, error: errors.SimloopError) -> None:
        """End the run with `error` at its next call at the boundary; a listener may call this."""
        if self._world is not None:
            self._world.model.recorder.keep(error)

    def queue(self, text: str, *, follow_up: bool = False) -> None:
        """Send a user message, read with the next request or when the run would otherwise end."""
        world = self._world or self._open_world(running_loop())
        world.user.send(text, Queue.FOLLOW_UP if follow_up else Queue.STEERING)

    def abort(self) -> None:
        """Stop the run as its user would; callable from tools, hooks, callbacks and timers."""
        if self._world is not None:
            self._world.user.stop()


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


class Runner:
    """Runs one scenario many times: what does not depend on the seed is made once.

        with Runner(scenario, tools=[look]) as runner:
            results = [runner.run(seed) for seed in range(1000)]

    The options are those of `simloop.run`. Later changes of the scenario and of the list of tools
    have no effect. A loop of the caller's own that is a class or a function makes a machine, or an
    agent, for each run.

    Inside `with`, the clocks and the randomness of Python stay exchanged from one run to the next,
    which saves time. Code between the runs gets the real ones, through stand-ins. The dummy keys
    of providers stay set as well if the loop is an agent. Without `with` each run exchanges all of
    them and puts them back.
    """

    def __init__(self, scenario: Scenario, **given: Unpack[RunOptions]) -> None:
        check_scenario(scenario)
        self._plan = Plan(scenario.model_copy(deep=True), given)
        self._kept = contextlib.ExitStack()

    def run(self, seed: int | None = None) -> Result:
        """Run the scenario with this seed, or that of the options. Raises the errors of `run`."""
        return Simulation(self._plan.fresh(), seed=seed).run()

    def __enter__(self) -> Self:
        self._kept.enter_context(kept_border())
        if self._plan.loop.machine is None:
            self._kept.enter_context(interception)
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()
