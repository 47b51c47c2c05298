"""The check that each loop, version and fault site named in a scenario exists."""

from simloop.errors import ScenarioError
from simloop.scenario.designs import DESIGNS, LoopOptions, check_loop
from simloop.scenario.schema import Scenario
from simloop.virtual.seeds import Seeds
from simloop.world.faults import FaultSites


def check_names_in(scenario: Scenario) -> None:
    """Raise ScenarioError for an unknown fault site or loop.

    The check skips the user's own loops, because a caller may replace them.
    """
    if scenario.faults is not None:
        FaultSites(scenario.faults, Seeds(scenario.seed))
    named = {"loop": scenario.loop, **{f"expect_on.{loop}": loop for loop in scenario.expect_on}}
    for key, loop in named.items():
        if ":" not in loop:
            check_loop(loop, key)
    check_judge_as(scenario.judge_as, scenario.loop)
    design, _, version = scenario.loop.partition("@")
    fixed = version and DESIGNS[design].combine is None
    if fixed and getattr(scenario.loops, design, None) != getattr(LoopOptions(), design, None):
        raise ScenarioError(
            f"`{scenario.loop}` has options of its own",
            key=f"loops.{design}",
            hint=f"leave them out, or write `loop: {design}`",
        )


def check_judge_as(judge_as: str, loop: object) -> None:
    """Raise ScenarioError if `loop` cannot be judged as this design; empty means no design."""
    if not judge_as:
        return
    if isinstance(loop, str) and ":" not in loop:
        raise ScenarioError(
            f"`{loop}` comes with simloop, and is judged as itself",
            key="judge_as",
            hint="leave it out, or name a loop of your own as module:attribute",
        )
    check_loop(judge_as, "judge_as")
