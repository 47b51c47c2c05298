"""The loop of one run: its design, its name, and the design whose expectations hold for it.

Not here: making a machine (registry.py, own_loop.py). The rule to keep: a loop of the user's own
is sealed, recorded and judged alike, whether the caller gives its name, a class or an object.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from simloop.kernel.checked import as_written
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Machine
from simloop.runs.design import AgentDesign, Design, MachineDesign
from simloop.runs.options import RunOptions
from simloop.runs.own_loop import (
    OF_LOOPS,
    GivenLoop,
    called,
    check_agent_options,
    check_clear,
    check_limits,
    declared_design,
    found,
    is_made,
    is_own,
    kept_limits,
    makes_agent,
    own_machine,
    recorded_name,
)
from simloop.runs.registry import machine_for
from simloop.scenario.catalog import name_of
from simloop.scenario.designs import LoopOptions
from simloop.scenario.expect import Expect, ExpectedCounters
from simloop.scenario.expectations import Expectations, stated
from simloop.scenario.naming import check_judge_as
from simloop.scenario.schema import Scenario
from simloop.world.agent import check_agent, is_agent


class ChosenLoop(NamedTuple):
    """The loop of one run. `name` is its name in the header of the trace.

    `scenario` is the run's scenario, with the options that the caller gave for the loop. `limits`
    are the scenario's limits that the run keeps. `has_name` is false for a loop that the caller
    gave as an object, a class or a function, because a command line cannot name it.
    """

    scenario: Scenario
    design: Design
    name: str
    judge_as: str
    is_own: bool
    limits: Mapping[str, int | str | None]
    has_name: bool
    expected: Expect

    @property
    def explore(self) -> str:
        """Return the command, or the call, that explores the machine."""
        if self.has_name:
            return f"simloop explore --loop {shlex.quote(self.name)}"
        return f"simloop.prove.proof.prove({_MACHINE}, limits).violations"


_MACHINE = "machine"


def choose_loop(scenario: Scenario, given: RunOptions) -> ChosenLoop:
    """Return the loop that the caller chose, or the scenario's loop. Raises ScenarioError."""
    loop: GivenLoop = given.get("loop") or scenario.loop
    judge_as, options = given.get("judge_as") or "", given.get("loop_options") or {}
    check_judge_as(judge_as, loop)
    if not judge_as and loop == scenario.loop:
        judge_as = scenario.judge_as
    own_loop = found(loop) if is_own(loop) else None
    check_clear(own_loop, called(loop))
    if own_loop is not None and (is_agent(own_loop) or makes_agent(own_loop)):
        return _agent(scenario, loop, own_loop, judge_as, given)
    if isinstance(loop, str):
        scenario = _with_options(scenario, loop, options)
        machine = machine_for(loop, scenario.limits, scenario.loops, judge_as)
    else:
        design_options = scenario.loops.of_design
        machine = own_machine(loop, scenario.limits, options, design_options, judge_as)
    own = is_own(loop)
    if own:
        judge_as = judge_as or declared_design(machine)
        check_judge_as(judge_as, loop)
    name = recorded_name(loop, machine)
    attribute = (_expect_on(own_loop) or _expect_on(machine)) if own else None
    return ChosenLoop(
        scenario,
        MachineDesign(machine),
        name,
        judge_as,
        own,
        _limits(loop, name, machine, scenario.limits),
        isinstance(loop, str),
        _expected(scenario, (given.get("expect_on"), attribute), name, judge_as),
    )


def _expect_on(owner: Any) -> Any:
    return getattr(owner, "expect_on", None)


def _expected(scenario: Scenario, sources: Sequence[Any], name: str, judge_as: str) -> Expect:
    """Return the expectations of a scenario in the first source that states some, or its own."""
    for source in sources:
        expect = None if source is None else stated(source, scenario)
        if expect is not None:
            return expect
    return scenario.expected_of(name, judge_as)


def _expected_of_agent(
    scenario: Scenario, sources: Sequence[Any], name: str, judge_as: str
) -> Expect:
    """Return the expectations for an agent.

    The counters, messages and backoffs that a bundled scenario expects of its own loop say nothing
    about an agent: it has none that simloop can see, and its owner cannot change the file.
    """
    expect = _expected(scenario, sources, name, judge_as)
    if expect is not scenario.expect or not name_of(scenario.path):
        return expect
    return without_engine(expect)


def without_engine(expect: Expect) -> Expect:
    """Return expectations without those of an engine, which an agent does not have."""
    unseen = {"counters": ExpectedCounters(), "messages": None, "backoffs": None}
    return expect.model_copy(update=unseen)


def _agent(
    scenario: Scenario, loop: GivenLoop, agent: Any, judge_as: str, given: RunOptions
) -> ChosenLoop:
    options = given.get("loop_options") or {}
    source = agent if hasattr(agent, "__qualname__") else type(agent)
    name = loop if isinstance(loop, str) else f"{source.__module__}:{source.__qualname__}"
    if isinstance(loop, str):
        scenario = _with_options(scenario, loop, options)
        options = scenario.loops.of_own(loop)
    check_agent_options(agent, name, options)
    if is_agent(agent):
        check_agent(agent, name)
    judge_as = judge_as or str(getattr(agent, "judge_as", ""))
    check_judge_as(judge_as, loop)
    wall_clock = as_written(scenario.limits)["max_wall_clock"]
    limits = {} if wall_clock is None else {"max_wall_clock": wall_clock}
    design = AgentDesign(agent, name, options)
    return ChosenLoop(
        scenario,
        design,
        name,
        judge_as,
        True,  # noqa: FBT003 - `is_own`
        limits,
        isinstance(loop, str),
        _expected_of_agent(scenario, (given.get("expect_on"), _expect_on(agent)), name, judge_as),
    )


def repeat(scenario: Scenario, given: RunOptions, seed: int, verb: str, call: str) -> str:
    """Return the command that repeats a run, or the call if a file or a name is missing."""
    before, after = repetition(scenario, given, verb, call)
    return f"{before}{seed}{after}"


def repetition(scenario: Scenario, given: RunOptions, verb: str, call: str) -> tuple[str, str]:
    """Return the text of `repeat` before the seed, and after it: many runs share both."""
    loop: GivenLoop = given.get("loop") or scenario.loop
    judge_as, options = given.get("judge_as") or "", given.get("loop_options") or {}
    expect_on = given.get("expect_on")
    file = expect_on.path if isinstance(expect_on, Expectations) else ""
    if scenario.path and isinstance(loop, str) and (file or not expect_on):
        flags = _flags(loop, scenario, judge_as, options)
        hooks = given.get("hooks")
        if hooks is not None and hooks.names:
            verb = "run"  # no other verb takes hooks
            flags += "".join(f" --hooks {shlex.quote(name)}" for name in hooks.names)
        flags += f" --expect {shlex.quote(file)}" if file else ""
        return f"simloop {verb} {shlex.quote(scenario.path)} --seed ", flags
    source = f"simloop.load_scenario({scenario.path!r})" if scenario.path else "scenario"
    words = []
    if loop != scenario.loop:
        words.append(f"loop={loop!r}" if isinstance(loop, str) else f"loop={_called(loop)}")
    words += [f"judge_as={judge_as!r}"] if judge_as else []
    words += [f"loop_options={options!r}"] if options else []
    words += ["expect_on=expect_on"] if expect_on else []
    return f"{call}({source}, seed=", "".join(f", {word}" for word in words) + ")"


def _with_options(scenario: Scenario, loop: str, options: Mapping[str, Any]) -> Scenario:
    """Return the scenario with options for `loop`, so that its trace holds them."""
    if not options:
        return scenario
    loops: LoopOptions = scenario.loops.joined(loop, options)
    return scenario.model_copy(update={"loops": loops})


def _limits(
    loop: GivenLoop, name: str, machine: Machine, limits: Limits
) -> dict[str, int | str | None]:
    """Return the scenario's limits, without those that a ready-made machine may not keep.

    Raises ScenarioError for limits that the machine does not keep.
    """
    claimed = as_written(limits)
    if not is_own(loop):
        return claimed
    made = is_made(found(loop))
    check_limits(machine, name, limits, made=made)
    kept = kept_limits(machine)
    unknown = [limit for limit in OF_LOOPS if made and limit not in kept]
    return {limit: value for limit, value in claimed.items() if limit not in unknown}


def _flags(loop: GivenLoop, scenario: Scenario, judge_as: str, options: Mapping[str, Any]) -> str:
    """Return the command-line options that choose this loop for a scenario."""
    other = isinstance(loop, str) and loop != scenario.loop
    chosen = f" --loop {shlex.quote(str(loop))}" if other else ""
    return chosen + flags_of(judge_as, options)


def flags_of(judge_as: str, options: Mapping[str, Any]) -> str:
    """Return the command-line options that are for one loop, with a space before each."""
    words = [("--judge-as", judge_as)] if judge_as else []
    words += [("--option", f"{key}={_written(value)}") for key, value in options.items()]
    return "".join(f" {flag} {shlex.quote(word)}" for flag, word in words)


def _written(value: Any) -> str:
    """Return a value as text that `--option` reads."""
    return {"True": "true", "False": "false", "None": "null"}.get(str(value), str(value))


def _called(loop: GivenLoop) -> str:
    """Return the text for a loop in a call: the name of a class or function, or `machine`."""
    name = getattr(loop, "__name__", "")
    return name if isinstance(name, str) and name.isidentifier() else _MACHINE
