"""How the name of a loop, or a loop of the user's own, becomes a machine.

Not here: which designs there are (scenario/designs.py) and how code of the user's own is loaded
(own_loop.py). The rule to keep: a bundled loop and a loop of the user's own become a machine by one
function.
"""

from collections.abc import Mapping

from simloop.kernel.limits import Limits
from simloop.kernel.machine import Feature, Machine
from simloop.runs.own_loop import GivenLoop, own_machine
from simloop.scenario.designs import DESIGNS, LoopOptions, check_loop


def machine_for(
    loop: GivenLoop, limits: Limits, options: LoopOptions | None = None, judge_as: str = ""
) -> Machine:
    """The machine of a loop: of a bundled design, or of the user's own in any of its forms.

    A loop of the user's own that is judged as a design has that design's options. Raises
    ScenarioError, with the names that there are.
    """
    options = options or LoopOptions()
    if not isinstance(loop, str) or ":" in loop:
        own = options.of_own(loop) if isinstance(loop, str) else {}
        return own_machine(loop, limits, own, options.of_design, judge_as)
    check_loop(loop)
    return DESIGNS[loop.partition("@")[0]].make(limits, options.of_design(loop))


def reasons_against(machine: Machine, asked_for: Mapping[Feature, bool]) -> list[str]:
    """Why `machine` cannot run something that asks for these features; empty if it can."""
    return [reason for feature, reason in machine.lacks.items() if asked_for.get(feature)]
