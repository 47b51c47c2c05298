"""The conversion of a loop's name, or of the user's own loop, to a machine.

Not here: the list of designs (scenario/designs.py) and the loading of the user's code
(own_loop.py). The rule to keep: one function makes the machine of a bundled loop and of the user's
own loop.
"""

from collections.abc import Mapping

from simloop.kernel.limits import Limits
from simloop.kernel.machine import Feature, Machine
from simloop.runs.own_loop import GivenLoop, own_machine
from simloop.scenario.designs import DESIGNS, LoopOptions, check_loop


def machine_for(
    loop: GivenLoop, limits: Limits, options: LoopOptions | None = None, judge_as: str = ""
) -> Machine:
    """Return the machine of a loop: a bundled design, or the user's own loop in any form.

    If the user's own loop is judged as a design, it has that design's options. Raises
    ScenarioError, with the known names.
    """
    options = options or LoopOptions()
    if not isinstance(loop, str) or ":" in loop:
        own = options.of_own(loop) if isinstance(loop, str) else {}
        return own_machine(loop, limits, own, options.of_design, judge_as)
    check_loop(loop)
    return DESIGNS[loop.partition("@")[0]].make(limits, options.of_design(loop))


def reasons_against(
    unsupported: Mapping[Feature, str], asked_for: Mapping[Feature, bool]
) -> list[str]:
    """Return the reasons why a design cannot provide these features; empty if it can."""
    return [reason for feature, reason in unsupported.items() if asked_for.get(feature)]
