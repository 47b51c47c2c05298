"""The plan of the last run, for the next one if nothing but the seed differs.

Not here: the plan itself (plan.py). The rule to keep: a plan is used again only if the scenario
has the content, and every option is the object, that the plan was made of. So a change of a list
or a mapping makes another plan, and a loop of the caller's own never shares one.
"""

from typing import Any, cast

from simloop.runs.options import RunOptions, check_options, check_scenario
from simloop.runs.own_loop import is_own
from simloop.runs.plan import Plan, content_of
from simloop.scenario.schema import Scenario

# They may be mappings, which can change without being another object.
_NOT_COMPARED = {"loop_options", "expect_on"}


class _LastPlan:
    """A plan, and the options that it was made of. One is kept, so little stays in memory."""

    plan: Plan | None = None
    path = ""
    options: tuple[tuple[str, Any], ...] = ()


_last = _LastPlan()


def plan_of(scenario: Scenario, given: RunOptions) -> Plan:
    """Return a plan for runs with any seed. Raises the errors of `Plan`."""
    global _last  # noqa: PLW0603 - replaced whole, so another thread sees all of it or nothing
    check_scenario(scenario)
    check_options(given)
    options, last = _compared(given), _last
    plan = last.plan
    if (
        plan is not None
        and plan.source is scenario
        and options is not None
        and _are_same(options, last.options)
        and last.path == scenario.path
        and content_of(scenario) == plan.content
    ):
        return plan
    without_seed = {name: value for name, value in given.items() if name != "seed"}
    plan = Plan(scenario, cast("RunOptions", without_seed))
    found = _LastPlan()
    if options is not None and plan.loop.scenario is scenario:
        found.plan, found.path, found.options = plan, scenario.path, options
    _last = found
    return plan


def _compared(given: RunOptions) -> tuple[tuple[str, Any], ...] | None:
    """Return the options as pairs to compare by identity; None if that says too little."""
    options: list[tuple[str, Any]] = []
    for name, value in given.items():
        if name == "tools":
            if type(value) is dict:
                options += (("tools", each) for pair in value.items() for each in pair)
            elif type(value) is list or type(value) is tuple:
                options += (("tool", each) for each in value)
            else:
                return None  # an iterator is read once
        elif value is not None and name != "seed":
            if name in _NOT_COMPARED or (name == "loop" and is_own(cast("Any", value))):
                return None
            options.append((name, value))
    return tuple(options)


def _are_same(one: tuple[tuple[str, Any], ...], other: tuple[tuple[str, Any], ...]) -> bool:
    return len(one) == len(other) and all(
        name == wanted and value is expected
        for (name, value), (wanted, expected) in zip(one, other, strict=True)
    )
