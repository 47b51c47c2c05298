"""The loop of a run: everything that a caller can name or give as a loop becomes one `Loop`.

A limit of the scenario reaches a machine or causes an error; it is never ignored.
"""

import importlib
import inspect
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property, lru_cache, partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from simloop.engine import machine_agent, settings
from simloop.errors import AgentNotMade, ScenarioError
from simloop.kernel.checks import as_written
from simloop.kernel.limits import DeclaredLimits, Limits
from simloop.kernel.machine import Feature, Machine, Run
from simloop.kernel.policies import Policies
from simloop.kernel.retry import RetryPolicy
from simloop.runs.options import GivenLoop
from simloop.runs.prompt import OwnAgent, Performer
from simloop.scenario import designs
from simloop.scenario.designs import LoopOptions, check_loop, is_program, names, names_own
from simloop.scenario.schema import Scenario
from simloop.virtual import places, real_world
from simloop.virtual.border.output import diverted
from simloop.virtual.border.seal import connected_for_runs
from simloop.virtual.simulate import running_loop, simulate
from simloop.wire.api_keys import dummy_keys
from simloop.world.agent import Agent, agent_from, check_agent, is_agent, reads
from simloop.world.user_functions import describe, parameters_of

if TYPE_CHECKING:
    from simloop.runs.program import WholeProgram

_WORDS: Any = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
AN_AGENT: str = _WORDS["an_agent"]
A_LOOP: str = _WORDS["a_loop"]
A_MACHINE = "machine"

OF_LOOPS = ("max_steps", "max_steps_per_round", "max_error_count", "max_compaction_attempts")
"""The limits that only a loop can keep; the simulator keeps the others."""

UNSUPPORTED_BY_AGENTS: Mapping[Feature, str] = {
    Feature(name): why for name, why in _WORDS["unsupported_by_agents"].items()
}
"""For each feature that only the engine has, the reason why an agent cannot provide it."""

_RUN_CUT_CALLS = ("pydantic_ai", "agents")
"""Frameworks that look at no finish reason before they call tools; a user's model may do it."""
_OF_CUT_CALLS = ("no-tools-for-broken-replies", "no-changes-for-broken-replies")

_OF_A_MACHINE = ("name", "legal", "policies", "bounds", "unsupported", "start", "advance")


class Loop(Struct, frozen=True, kw_only=True, dict=True):
    """The loop of a run. `name` is its name in the header of the trace.

    `scenario` states the options of the caller too, so that a trace holds them.
    `machine` is None for an agent of the user's own. `unsupported` are the features that the loop
    lacks, each with the reason, and `policies` those that hold where a scenario states none.
    `limits` are the scenario's limits that the loop keeps. `has_name` is false for a loop that the
    caller gave as an object, a class or a function, because a command line cannot name it.
    `declares` is the object whose attributes declare how its runs are judged, and `expect_on` are
    the expectations that the loop declares.

    `agent` makes the agent of one conversation from the settings of the engine. `check` makes one
    as a run does, and drops it; both raise ScenarioError if there is none. `program` is that of a
    loop that is a whole program.
    """

    name: str
    scenario: Scenario
    declares: Any
    agent: Callable[[settings.EngineSettings], Performer]
    judge_as: str = ""
    is_own: bool = False
    has_name: bool = True
    machine: Machine | None = None
    unsupported: Mapping[Feature, str]
    policies: Policies
    limits: Mapping[str, int | str | None]
    expect_on: Any = None
    check: Callable[[], None] = lambda: None
    program: "WholeProgram | None" = None
    can_restart: bool = True
    """Whether a fresh instance can take over: not that of an object that is made already."""

    @property
    def declared_limits(self) -> DeclaredLimits | None:
        """Return the limits that an agent sets; those of a machine are in the settings of a run."""
        limits = None if self.machine is not None else self._declared("limits")
        if not isinstance(limits, Limits) or limits.declared == DeclaredLimits():
            return None
        return limits.declared

    @property
    def retry(self) -> RetryPolicy | None:
        """Return the retry policy that an agent declares; that of a machine is in the settings."""
        retry = self._declared("retry")
        is_policy = all(hasattr(retry, name) for name in ("classify", "retryable", "delay_ns"))
        return retry if is_policy and self.machine is None else None

    @cached_property  # the judge of each run of a plan asks for it
    def deviations(self) -> Mapping[str, str]:
        """Return the invariants that the loop does not keep, each with the reason."""
        own = getattr(self.declares, "deviations", None)
        stated = getattr(self.scenario.declares, "deviations", {})
        return {**self._of_framework, **(own if isinstance(own, Mapping) else {}), **stated}

    @property
    def _of_framework(self) -> Mapping[str, str]:
        """Return the deviations of a framework from which the module of an agent has a class."""
        module = sys.modules.get(str(getattr(self.declares, "__module__", "")))
        given = vars(module).values() if module and self.machine is None else ()
        used = {each.__module__.partition(".")[0] for each in given if isinstance(each, type)}
        looks = "finish_reason" in self.source
        name = next((each for each in _RUN_CUT_CALLS if each in used and not looks), "")
        return dict.fromkeys(_OF_CUT_CALLS, f"{name} calls the tools of each reply") if name else {}

    @cached_property
    def source(self) -> str:
        """Return the source of the module of an agent, or an empty text: that of a session."""
        module: Any = sys.modules.get(str(getattr(self.declares, "__module__", "")))
        with suppress(OSError, TypeError):
            return inspect.getsource(module)
        return ""

    @property
    def tool_timeout_ns(self) -> int | None:
        """Return the time after which the agent breaks a tool off, if it declares one."""
        if (stated := self.scenario.declares) is not None and stated.tool_timeout is not None:
            return stated.tool_timeout
        own: Any = getattr(self.declares, "tool_timeout", None)
        is_time = self.machine is None and type(own) in (int, float) and 0 < own < inf
        return round(own * 1e9) if is_time else None

    @cached_property
    def mutating(self) -> frozenset[str] | None:
        """Return the tools and services that the agent declares to change the world, if any."""
        names = self._declared("mutating")
        names = [names] if isinstance(names, str) else names
        return frozenset(names) if isinstance(names, Iterable) and names else None

    def _declared(self, name: str) -> Any:
        return getattr(self.scenario.declares, name, None) or getattr(self.declares, name, None)

    @property
    def explore(self) -> str:
        if self.has_name:
            return f"simloop explore --loop {shlex.quote(self.name)}"
        return f"simloop.prove.proof.prove({A_MACHINE}, limits).violations"


class _Spec(Struct, frozen=True, kw_only=True):
    """The loop that a scenario and its caller specify, before any of its code is loaded."""

    loop: Any
    options: Any  # of a bundled design, or the arguments by name of a loop of the user's own
    judge_as: str  # the design that the caller, or the scenario, judges such a loop as, if any
    scenario: Scenario


def _spec_of(scenario: Scenario, given: Mapping[str, Any]) -> _Spec:
    loop, options = given.get("loop") or scenario.loop, given.get("loop_options") or {}
    judge_as = given.get("judge_as") or (scenario.judge_as if loop == scenario.loop else "")
    if given.get("unscripted"):
        scenario = scenario.model_copy(update={"unscripted": given["unscripted"]})
    if options and isinstance(loop, str):
        scenario = scenario.model_copy(update={"loops": scenario.loops.joined(loop, options)})
    designs.check_judge_as(judge_as, loop)
    if not is_own(loop):
        check_loop(loop)
        options = scenario.loops.of_design(loop)
    elif isinstance(loop, str):
        options = scenario.loops.of_own(loop)
    return _Spec(loop=loop, options=options, judge_as=judge_as, scenario=scenario)


def loop_of(scenario: Scenario, given: Mapping[str, Any]) -> Loop:
    """Return the loop that a scenario with the options `given` specifies. Raises ScenarioError."""
    spec = _spec_of(scenario, given)
    loop, limits = spec.loop, scenario.limits
    if not is_own(loop):
        machine = _bundled(loop, limits, spec.options)
        return _of_machine(spec, machine, name=loop, judge_as=spec.judge_as)
    if isinstance(loop, str) and is_program(loop):
        if spec.options:
            hint = "write them as arguments of its command line"
            raise ScenarioError(f"the program `{loop}` takes no options", key="loops", hint=hint)
        program = _program(loop)
        return _without_machine(spec, program, name=loop, agent=lambda _: program, program=program)
    made = found(loop)
    if _is_of_agent(made, loop):
        source = made if hasattr(made, "__qualname__") else type(made)
        name = loop if isinstance(loop, str) else f"{source.__module__}:{source.__qualname__}"
        maker = _AgentMaker(made, name, spec.options)
        return _without_machine(
            spec, made, name=name, agent=maker.agent, has_name=isinstance(loop, str),
            check=maker.check, can_restart=maker.can_restart,
        )  # fmt: skip
    machine = _own_machine(spec, made)
    judge_as = spec.judge_as or _design_of_machine(machine)
    check_limits(loop, machine, limits)
    known = dict(as_written(limits))  # the other is kept for other runs
    for limit in set(OF_LOOPS) - kept_limits(machine).keys() if is_made(made) else ():
        del known[limit]
    return _of_machine(
        spec, machine, name=loop if isinstance(loop, str) else machine.name, judge_as=judge_as,
        limits=known,
        expect_on=getattr(made, "expect_on", None) or getattr(machine, "expect_on", None),
        is_own=True, has_name=isinstance(loop, str),
    )  # fmt: skip


def _of_machine(spec: _Spec, machine: Machine, **more: Any) -> Loop:
    return Loop(
        scenario=spec.scenario, declares=machine,
        agent=partial(machine_agent.MachineAgent, machine), machine=machine,
        unsupported=machine.unsupported, policies=machine.policies,
        **{"limits": as_written(spec.scenario.limits), **more},
    )  # fmt: skip


def _program(loop: str) -> "WholeProgram":
    from simloop.runs.program import WholeProgram  # noqa: PLC0415 - few loops are programs

    return WholeProgram(loop)


def _without_machine(spec: _Spec, made: Any, **more: Any) -> Loop:
    wall_clock = as_written(spec.scenario.limits)["max_wall_clock"]
    return Loop(
        scenario=spec.scenario, declares=made, judge_as=spec.judge_as or _declared_design(made),
        expect_on=getattr(made, "expect_on", None), is_own=True, unsupported=UNSUPPORTED_BY_AGENTS,
        policies=Policies(), limits={} if wall_clock is None else {"max_wall_clock": wall_clock},
        **more,
    )  # fmt: skip


def is_own(loop: GivenLoop) -> bool:
    """Return whether `loop` is the user's own, so not bundled with simloop."""
    return not isinstance(loop, str) or names_own(loop)


def is_made(loop: Any) -> bool:
    """Return whether `loop` is a machine, not a name, class or function that makes one."""
    return hasattr(loop, "advance") and not isinstance(loop, type)


def _is_of_agent(made: Any, loop: GivenLoop) -> bool:
    """Return whether `made` is an agent, or makes one without Limits. Raises ScenarioError."""
    if hasattr(made, "advance") or not callable(made):
        return False
    if is_agent(made):
        return True
    if reads(made) == "unclear":
        message = f"the loop `{called(loop)}` may be an agent or a function that makes a machine"
        hint = "write its first parameter as `prompt: str` for an agent, or as `limits: Limits` "
        raise ScenarioError(message, key="loop", hint=f"{hint}for a function that makes a machine")
    if not (parameters := None if isinstance(made, type) else parameters_of(made)):
        return parameters is not None
    first = next(iter(parameters.values()))
    if first.name == "limits" or first.kind in (first.VAR_POSITIONAL, first.VAR_KEYWORD):
        return False
    return first.kind is first.KEYWORD_ONLY or first.default is not first.empty


def called(loop: GivenLoop) -> str:
    """Return the name of `loop` in messages."""
    own: Any = loop
    return loop if isinstance(loop, str) else getattr(own, "__name__", type(loop).__name__)


def found(loop: GivenLoop) -> Any:
    """Return the object that `loop` names, or `loop`. Raises ScenarioError if the import fails."""
    return loaded(loop, "loop", A_LOOP) if isinstance(loop, str) else loop


def check_loop_exists(loop: str) -> None:
    """Raise ScenarioError if the loop does not exist, or if it is no machine and no agent."""
    if not is_own(loop):
        check_loop(loop)
        return
    if is_program(loop):
        _program(loop)
        return
    own = found(loop)  # and not called: a scenario may have options for a class or a function
    if is_made(own):
        _checked(own, loop)
    elif _is_of_agent(own, loop) and is_agent(own):
        check_agent(own, loop)


def _declared_design(made: Any) -> str:
    if design := str(getattr(made, "judge_as", "")):
        check_loop(design, "judge_as")
    return design


def _design_of_machine(made: Any) -> str:
    name = getattr(made, "name", "")
    return _declared_design(made) or (name if name in names() else "")


def loaded(name: str, kind: str, form: str, key: str = "loop") -> Any:
    """Return the object at `name`, of the form `module:attribute`. Raises ScenarioError.

    `kind` is what the object is for the user, such as `loop`, and `form` how to write such a name.
    """
    module, colon, attribute = name.partition(":")
    with isolated(f"the {kind} `{name}` cannot be loaded", form, key):
        # Some SDKs and frameworks ask for a key when a client is made, which a module may do.
        with dummy_keys(hides_addresses=False), diverted(), connected_for_runs():
            made: Any = importlib.import_module(module)
        for part in attribute.split(".") if colon else ():
            made = getattr(made, part)
        return made


@contextmanager
def isolated(
    message: str, hint: str, key: str = "loop", kind: type[ScenarioError] = ScenarioError
) -> Iterator[None]:
    """Raise ScenarioError, with `message` and the reason, for any exception of the code inside.

    That includes SystemExit and a KeyboardInterrupt that the code raises: it can end only its own
    scenario. A Ctrl-C of the user stays a KeyboardInterrupt. `kind` is the class of the error, and
    `hint` the advice where no place in the user's code can be named.
    """
    with real_world.noted_interrupts() as interrupts:
        try:
            yield
        except BaseException as error:
            if interrupts.pressed and isinstance(error, KeyboardInterrupt):
                raise
            place = places.place_of_error(error)
            advice = f"it fails at {place}: correct that, or install what is missing"
            hint = advice if place else hint
            raise kind(f"{message}: {describe(error)}", key=key, hint=hint) from error


class _AgentMaker:
    """An agent of the user's own, or its maker for each run with `options` as arguments."""

    def __init__(self, made: Any, name: str, options: Mapping[str, Any]) -> None:
        self._made, self._name, self._options = made, name, options
        self._ready: Agent | None = None
        if not isinstance(made, type) and is_agent(made):
            _refuse_options(name, "an agent", options)
            self._ready = agent_from(made, name)
            return
        takes = ", ".join(parameters_of(made) or ()) or "no options"
        _check_arguments(made, name, (), options, f"it takes {takes}")
        if isinstance(made, type):
            check_agent(made, name)

    @property
    def can_restart(self) -> bool:
        """Return whether the agent can be made again; a plain function keeps nothing itself."""
        return self._ready is None or inspect.isfunction(self._made)

    def agent(self, _: settings.EngineSettings) -> OwnAgent:
        return OwnAgent(self._ready or self._make())

    def check(self) -> None:
        async def make() -> None:
            running_loop().raises_unseen = False
            self._make()

        if self._ready is None:
            with dummy_keys():
                simulate(make())

    def _make(self) -> Agent:
        with isolated(f"the agent `{self._name}` cannot be made", A_LOOP, kind=AgentNotMade):
            made = self._made(**self._options)
        if not is_agent(made):
            what = f"the loop `{self._name}` is a function without parameters"
            message = f"{what} that returns {type(made).__name__}, which is not an agent"
            hint = f"{AN_AGENT}; a function that makes a machine takes Limits"
            raise ScenarioError(message, key="loop", hint=hint)
        return agent_from(made, self._name)


def _refuse_options(name: str, kind: str, options: Mapping[str, Any]) -> None:
    if options:
        message = f"the loop `{name}` is {kind} that is made already, and takes no options"
        hint = "name the class, or a function that makes it"
        raise ScenarioError(message, key=f"loops.{name}", hint=hint)


def _check_arguments(
    made: Any, name: str, given: tuple[Any, ...], options: Mapping[str, Any], hint: str
) -> None:
    try:
        inspect.signature(made).bind(*given, **options)
    except TypeError as error:
        message = f"the loop `{name}` cannot be made with these options: {error}"
        raise ScenarioError(message, key=f"loops.{name}", hint=hint) from None
    except ValueError:  # written in C: the call itself raises the error
        return


def machine_for(loop: GivenLoop, limits: Limits, options: LoopOptions | None = None) -> Machine:
    """Return the machine of a loop. Raises ScenarioError, also for an agent."""
    scenario = Scenario(prompt="", limits=limits, loops=options or LoopOptions())
    if (machine := loop_of(scenario, {"loop": loop}).machine) is None:
        written = shlex.quote(loop) if isinstance(loop, str) else "module:attribute"
        message = f"the loop `{called(loop)}` is an agent, and only machines can be explored"
        hint = f"run it instead: simloop check all --loop {written}"
        raise ScenarioError(message, key="loop", hint=hint)
    return machine


@lru_cache(maxsize=64)  # it is pure, so that all runs share it
def _bundled(loop: str, limits: Limits, options: Any) -> Machine:
    return designs.DESIGNS[loop.partition("@")[0]].make(limits, options)


def _own_machine(spec: _Spec, made: Any) -> Machine:
    name, limits = called(spec.loop), spec.scenario.limits
    if is_made(made):
        _refuse_options(name, "a machine", spec.options)
        return _checked(made, name)
    given, takes = dict(spec.options), parameters_of(made)
    if takes is not None:
        design = spec.judge_as or _design_of_machine(made)
        if design and "options" in takes:  # those of the design that it is judged as
            given.setdefault("options", spec.scenario.loops.of_design(design))
        hint = f"it takes Limits and {', '.join([*takes][1:]) or 'no options'}; {AN_AGENT}"
        _check_arguments(made, name, (limits,), given, hint)
    with isolated(f"the loop `{name}` cannot be loaded", A_LOOP):
        machine = made(limits, **given)
    return _checked(machine, name)


def kept_limits(machine: Machine) -> dict[str, int]:
    """Return the loop limits that `machine` is known to keep, each with its number."""
    own: Any = getattr(machine, "limits", None)
    limits = {name: getattr(own, name) for name in OF_LOOPS} if isinstance(own, Limits) else {}
    return limits | {name: b.at for name, b in machine.bounds.items() if name in OF_LOOPS}


def check_limits(loop: GivenLoop, machine: Machine, limits: Limits) -> None:
    """Raise ScenarioError if the machine of a loop of the user's own does not keep the `limits`."""
    # A ready-made machine is known to keep only the limits that it shows.
    kept, silent = kept_limits(machine), Limits() if is_made(found(loop)) else limits
    for limit in OF_LOOPS:
        wanted = getattr(limits, limit)
        if kept.get(limit, getattr(silent, limit)) == wanted:
            continue
        is_kept = f"has {kept[limit]}" if limit in kept else "was made without it"
        has = f"the scenario has {limit} {wanted}"
        message = f"{has}, and the machine of the loop `{called(loop)}` {is_kept}"
        hint = "give the class, or a function that makes the machine from Limits, in its place; "
        hint += "or give the scenario the limits of the machine"
        raise ScenarioError(message, key=f"limits.{limit}", hint=hint)


def _checked(machine: Any, loop: str) -> Machine:
    message = f"the loop `{loop}` is not a machine"
    hint = f"see Machine in simloop/kernel/machine.py; {AN_AGENT}"
    missing = [name for name in _OF_A_MACHINE if not hasattr(machine, name)]
    if missing or isinstance(machine, type):
        wrong = f"{message}: it has no {', '.join(missing) or 'instance'}"
        raise ScenarioError(wrong, key="loop", hint=hint)
    with isolated(f"{message}, because it does not start", hint):
        run = machine.start()
        hash(run)
    if not isinstance(run, Run):
        wrong = f"{message}: `start` gives {type(run).__name__}, which is not a Run"
        raise ScenarioError(wrong, key="loop", hint=hint)
    return machine  # type: ignore[no-any-return]
