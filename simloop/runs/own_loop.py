"""The conversion of the user's own loop (a name, an object, a class or a factory) to a machine.

Not here: importing code that may misbehave (isolation.py) and the designs that ship (registry.py).
The rules to keep: every form gets equal checks; a limit of the scenario reaches the machine or
causes an error, and is never ignored.
"""

import dataclasses
import inspect
import shlex
import typing
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

from simloop.errors import ScenarioError
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Bound, Machine, Run
from simloop.kernel.policies import Policies
from simloop.runs.isolation import isolated, loaded
from simloop.scenario.designs import names
from simloop.world.agent import Agent, is_agent, is_async, reads

GivenLoop: TypeAlias = str | Machine | Callable[..., Machine] | Agent | Callable[..., Any]
"""A name; a machine, or what makes one from Limits; or an agent, or what makes one."""

AN_AGENT = (
    "an agent is `async def agent(prompt, world)`, or `def`, an object or a class with such a "
    "`__call__`, or a function without parameters that returns one"
)
A_LOOP = (
    "write module:attribute for an agent, a machine, or a class or function that makes one; the "
    "module is looked up in the current folder and among the installed packages"
)

OF_LOOPS = ("max_steps", "max_steps_per_round", "max_error_count", "max_compaction_attempts")
"""The limits that only a loop can keep; the simulator keeps the others."""


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


def is_maker(made: Any) -> bool:
    """Return whether `made` is a class or a function that makes an agent for each run."""
    return isinstance(made, type) or makes_agent(made)


def called(loop: GivenLoop) -> str:
    """Return the name of `loop` in messages."""
    own: Any = loop
    return loop if isinstance(loop, str) else getattr(own, "__name__", type(loop).__name__)


def _written(loop: GivenLoop) -> str:
    """Return `loop` as a command line names it."""
    return shlex.quote(loop) if isinstance(loop, str) else "module:attribute"


def recorded_name(loop: GivenLoop, machine: Machine) -> str:
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


def declared_design(loop: Any) -> str:
    """Return the design that a machine or its class is judged as, or an empty text.

    `judge_as` states it; otherwise the `name` that a subclass inherits from a bundled loop does.
    """
    name = getattr(loop, "name", "")
    inherited = name if isinstance(name, str) and name in names() else ""
    return str(getattr(loop, "judge_as", "")) or inherited


def found(loop: GivenLoop) -> Any:
    """Return the object that `loop` names, or `loop`. Raises ScenarioError if the import fails."""
    if not isinstance(loop, str):
        return loop
    return loaded(loop, "loop", A_LOOP)


def check_clear(made: Any, name: str) -> None:
    """Raise ScenarioError for a function that may be an agent or make a machine."""
    if not hasattr(made, "advance") and not is_async(made) and reads(made) == "unclear":
        raise ScenarioError(
            f"the loop `{name}` may be an agent or a function that makes a machine",
            key="loop",
            hint="write its first parameter as `prompt: str` for an agent, or as `limits: Limits` "
            "for a function that makes a machine",
        )


def own_machine(
    loop: GivenLoop,
    limits: Limits,
    options: Mapping[str, Any],
    design_options: Callable[[str], Any],
    judge_as: str = "",
) -> Machine:
    """Make the machine of a loop of the user's own, with `options` as arguments by name.

    A loop judged as a bundled design gets that design's options as `options`, if it has such a
    parameter. A ready-made machine takes no options. Raises ScenarioError.
    """
    name, made = called(loop), found(loop)
    if is_agent(made) or makes_agent(made):
        raise ScenarioError(
            f"the loop `{name}` is an agent, and only machines can be explored",
            key="loop",
            hint=f"run it instead: simloop check all --loop {_written(loop)}",
        )
    if is_made(made):
        if options:
            hint = "name the class, or a function that makes the machine from Limits and options"
            raise ScenarioError(
                f"the loop `{name}` is a machine that is made already, and takes no options",
                key=f"loops.{name}",
                hint=hint,
            )
        return _checked(made, name)
    given = dict(options)
    takes = _parameters(made)
    design = judge_as or declared_design(made)
    if design and "options" in takes and "options" not in given:
        given["options"] = _as_declared(made, design_options(design))
    _check_options(made, name, limits, given)
    with isolated(f"the loop `{name}` cannot be loaded", A_LOOP):
        machine = made(limits, **given)
    return _checked(machine, name)


def kept_limits(machine: Machine) -> dict[str, int]:
    """Return the loop limits that `machine` is known to keep, each with its number."""
    own: Any = getattr(machine, "limits", None)
    limits = {name: getattr(own, name) for name in OF_LOOPS} if isinstance(own, Limits) else {}
    return limits | {name: b.at for name, b in machine.bounds.items() if name in OF_LOOPS}


def check_limits(machine: Machine, name: str, limits: Limits, *, made: bool) -> None:
    """Raise ScenarioError if `machine` does not keep the `limits` of its scenario.

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


def takes_limits_alone(made: Any) -> bool:
    """Return whether a class or a function accepts Limits as its only argument."""
    if not _parameters(made):
        return True  # the call itself raises the error
    try:
        inspect.signature(made).bind(Limits())
    except TypeError:
        return False
    return True


def check_agent_options(agent: Any, name: str, given: Mapping[str, Any]) -> None:
    """Raise ScenarioError if what makes an agent does not take the options that are given.

    An agent that is made already takes none.
    """
    if is_maker(agent):
        try:
            inspect.signature(agent).bind(**given)
        except TypeError as error:
            known = ", ".join(_parameters(agent)) or "no options"
            raise ScenarioError(
                f"the loop `{name}` cannot be made with these options: {error}",
                key=f"loops.{name}",
                hint=f"it takes {known}",
            ) from None
    elif given:
        raise ScenarioError(
            f"the loop `{name}` is an agent that is made already, and takes no options",
            key=f"loops.{name}",
            hint="name a class, or a function without a required parameter that makes the agent",
        )


def _check_options(made: Any, name: str, limits: Limits, given: Mapping[str, Any]) -> None:
    """Raise ScenarioError, listing the valid options, if `made` does not take those given."""
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
        missing = [name for name in _MACHINE if not hasattr(machine, name)]
        wrong = ""
        if missing or isinstance(machine, type):
            wrong = f"it has no {', '.join(missing) or 'instance'}"
        wrong = wrong or _wrong_with(machine)
    if wrong:
        raise ScenarioError(f"{message}: {wrong}", key="loop", hint=hint)
    return machine  # type: ignore[no-any-return]


def _wrong_with(machine: Any) -> str:
    """Return the defect that prevents driving or exploring a machine, or an empty text."""
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
    """Return how a map differs from the form of `LegalMap`, or an empty text."""
    for state, row in legal.items():
        name = getattr(state, "__name__", repr(state))
        if not isinstance(state, type) or not isinstance(row, Mapping):
            return f"`legal` gives for {name} no mapping, or that is no type"
        for signal, targets in row.items():
            kinds = (signal, *targets) if isinstance(targets, AbstractSet) else ()
            if not kinds or not all(isinstance(kind, type) for kind in kinds):
                return f"`legal` gives for {name} not types of signals, each with a set of states"
    return ""


_MACHINE = ("name", "legal", "policies", "bounds", "unsupported", "start", "advance")
