"""What the verbs that run scenarios take alike: the scenarios, a seed, a loop design.

Not here: which files are meant (targets.py). The rule to keep: an unknown loop is one error, told
before anything is run, and not one for each scenario.
"""

from collections.abc import Callable
from typing import Any

import click

from simloop.cli.completion import loop_names, scenarios_and_files
from simloop.kernel.limits import Limits
from simloop.scenario.loops import DESIGNS, machine_for

ALL_LOOPS = "all"
"""In the place of a loop's name: every design that ships with simloop."""

_NAMES = "a design, a version of one (opencode@1.2.27), or module:attribute"
_SEEDS = click.IntRange(0, 2**63, max_open=True)


def _known(_: click.Context, __: click.Parameter, loop: str | None) -> str | None:
    if loop is not None:
        machine_for(loop, Limits())
    return loop


def _known_or_all(
    context: click.Context, parameter: click.Parameter, loop: str | None
) -> str | None:
    return loop if loop == ALL_LOOPS else _known(context, parameter, loop)


def _known_each(_: click.Context, __: click.Parameter, loops: tuple[str, ...]) -> tuple[str, ...]:
    """Each loop once; all of them by default."""
    for loop in loops:
        if loop != ALL_LOOPS:
            machine_for(loop, Limits())
    wanted = loops or (ALL_LOOPS,)
    named = [DESIGNS if loop == ALL_LOOPS else (loop,) for loop in wanted]
    return tuple(dict.fromkeys(loop for group in named for loop in group))


_TARGETS = click.argument(
    "targets",
    metavar="PATH|NAME...",
    nargs=-1,
    required=True,
    shell_complete=scenarios_and_files,
)
_SEED = click.option("--seed", type=_SEEDS, help="Replace the seed of the scenario.")
_LOOP = click.option(
    "--loop",
    metavar="NAME",
    callback=_known,
    shell_complete=loop_names,
    help=f"Replace the loop of the scenario: {_NAMES}.",
)
_LOOP_OR_ALL = click.option(
    "--loop",
    metavar="NAME",
    callback=_known_or_all,
    shell_complete=loop_names,
    help=f"Replace the loop of the scenario: {_NAMES}, or {ALL_LOOPS}: each design in turn.",
)
_LOOPS = click.option(
    "--loop",
    "loops",
    metavar="NAME",
    multiple=True,
    callback=_known_each,
    shell_complete=loop_names,
    help=f"A loop to run: {_NAMES}; may be repeated. By default all {len(DESIGNS)} designs.",
)
replay_loop = click.option(
    "--loop",
    metavar="NAME",
    callback=_known,
    help="Run the traces on this loop. It is required for a trace of a loop that does not come "
    f"with simloop, because replay imports nothing that only a trace names. NAME is {_NAMES}.",
)
"""The parameter `loop` of a verb that runs traces again."""


def scenario_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the parameters `targets`, `seed` and `loop`."""
    return _TARGETS(_SEED(_LOOP(command)))


def scenario_settings_or_all(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same; `loop` may be ALL_LOOPS."""
    return _TARGETS(_SEED(_LOOP_OR_ALL(command)))


def comparison_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same, with `loops`, a tuple of names without ALL_LOOPS, in the place of `loop`."""
    return _TARGETS(_SEED(_LOOPS(command)))
