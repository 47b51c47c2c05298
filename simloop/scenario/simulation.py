"""Running a scenario: the public `run` and `arun`, and the Simulation behind them.

Not here: what happens in a run (sim/driver.py) and what was expected of it (result.py). The rule
to keep: a run is a pure function of the scenario, the seed and the functions that are given.
"""

import dataclasses
import shlex
from collections.abc import Callable
from functools import partial
from typing import Any, Unpack

import msgspec

from simloop.errors import CheckFailed, ScenarioError, ScriptUnused
from simloop.kernel import signals
from simloop.messages import Outcome
from simloop.scenario.result import Counters, Result, failures
from simloop.scenario.schema import Moment, Scenario
from simloop.scenario.tripwires import Tripwires
from simloop.scenario.world import (
    Given,
    check_names,
    fake_model,
    machine_for,
    python_code,
    world_of,
)
from simloop.sim.clock import VirtualLoop, run_virtual
from simloop.sim.driver import Driver, Ended
from simloop.sim.model import FakeModel, FunctionModel, Model
from simloop.sim.seeds import Seeds
from simloop.sim.simulate import running_loop, simulate
from simloop.sim.tools import toolbox
from simloop.trace.codec import FORMAT, VERSION, digest
from simloop.trace.entries import Footer, Header
from simloop.trace.looptrace import LoopTrace


class Simulation:
    """One run of one scenario.

    `trace` is there from the start and grows; whatever ends the run, nothing of it is lost.
    """

    def __init__(self, scenario: Scenario, **given: Unpack[Given]) -> None:
        check_names(given)
        seed = given.get("seed")
        self.scenario = scenario
        self.seeds = Seeds(scenario.seed if seed is None else seed)
        try:
            self._machine = machine_for(given.get("loop") or scenario.loop, scenario.limits)
        except ScenarioError as error:
            error.path = scenario.path or None
            raise
        self._model = _choose_model(scenario, given.get("model"))
        tools = toolbox(given.get("tools", ()))
        self._world = world_of(scenario, given, tools, self._model, self.seeds)
        self._python = python_code(given, tools)
        self.trace = LoopTrace(_header(scenario, self._machine.name, self.seeds.seed, self._python))
        if any(moment.on for moment in (*scenario.queue, scenario.abort) if moment is not None):
            self.trace.entries = Tripwires()
        self._driver: Driver | None = None

    def run(self) -> Result:
        """Run it on the virtual clock. Raises as the function `run` does."""
        try:
            if self._python:
                return simulate(self.arun(), seed=self.seeds.seed)
            return run_virtual(self.arun())
        except CheckFailed as error:  # the clock's own findings do not pass through `arun`
            error.reproduce = self._reproduce()
            raise

    async def arun(self) -> Result:
        """Run it on the virtual clock that is already running. Raises as `run` does."""
        loop = running_loop()
        if self._driver is not None:
            raise ScenarioError("this simulation has been run", hint="make another one")
        self._driver = Driver(self._machine, self._world, self.trace.entries)
        self._schedule(loop)
        try:
            result = self._result(await self._driver.drive(self.scenario.prompt))
            if isinstance(self._model, FakeModel):
                self._check_account(self._model, result)
        except CheckFailed as error:
            error.reproduce = error.reproduce or self._reproduce()
            raise
        except ScenarioError as error:
            error.path = error.path or self.scenario.path or None
            raise
        return result

    def _check_account(self, model: FakeModel, result: Result) -> None:
        """As the model does, but saying how the run ended, which is often why."""
        try:
            model.check_account()
        except ScriptUnused as error:
            error.message += f"; it ended with {result.outcome}: {result.message}"
            error.message += "".join(f"; {failure}" for failure in result.failures)
            raise

    def _schedule(self, loop: VirtualLoop) -> None:
        """Set up what the user does while the run goes on."""
        scenario, driver = self.scenario, self._driver
        assert driver is not None
        moments = [(queued, partial(self.queue, queued.say)) for queued in scenario.queue]
        if scenario.abort is not None:
            if scenario.abort.at is not None:
                when_ns = loop.now_ns + scenario.abort.at
                driver.interrupts.plan(when_ns, signals.AbortRequested())
            else:
                self._on(scenario.abort, self.abort)
        for moment, act in moments:
            if moment.at is not None:
                loop.call_at_ns(loop.now_ns + moment.at, act)
            else:
                self._on(moment, act)

    def _on(self, moment: Moment, act: Callable[[], None]) -> None:
        assert isinstance(self.trace.entries, Tripwires)
        self.trace.entries.set(moment, act)

    def queue(self, text: str) -> None:
        """Say more, as the user would: it is sent with the next request."""
        if self._driver is not None:
            self._driver.queue(text)

    def abort(self) -> None:
        """Stop the run as its user would; callable from tools, hooks, callbacks and timers."""
        if self._driver is not None:
            self._driver.interrupts.end_run(signals.AbortRequested())

    def _result(self, ended: Ended) -> Result:
        run, state = ended.run, ended.state
        message = state.outcome.message(errors=run.error_count, cause=ended.cause)
        if state.outcome is Outcome.COMPLETED:
            message = ended.text
        counters = Counters(run.error_count, run.total_steps, run.compaction_attempts)
        self.trace.footer = Footer(
            outcome=state.outcome,
            limit=state.limit,
            message=message,
            text=ended.text,
            error_count=run.error_count,
            total_steps=run.total_steps,
            compaction_attempts=run.compaction_attempts,
            elapsed_ns=ended.elapsed_ns,
            entries=len(self.trace.entries),
        )
        result = Result(
            outcome=state.outcome,
            text=ended.text,
            message=message,
            limit=state.limit,
            counters=counters,
            messages=ended.messages,
            elapsed_ns=ended.elapsed_ns,
            trace=self.trace,
            reproduce=self._reproduce(),
        )
        failed = failures(self.scenario.expect, result)
        return dataclasses.replace(result, failures=failed) if failed else result

    def _reproduce(self) -> str:
        if not self.scenario.path:
            return f"simloop.run(scenario, seed={self.seeds.seed})"
        loop = self._machine.name
        other = f" --loop {shlex.quote(loop)}" if loop != self.scenario.loop else ""
        return f"simloop run {shlex.quote(self.scenario.path)} --seed {self.seeds.seed}{other}"


def run(scenario: Scenario, **given: Unpack[Given]) -> Result:
    """Run a scenario and return how it ended. What else may be given: see `Given`.

    Raises ScriptExhausted or ScriptUnused if the script does not fit the run, Deadlock or
    RunawayRun if the run does not end, ScenarioError for what cannot be run. An expectation that
    does not hold is no exception: see `Result.failures` and `Result.check`.
    """
    return Simulation(scenario, **given).run()


async def arun(scenario: Scenario, **given: Unpack[Given]) -> Result:
    """As `run`, for a coroutine that is itself run by `simulate`, on whose clock it takes place."""
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


def _header(scenario: Scenario, loop: str, seed: int, python: tuple[str, ...]) -> Header:
    whole = scenario.model_dump_json(exclude_defaults=True).encode()
    return Header(
        format=FORMAT,
        version=VERSION,
        title=scenario.title,
        loop=loop,
        seed=seed,
        limits={name: getattr(scenario.limits, name) for name in scenario.limits.__slots__},
        scenario_digest=digest(whole),
        scenario=msgspec.Raw(whole),
        python=python,
    )
