"""The public functions `run` and `arun`, and the Simulation behind them.

Not here: the course of a run (prepared.py, run_prompt.py) and the comparison with expectations
(mismatch.py). The rule to keep: an error of a run names the command that repeats it.
"""

import asyncio
import dataclasses
from typing import Unpack

from simloop.errors import (
    CheckFailed,
    ExpectationFailed,
    ScenarioError,
    ScriptExhausted,
    ScriptUnused,
    SimloopError,
)
from simloop.escape import escape
from simloop.runs.account import account
from simloop.runs.mismatch import in_trace, mismatches_by_default
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan
from simloop.runs.prepared import PreparedRun
from simloop.runs.result import Result
from simloop.runs.script_account import advice, check_script, unused
from simloop.runs.seen_calls import check_settings_of_tools
from simloop.scenario.expect import Expect
from simloop.scenario.schema import Scenario
from simloop.trace.looptrace import LoopTrace
from simloop.world.user_errors import UserError


class Simulation:
    """One run of a scenario, from its first prompt to its result. `run` makes it; it runs once."""

    def __init__(self, scenario: Scenario | Plan, **given: Unpack[RunOptions]) -> None:
        plan = scenario if isinstance(scenario, Plan) else Plan(scenario, given)
        self._plan = plan
        self.prepared = PreparedRun(plan, given.get("seed"))

    @property
    def trace(self) -> LoopTrace:
        """Return the trace, which is complete as far as the run has come."""
        return self.prepared.trace

    @property
    def exceptions(self) -> tuple[UserError, ...]:
        """Return the exceptions that functions of the user raised so far."""
        return self.prepared.exceptions

    @property
    def expected(self) -> Expect:
        """Return the expectations of the loop that runs the scenario."""
        return self.prepared.loop.expected

    @property
    def is_reproduced_by_its_file(self) -> bool:
        """Return whether the command line can repeat this run without code of the caller."""
        return bool(self.prepared.scenario.path) and self._plan.has_file

    def run(self) -> Result:
        """Run the scenario on the virtual clock. Raises the errors of the function `run`."""
        prepared = self.prepared
        try:
            return prepared.on_clock(self.arun())
        except CheckFailed as error:  # the clock's own findings do not pass through `arun`
            error.reproduce = prepared.reproduce
            cause = prepared.error
            if cause is not None and cause is not error:
                self._complete(cause)
                raise cause from error  # an agent that swallowed it went on and did not end
            raise
        except asyncio.CancelledError as error:
            raise CheckFailed(
                "the run has no outcome, because its code cancelled the task that it runs in",
                hint="cancel only tasks that the code has started",
                reproduce=prepared.reproduce,
            ) from error

    async def arun(self) -> Result:
        """Run the scenario on the running virtual clock. Raises the errors of `run`."""
        prepared = self.prepared
        scenario = prepared.scenario
        if prepared.has_begun:
            raise ScenarioError("this simulation has been run", hint="make another one")
        try:
            await prepared.converse()
            check_settings_of_tools(scenario, prepared.loop.name, self.trace)
            result = result_of(prepared)
            check_script(prepared, result)
        except SimloopError as error:
            self._complete(error)
            raise
        found = mismatches_by_default(self.expected, result)
        return dataclasses.replace(result, mismatches=found) if found else result

    def _complete(self, error: SimloopError) -> None:
        """Add to an error what only the run knows: its scenario, and how to repeat it."""
        prepared = self.prepared
        path = prepared.scenario.path or None
        if isinstance(error, ScriptExhausted | ScriptUnused):
            error.path = path
        if isinstance(error, ScriptExhausted) and prepared.loop.name != prepared.scenario.loop:
            error.hint = f"add a reply, or {advice(prepared, '{error: ScriptExhausted}')}"
        if isinstance(error, CheckFailed):
            error.reproduce = error.reproduce or prepared.reproduce
        elif isinstance(error, ScenarioError):
            error.path = error.path or path

    def account(self, command: str = "") -> str:
        """Return the end of the run's timeline, then the command that repeats the run."""
        prepared = self.prepared
        shown = account(self.trace, (), prepared.exceptions).lstrip("\n")
        return f"{shown}\nreproduce: {escape(command or prepared.reproduce)}"

    def expects(self, error: SimloopError) -> bool:
        """Return whether the scenario expects `error` instead of an outcome.

        Raises ExpectationFailed if it does, and another of its expectations does not hold.
        """
        expect = self.expected
        if expect.error != type(error).__name__:
            return False
        unmet = tuple(in_trace(expect, self.trace))
        if unmet:
            reproduce = self.prepared.reproduce
            raise ExpectationFailed("\n".join(map(str, unmet)), reproduce=reproduce)
        return True


def result_of(prepared: PreparedRun) -> Result:
    """Return the result of a conversation that has ended."""
    ending = prepared.endings[-1]
    return Result(
        outcome=ending.outcome,
        outcomes=tuple(each.outcome for each in prepared.endings),
        text=ending.text,
        message=ending.message,
        limit=ending.limit,
        counters=ending.counters,
        messages=prepared.messages,
        elapsed_ns=prepared.trace.elapsed_ns,
        trace=prepared.trace,
        files=None if prepared.files is None else prepared.files.snapshot(),
        unused_places=tuple(unused(prepared)),
        exceptions=prepared.exceptions,
        reproduce=prepared.reproduce,
        hook_cost=prepared.hook_cost,
        bodies=prepared.bodies,
    )


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
