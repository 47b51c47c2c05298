"""The loop of a run: everything that a caller can name or give as a loop becomes one `Loop`.

That is the name of a bundled design, a machine, an agent, or a class or a function that makes one.
All of them are sealed, recorded, checked and judged alike, and no other module asks which of them
the caller gave. A limit of the scenario reaches a machine or causes an error; it is never ignored.
"""

import dataclasses
import inspect
import shlex
import typing
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache, partial
from typing import Any

from msgspec import Struct

from simloop.engine.machine_agent import MachineAgent
from simloop.engine.settings import EngineSettings
from simloop.errors import AgentNotMade, ScenarioError
from simloop.kernel.checks import as_written
from simloop.kernel.limits import DeclaredLimits, Limits
from simloop.kernel.machine import Bound, Feature, Machine, Run
from simloop.kernel.policies import Policies
from simloop.kernel.retry import RetryPolicy
from simloop.runs.isolation import isolated, loaded
from simloop.runs.options import GivenLoop, RunOptions
from simloop.runs.prompt import OwnAgent, Performer
from simloop.scenario.catalog import name_of, stated
from simloop.scenario.designs import DESIGNS, LoopOptions, check_loop, names
from simloop.scenario.expect import Expect, ExpectedCounters
from simloop.scenario.loader import check_judge_as
from simloop.scenario.schema import Scenario
from simloop.virtual.places import place_of_error
from simloop.virtual.simulate import running_loop, simulate
from simloop.wire.api_keys import dummy_keys
from simloop.world.agent import Agent, agent_from, check_agent, is_agent, is_async, reads

AN_AGENT = (
    "an agent is `async def agent(prompt, world)`, or `def`, an object or a class with such a "
    "`__call__`, or a function without parameters that returns one"
)
A_LOOP = (
    "write module:attribute for an agent, a machine, or a class or function that makes one; the "
    "module is looked up in the current folder and among the installed packages"
)
A_MACHINE = "machine"
"""The word for a machine in the call that repeats a run."""

OF_LOOPS = ("max_steps", "max_steps_per_round", "max_error_count", "max_compaction_attempts")
"""The limits that only a loop can keep; the simulator keeps the others."""

UNSUPPORTED_BY_AGENTS: Mapping[Feature, str] = {
    Feature.HOOKS: "an agent of your own has no hooks of simloop",
    Feature.COMPACTION: "an agent of your own keeps its own context",
    Feature.EARLY_TOOLS: "an agent of your own starts its tools itself",
    Feature.HISTORY: "an agent of your own keeps its own history",
    Feature.LIMITS: "an agent of your own has no limits of simloop but max_wall_clock",
    Feature.TRIGGERS: "an agent of your own leaves no entries of an engine to act after",
    Feature.SYSTEM_PROMPT: "an agent of your own has its own system prompt",
    Feature.POLICIES: "an agent of your own has no policies of simloop",
    Feature.QUEUE: "an agent of your own may leave messages in its queue",
}
"""For each feature that only the engine has, the reason why an agent cannot provide it."""

_NO_POLICIES = Policies()


class Loop(Struct, frozen=True, kw_only=True, dict=True):
    """The loop of a run. `name` is its name in the header of the trace.

    `machine` is None for an agent of the user's own. `unsupported` are the features that the loop
    lacks, each with the reason, and `policies` those that hold where a scenario states none.
    `limits` are the scenario's limits that the loop keeps. `has_name` is false for a loop that the
    caller gave as an object, a class or a function, because a command line cannot name it.
    `declares` is the object whose attributes declare how its runs are judged.

    `agent` makes the agent of one conversation from the settings of the engine. `check` makes one
    as a run does, and drops it; both raise ScenarioError if there is none.
    """

    name: str
    declares: Any
    agent: Callable[[EngineSettings], Performer]
    judge_as: str = ""
    is_own: bool = False
    has_name: bool = True
    machine: Machine | None = None
    unsupported: Mapping[Feature, str]
    policies: Policies
    limits: Mapping[str, int | str | None]
    expected: Expect
    check: Callable[[], None] = lambda: None

    @property
    def declared_limits(self) -> DeclaredLimits | None:
        """Return the limits that an agent sets; those of a machine are in the settings of a run."""
        limits = None if self.machine is not None else getattr(self.declares, "limits", None)
        if not isinstance(limits, Limits) or limits.declared == DeclaredLimits():
            return None
        return limits.declared

    @property
    def retry(self) -> RetryPolicy | None:
        """Return the retry policy that an agent declares; that of a machine is in the settings."""
        retry = getattr(self.declares, "retry", None)
        is_policy = all(hasattr(retry, name) for name in ("classify", "retryable", "delay_ns"))
        return retry if is_policy and self.machine is None else None

    @cached_property  # the judge of each run of a plan asks for it
    def deviations(self) -> Mapping[str, str]:
        """Return the invariants that the loop does not keep, each with the reason."""
        deviations = getattr(self.declares, "deviations", None)
        return deviations if isinstance(deviations, Mapping) else {}

    @property
    def explore(self) -> str:
        """Return the command, or the call, that explores the machine."""
        if self.has_name:
            return f"simloop explore --loop {shlex.quote(self.name)}"
        return f"simloop.prove.proof.prove({A_MACHINE}, limits).violations"


def with_loop_options(scenario: Scenario, given: RunOptions) -> Scenario:
    """Return the scenario with the caller's options for its loop, so that its trace holds them.

    The options of a loop that has no name are arguments of the call that makes it.
    """
    loop, options = given.get("loop") or scenario.loop, given.get("loop_options")
    if not options or not isinstance(loop, str):
        return scenario
    return scenario.model_copy(update={"loops": scenario.loops.joined(loop, options)})


def loop_of(scenario: Scenario, given: RunOptions) -> Loop:
    """Return the loop that the caller chose, or that of the scenario. Raises ScenarioError."""
    scenario = with_loop_options(scenario, given)
    loop: GivenLoop = given.get("loop") or scenario.loop
    judge_as = given.get("judge_as") or ""
    check_judge_as(judge_as, loop)
    if not judge_as and loop == scenario.loop:
        judge_as = scenario.judge_as
    if isinstance(loop, str) and not is_own(loop):
        check_loop(loop)
        machine = _bundled(loop, scenario.limits, scenario.loops.of_design(loop))
        limits = as_written(scenario.limits)
        expected = _expected(scenario, given, None, loop, judge_as)
        return _of_machine(machine, name=loop, judge_as=judge_as, limits=limits, expected=expected)
    made = found(loop)
    if is_agent(made) or makes_agent(made):
        return _loop_of_agent(scenario, given, loop, made, judge_as)
    check_clear(made, called(loop))
    return _loop_of_own_machine(scenario, given, loop, made, judge_as)


def _loop_of_own_machine(
    scenario: Scenario, given: RunOptions, loop: GivenLoop, made: Any, judge_as: str
) -> Loop:
    options = _own_options(scenario, given, loop)
    machine = _own_machine(
        made, called(loop), scenario.limits, options, designs=scenario.loops, judge_as=judge_as
    )
    judge_as = judge_as or _declared_design(machine)
    check_judge_as(judge_as, loop)
    name = _recorded_name(loop, machine)
    attribute = getattr(made, "expect_on", None) or getattr(machine, "expect_on", None)
    return _of_machine(
        machine,
        name=name,
        judge_as=judge_as,
        limits=_claimed_limits(machine, name, scenario.limits, made=is_made(made)),
        expected=_expected(scenario, given, attribute, name, judge_as),
        is_own=True,
        has_name=isinstance(loop, str),
    )


def _of_machine(machine: Machine, **more: Any) -> Loop:
    return Loop(
        declares=machine,
        agent=partial(MachineAgent, machine),
        machine=machine,
        unsupported=machine.unsupported,
        policies=machine.policies,
        **more,
    )


def _loop_of_agent(
    scenario: Scenario, given: RunOptions, loop: GivenLoop, made: Any, judge_as: str
) -> Loop:
    source = made if hasattr(made, "__qualname__") else type(made)
    name = loop if isinstance(loop, str) else f"{source.__module__}:{source.__qualname__}"
    maker = _AgentMaker(made, name, _own_options(scenario, given, loop))
    judge_as = judge_as or str(getattr(made, "judge_as", ""))
    check_judge_as(judge_as, loop)
    wall_clock = as_written(scenario.limits)["max_wall_clock"]
    expected = _expected(scenario, given, getattr(made, "expect_on", None), name, judge_as)
    if expected is scenario.expect and scenario.path and name_of(scenario.path):
        expected = without_engine(expected)
    return Loop(
        name=name,
        declares=made,
        agent=maker.agent,
        judge_as=judge_as,
        is_own=True,
        has_name=isinstance(loop, str),
        unsupported=UNSUPPORTED_BY_AGENTS,
        policies=_NO_POLICIES,
        limits={} if wall_clock is None else {"max_wall_clock": wall_clock},
        expected=expected,
        check=maker.check,
    )


def _own_options(scenario: Scenario, given: RunOptions, loop: GivenLoop) -> Mapping[str, Any]:
    if isinstance(loop, str):
        return scenario.loops.of_own(loop)
    return given.get("loop_options") or {}


def _expected(
    scenario: Scenario, given: RunOptions, attribute: Any, name: str, judge_as: str
) -> Expect:
    for source in (given.get("expect_on"), attribute):
        expect = None if source is None else stated(source, scenario)
        if expect is not None:
            return expect
    return scenario.expected_of(name, judge_as)


def without_engine(expect: Expect) -> Expect:
    """Return expectations without those of an engine, which an agent does not have.

    The counters, messages and backoffs that a bundled scenario expects of its own loop say nothing
    about an agent: it has none that simloop can see, and its owner cannot change the file.
    """
    unseen = {"counters": ExpectedCounters(), "messages": None, "backoffs": None}
    return expect.model_copy(update=unseen)


# ------------------------------------------------------------------------ names and objects


def is_own(loop: GivenLoop) -> bool:
    """Return whether `loop` is the user's own, so not bundled with simloop."""
    return not isinstance(loop, str) or ":" in loop


def is_made(loop: Any) -> bool:
    """Return whether `loop` is a machine, not a name, class or function that makes one."""
    return hasattr(loop, "advance") and not isinstance(loop, type)


def makes_agent(made: Any) -> bool:
    """Return whether `made` is a function for an agent: one that has no parameter for Limits."""
    if isinstance(made, type) or not callable(made) or is_made(made) or is_agent(made):
        return False
    try:
        first = next(iter(inspect.signature(made).parameters.values()), None)
    except (TypeError, ValueError):  # written in C
        return False
    return first is None or (
        first.kind not in (first.VAR_POSITIONAL, first.VAR_KEYWORD)
        and first.name != "limits"
        and (first.kind is first.KEYWORD_ONLY or first.default is not first.empty)
    )


def called(loop: GivenLoop) -> str:
    """Return the name of `loop` in messages."""
    own: Any = loop
    return loop if isinstance(loop, str) else getattr(own, "__name__", type(loop).__name__)


def found(loop: GivenLoop) -> Any:
    """Return the object that `loop` names, or `loop`. Raises ScenarioError if the import fails."""
    return loaded(loop, "loop", A_LOOP) if isinstance(loop, str) else loop


def check_clear(made: Any, name: str) -> None:
    """Raise ScenarioError for a function that may be an agent or make a machine."""
    if not hasattr(made, "advance") and not is_async(made) and reads(made) == "unclear":
        raise ScenarioError(
            f"the loop `{name}` may be an agent or a function that makes a machine",
            key="loop",
            hint="write its first parameter as `prompt: str` for an agent, or as `limits: Limits` "
            "for a function that makes a machine",
        )


def check_loop_exists(loop: str) -> None:
    """Raise ScenarioError if the loop does not exist, or if it is no machine and no agent.

    A loop of the user's own is made only if it needs no options: a scenario may have them.
    """
    own = found(loop) if is_own(loop) else None
    check_clear(own, loop)
    if is_agent(own):
        check_agent(own, loop)
    elif own is None or is_made(own) or (_takes_limits_alone(own) and not makes_agent(own)):
        machine_for(loop, Limits())


def _recorded_name(loop: GivenLoop, machine: Machine) -> str:
    """Return the name of `loop` in the header of a trace; `machine` is its machine.

    A subclass or a copy of a bundled loop has that loop's `name`, and its trace would pass for one
    of the bundled loop. It is recorded as module:attribute, as if the caller had given that name.
    """
    if isinstance(loop, str):
        return loop
    if machine.name not in names() or type(machine).__module__.partition(".")[0] == "simloop":
        return machine.name
    source = loop if hasattr(loop, "__qualname__") else type(machine)
    return f"{source.__module__}:{source.__qualname__}"


def _declared_design(loop: Any) -> str:
    """Return the design that a machine or its class is judged as, or an empty text.

    `judge_as` states it; otherwise the `name` that a subclass inherits from a bundled loop does.
    """
    name = getattr(loop, "name", "")
    inherited = name if isinstance(name, str) and name in names() else ""
    return str(getattr(loop, "judge_as", "")) or inherited


# ------------------------------------------------------------------------ agents


class _AgentMaker:
    """An agent of the user's own, or the class or the function that makes one for each run.

    `options` are its arguments by name. An agent that is made already takes none.
    """

    def __init__(self, made: Any, name: str, options: Mapping[str, Any]) -> None:
        self._made, self._name, self._options = made, name, options
        self._ready: Agent | None = None
        if isinstance(made, type) or not is_agent(made):
            self._check_options()
            if is_agent(made):
                check_agent(made, name)
            return
        if options:
            raise ScenarioError(
                f"the loop `{name}` is an agent that is made already, and takes no options",
                key=f"loops.{name}",
                hint="name a class, or a function without a required parameter that makes the "
                "agent",
            )
        self._ready = agent_from(made, name)

    def _check_options(self) -> None:
        try:
            inspect.signature(self._made).bind(**self._options)
        except TypeError as error:
            known = ", ".join(_parameters(self._made)) or "no options"
            raise ScenarioError(
                f"the loop `{self._name}` cannot be made with these options: {error}",
                key=f"loops.{self._name}",
                hint=f"it takes {known}",
            ) from None

    def agent(self, _: EngineSettings) -> OwnAgent:
        """Return the agent of one conversation."""
        return OwnAgent(self._ready or self._make())

    def check(self) -> None:
        async def make() -> None:
            running_loop().raises_unseen = False
            self._make()

        if self._ready is None:
            with dummy_keys():
                simulate(make())

    def _make(self) -> Agent:
        message = f"the agent `{self._name}` cannot be made"
        with isolated(message, _advice, kind=AgentNotMade):
            made = self._made(**self._options)
        if not is_agent(made):
            raise ScenarioError(
                f"the loop `{self._name}` is a function without parameters that returns "
                f"{type(made).__name__}, which is not an agent",
                key="loop",
                hint=f"{AN_AGENT}; a function that makes a machine takes Limits",
            )
        return agent_from(made, self._name)


def _advice(error: BaseException) -> str:
    place = place_of_error(error)
    return f"it fails at {place}: correct that, or install what is missing" if place else A_LOOP


# ------------------------------------------------------------------------ machines


def machine_for(
    loop: GivenLoop, limits: Limits, options: LoopOptions | None = None, judge_as: str = ""
) -> Machine:
    """Return the machine of a loop: a bundled design, or the user's own loop in any form.

    If the user's own loop is judged as a design, it has that design's options. Raises
    ScenarioError, with the known names.
    """
    options = options or LoopOptions()
    if isinstance(loop, str) and ":" not in loop:
        check_loop(loop)
        return _made(loop, limits, options.of_design(loop))
    made = found(loop)
    if is_agent(made) or makes_agent(made):
        written = shlex.quote(loop) if isinstance(loop, str) else "module:attribute"
        raise ScenarioError(
            f"the loop `{called(loop)}` is an agent, and only machines can be explored",
            key="loop",
            hint=f"run it instead: simloop check all --loop {written}",
        )
    own = options.of_own(loop) if isinstance(loop, str) else {}
    return _own_machine(made, called(loop), limits, own, designs=options, judge_as=judge_as)


def _made(loop: str, limits: Limits, options: Any) -> Machine:
    return DESIGNS[loop.partition("@")[0]].make(limits, options)


_bundled = lru_cache(maxsize=64)(_made)
"""The machine of a bundled design; it is pure, so that all runs share it."""


def _own_machine(
    made: Any,
    name: str,
    limits: Limits,
    options: Mapping[str, Any],
    *,
    designs: LoopOptions,
    judge_as: str,
) -> Machine:
    """Make the machine of a loop of the user's own, with `options` as arguments by name.

    A loop judged as a bundled design gets that design's options as `options`, if it has such a
    parameter. A ready-made machine takes no options.
    """
    if is_made(made):
        if options:
            raise ScenarioError(
                f"the loop `{name}` is a machine that is made already, and takes no options",
                key=f"loops.{name}",
                hint="name the class, or a function that makes the machine from Limits and options",
            )
        return _checked(made, name)
    given = dict(options)
    design = judge_as or _declared_design(made)
    if design and "options" in _parameters(made) and "options" not in given:
        given["options"] = _as_declared(made, designs.of_design(design))
    _check_options(made, name, limits, given)
    with isolated(f"the loop `{name}` cannot be loaded", A_LOOP):
        machine = made(limits, **given)
    return _checked(machine, name)


def kept_limits(machine: Machine) -> dict[str, int]:
    """Return the loop limits that `machine` is known to keep, each with its number."""
    own: Any = getattr(machine, "limits", None)
    limits = {name: getattr(own, name) for name in OF_LOOPS} if isinstance(own, Limits) else {}
    return limits | {name: b.at for name, b in machine.bounds.items() if name in OF_LOOPS}


def check_limits(loop: GivenLoop, machine: Machine, limits: Limits) -> None:
    """Raise ScenarioError if the machine of `loop` does not keep the `limits` of its scenario."""
    if is_own(loop):
        _check_kept(machine, called(loop), limits, made=is_made(found(loop)))


def _claimed_limits(
    machine: Machine, name: str, limits: Limits, *, made: bool
) -> dict[str, int | str | None]:
    _check_kept(machine, name, limits, made=made)
    kept = kept_limits(machine)
    unknown = [limit for limit in OF_LOOPS if made and limit not in kept]
    return {limit: value for limit, value in as_written(limits).items() if limit not in unknown}


def _check_kept(machine: Machine, name: str, limits: Limits, *, made: bool) -> None:
    """Raise ScenarioError if `machine` does not keep the limits.

    A ready-`made` machine is known to keep only the limits that it shows.
    """
    kept, usual = kept_limits(machine), Limits()
    for limit in OF_LOOPS:
        wanted = getattr(limits, limit)
        silent = usual if made else limits
        if kept.get(limit, getattr(silent, limit)) == wanted:
            continue
        is_kept = f"has {kept[limit]}" if limit in kept else "was made without it"
        raise ScenarioError(
            f"the scenario has {limit} {wanted}, and the machine of the loop `{name}` {is_kept}",
            key=f"limits.{limit}",
            hint="give the class, or a function that makes the machine from Limits, in its place; "
            "or give the scenario the limits of the machine",
        )


def _parameters(made: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(made).parameters
    except (TypeError, ValueError):  # written in C, or not to be called at all
        return {}


def _as_declared(made: Any, options: Any) -> Any:
    """Return a design's options converted to the options class that `made` declares.

    A copy of a bundled loop has classes of its own, and compares their words by identity.
    """
    function = getattr(made, "__init__", made) if isinstance(made, type) else made
    try:
        hint = typing.get_type_hints(function).get("options")
    except (TypeError, NameError):
        return options
    named = type(options).__name__
    for kind in (hint, *typing.get_args(hint)):
        if dataclasses.is_dataclass(kind) and getattr(kind, "__name__", "") == named:
            fields = dataclasses.fields(options)
            return kind(**{field.name: getattr(options, field.name) for field in fields})  # type: ignore[operator]
    return options


def _takes_limits_alone(made: Any) -> bool:
    if not _parameters(made):
        return True  # the call itself raises the error
    try:
        inspect.signature(made).bind(Limits())
    except TypeError:
        return False
    return True


def _check_options(made: Any, name: str, limits: Limits, given: Mapping[str, Any]) -> None:
    takes = _parameters(made)
    if not takes:
        return
    try:
        inspect.signature(made).bind(limits, **given)
    except TypeError as error:
        known = ", ".join(list(takes)[1:])
        hint = f"it takes {known}" if known else "it takes Limits and no options"
        if inspect.isfunction(made) and not given:
            hint = f"{hint}; {AN_AGENT}"  # perhaps an agent without the word `async`
        wrong = "does not take these options" if given else "cannot be made from Limits alone"
        raise ScenarioError(
            f"the loop `{name}` {wrong}: {error}",
            key=f"loops.{name}",
            hint=hint,
        ) from None


def _checked(machine: Any, loop: str) -> Machine:
    message = f"the loop `{loop}` is not a machine"
    hint = f"see Machine in simloop/kernel/machine.py; {AN_AGENT}"
    if inspect.iscoroutine(machine):
        machine.close()  # nobody awaits it
    with isolated(message, hint):
        missing = [name for name in _OF_A_MACHINE if not hasattr(machine, name)]
        wrong = ""
        if missing or isinstance(machine, type):
            wrong = f"it has no {', '.join(missing) or 'instance'}"
        wrong = wrong or _wrong_with(machine)
    if wrong:
        raise ScenarioError(f"{message}: {wrong}", key="loop", hint=hint)
    return machine  # type: ignore[no-any-return]


def _wrong_with(machine: Any) -> str:
    try:
        run = machine.start()
        hash(run)
    except Exception as error:  # noqa: BLE001 - a machine is somebody's code
        return f"`start` raises {type(error).__name__}: {error}"
    if not isinstance(run, Run):
        return f"`start` gives {type(run).__name__}, which is not a Run"
    if not isinstance(machine.policies, Policies):
        return "`policies` are not Policies"
    for name in ("endless", "judge_as"):
        if not isinstance(getattr(machine, name, ""), str):
            return f"`{name}` is no text"
    for name in ("legal", "bounds", "unsupported"):
        if not isinstance(getattr(machine, name), Mapping):
            return f"`{name}` is no mapping"
    for limit, bound in machine.bounds.items():
        if not isinstance(bound, Bound) or not hasattr(run, bound.counter):
            return f"the bound `{limit}` is not a Bound of a counter that its runs have"
        if not isinstance(bound.at, int):
            return f"the bound `{limit}` is at {bound.at!r}, which is not a number"
    return _wrong_in_map(machine.legal)


def _wrong_in_map(legal: Mapping[Any, Any]) -> str:
    for state, row in legal.items():
        name = getattr(state, "__name__", repr(state))
        if not isinstance(state, type) or not isinstance(row, Mapping):
            return f"`legal` gives for {name} no mapping, or that is no type"
        for signal, targets in row.items():
            kinds = (signal, *targets) if isinstance(targets, AbstractSet) else ()
            if not kinds or not all(isinstance(kind, type) for kind in kinds):
                return f"`legal` gives for {name} not types of signals, each with a set of states"
    return ""


_OF_A_MACHINE = ("name", "legal", "policies", "bounds", "unsupported", "start", "advance")
