"""The loop designs by name, and how a name becomes a machine.

A name is one of `DESIGNS`, one with a version behind it (`opencode@1.2.27`: the loop with the
options of that version of the real program), or `module:attribute` for a machine of one's own: a
Machine, or what makes one from Limits. The rule to keep: nothing else in simloop knows which loops
there are, but for whose programs' events are written down (agent.py).
"""

import difflib
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field

from simloop.errors import ScenarioError
from simloop.kernel.limits import Limits
from simloop.kernel.machine import Bound, Feature, Machine, Run
from simloop.kernel.policies import Policies
from simloop.loops import (
    opencode,
    opencode_options,
    pi,
    pi_options,
    react,
    reference,
    reference_options,
)
from simloop.loops.opencode_options import OpencodeOptions
from simloop.loops.pi_options import PiOptions
from simloop.loops.react import ReactOptions
from simloop.loops.reference_options import ReferenceOptions
from simloop.scenario.isolation import imported, isolated
from simloop.scenario.strict import One, Strict, kept


class LoopOptions(Strict):
    """The options of the loop designs that have some; each is used when that loop runs.

    A version is a set of options. Those of pi that are given here replace the version's.
    """

    reference: One[ReferenceOptions] = Field(
        default=kept(ReferenceOptions()),
        description="The loop of documents 000 and 002, and its mends.",
    )
    pi: One[PiOptions] = Field(
        default=kept(PiOptions()),
        description="The loop of document 001, and its versions such as pi@0.87.1.",
    )
    react: One[ReactOptions] = Field(
        default=kept(ReactOptions()), description="The loop of document 003."
    )
    opencode: One[OpencodeOptions] = Field(
        default=kept(OpencodeOptions()), description="The loop of document 004."
    )


@dataclass(frozen=True, slots=True)
class Design:
    """A loop design: what makes its machine from limits and options, and versions by name.

    `combine` makes one set of options of those that a scenario gives and a version's. Without it a
    scenario cannot change the options of a version.
    """

    make: Callable[[Limits, Any], Machine]
    versions: Mapping[str, Any] = field(default_factory=dict)
    combine: Callable[[Any, Any], Any] | None = None


DESIGNS: Mapping[str, Design] = {
    "reference": Design(reference.ReferenceLoop, reference_options.VERSIONS),
    "pi": Design(pi.PiLoop, pi_options.VERSIONS, PiOptions.on),
    "react": Design(react.ReactLoop),
    "opencode": Design(opencode.OpencodeLoop, opencode_options.VERSIONS),
}
"""The designs that ship with simloop, in the order in which they are shown."""


def is_own(loop: str | Machine) -> bool:
    """Whether it is none of `DESIGNS`."""
    return not isinstance(loop, str) or ":" in loop


def check_loop(loop: str, key: str = "loop") -> None:
    """Raise ScenarioError if no loop design has this name; one of one's own is not loaded."""
    name, at, version = loop.partition("@")
    design = DESIGNS.get(name)
    if design is None or (at and version not in design.versions):
        raise _unknown(loop, key)


def machine_for(loop: str | Machine, limits: Limits, options: LoopOptions | None = None) -> Machine:
    """The machine of that name. Raises ScenarioError, naming those there are."""
    if not isinstance(loop, str):
        return _checked(loop, type(loop).__name__)
    if ":" in loop:
        return _own_machine(loop, limits)
    check_loop(loop)
    name, _, version = loop.partition("@")
    design = DESIGNS[name]
    chosen = getattr(options or LoopOptions(), name, None)
    if version:
        of_version = design.versions[version]
        chosen = of_version if design.combine is None else design.combine(chosen, of_version)
    return design.make(limits, chosen)


def names() -> list[str]:
    """Every name, versions included."""
    return [
        *DESIGNS,
        *(f"{name}@{version}" for name, design in DESIGNS.items() for version in design.versions),
    ]


def _unknown(loop: str, key: str) -> ScenarioError:
    close = difflib.get_close_matches(loop, names(), n=1)
    nearest = f"did you mean `{close[0]}`? " if close else ""
    hint = f"{nearest}known: {', '.join(names())}, or module:attribute for one of your own"
    return ScenarioError(f"there is no loop `{loop}`", key=key, hint=hint)


def _own_machine(loop: str, limits: Limits) -> Machine:
    hint = (
        "write module:attribute, for a Machine or what makes one from Limits; modules are looked "
        "for here and among those installed"
    )
    with isolated(f"the loop `{loop}` cannot be had", hint):
        found = imported(loop)
        is_machine = hasattr(found, "advance") and not isinstance(found, type)
        machine = found if is_machine else found(limits)
    return _checked(machine, loop)


def _checked(machine: Any, loop: str) -> Machine:
    message, hint = f"the loop `{loop}` is no machine", "see Machine in simloop/kernel/machine.py"
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
    """What a machine cannot be driven or explored with, or empty."""
    try:
        run = machine.start()
        hash(run)
    except Exception as error:  # noqa: BLE001 - a machine is somebody's code
        return f"`start` raises {type(error).__name__}: {error}"
    if not isinstance(run, Run):
        return f"`start` gives {type(run).__name__}, which is no Run"
    if not isinstance(machine.policies, Policies):
        return "`policies` are no Policies"
    for name in ("legal", "bounds", "lacks"):
        if not isinstance(getattr(machine, name), Mapping):
            return f"`{name}` is no mapping"
    for limit, bound in machine.bounds.items():
        if not isinstance(bound, Bound) or not hasattr(run, bound.counter):
            return f"the bound `{limit}` is no Bound of a counter that its runs have"
        if not isinstance(bound.at, int):
            return f"the bound `{limit}` is at {bound.at!r}, which is no number"
    return _wrong_in_map(machine.legal)


def _wrong_in_map(legal: Mapping[Any, Any]) -> str:
    """What a map does not say as `LegalMap` does, or empty."""
    for state, row in legal.items():
        name = getattr(state, "__name__", repr(state))
        if not isinstance(state, type) or not isinstance(row, Mapping):
            return f"`legal` gives for {name} no mapping, or that is no type"
        for signal, targets in row.items():
            kinds = (signal, *targets) if isinstance(targets, AbstractSet) else ()
            if not kinds or not all(isinstance(kind, type) for kind in kinds):
                return f"`legal` gives for {name} not types of signals, each with a set of states"
    return ""


_MACHINE = ("name", "legal", "policies", "bounds", "lacks", "start", "advance")


def reasons_against(machine: Machine, asked_for: Mapping[Feature, bool]) -> list[str]:
    """Why `machine` cannot run something that asks for these features; empty if it can."""
    return [reason for feature, reason in machine.lacks.items() if asked_for.get(feature)]
