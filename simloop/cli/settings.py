"""What the verbs that run scenarios take alike: the scenarios, a seed, a loop design.

Not here: which files are meant (targets.py).
"""

from collections.abc import Callable
from typing import Any

import click

from simloop.kernel.limits import Limits
from simloop.scenario.world import machine_for

_SEEDS = click.IntRange(0, 2**63, max_open=True)


def _known(_: click.Context, __: click.Parameter, loop: str | None) -> str | None:
    if loop is not None:
        machine_for(loop, Limits())  # an unknown name is one error, not one for each scenario
    return loop


_SETTINGS = (
    click.argument("targets", metavar="PATH|NAME...", nargs=-1, required=True),
    click.option("--seed", type=_SEEDS, help="Replace the seed of the scenario."),
    click.option(
        "--loop", metavar="NAME", callback=_known, help="Replace the loop design of the scenario."
    ),
)


def scenario_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the parameters `targets`, `seed` and `loop`."""
    for setting in reversed(_SETTINGS):
        command = setting(command)
    return command
