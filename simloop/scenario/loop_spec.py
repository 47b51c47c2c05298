"""The loop of a run as a scenario and its caller specify it, before any of its code is loaded."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from simloop.scenario.designs import check_judge_as, check_loop, names_own
from simloop.scenario.schema import Scenario


class LoopSpec(Struct, frozen=True, kw_only=True):
    """The loop that a scenario and its caller specify.

    `loop` is a name, or an object, a class or a function of the caller's. `options` are those of a
    bundled design, or the arguments by name of a loop of the user's own. `judge_as` is the design
    that the caller, or the scenario, judges such a loop as, if any. `scenario` states the
    options of the caller too, so that a trace holds them.
    """

    loop: Any
    options: Any
    judge_as: str
    scenario: Scenario


def spec_of(scenario: Scenario, given: Mapping[str, Any]) -> LoopSpec:
    """Return the loop that a scenario with the options `given` specifies.

    Raises ScenarioError for a bundled loop, an option or a judge that there is not.
    """
    loop, options = given.get("loop") or scenario.loop, given.get("loop_options") or {}
    judge_as = given.get("judge_as") or (scenario.judge_as if loop == scenario.loop else "")
    if given.get("unscripted"):
        scenario = scenario.model_copy(update={"unscripted": given["unscripted"]})
    if isinstance(loop, str):
        if options:
            loops = scenario.loops.joined(loop, options)
            scenario = scenario.model_copy(update={"loops": loops})
        options = scenario.loops.of_own(loop)
    check_judge_as(judge_as, loop)
    if isinstance(loop, str) and not names_own(loop):
        check_loop(loop)
        options = scenario.loops.of_design(loop)
    return LoopSpec(loop=loop, options=options, judge_as=judge_as, scenario=scenario)
