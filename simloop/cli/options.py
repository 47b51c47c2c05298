"""The parameters that the verbs that run scenarios share: scenarios, a seed, a loop design.

Not here: finding the files (scenario_arguments.py). The rule to keep: an unknown loop is
one error, reported before anything is run, and not one for each scenario.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from simloop.cli.completion import loop_names, loop_names_and_all, scenarios_and_files
from simloop.errors import ScenarioError
from simloop.runs.loop import check_loop_exists, is_own
from simloop.runs.options import RunOptions
from simloop.scenario.designs import DESIGNS
from simloop.scenario.expectations import Expectations, load_expectations

ALL_LOOPS = "all"
"""The value of `--loop` that stands for every design that ships with simloop."""

_NAMES = "a design, a version of one (opencode@1.18.34), or module:attribute"
_SEEDS = click.IntRange(0, 2**63, max_open=True)


def _known(_: click.Context, __: click.Parameter, loop: str | None) -> str | None:
    if loop is not None:
        check_loop_exists(loop)
    return loop


def _known_or_all(
    context: click.Context, parameter: click.Parameter, loop: str | None
) -> str | None:
    return loop if loop == ALL_LOOPS else _known(context, parameter, loop)


def _known_each(_: click.Context, __: click.Parameter, loops: tuple[str, ...]) -> tuple[str, ...]:
    """Return each loop once; all of them by default."""
    for loop in loops:
        if loop != ALL_LOOPS:
            check_loop_exists(loop)
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
_SEED = click.option("--seed", type=_SEEDS, help="Use this seed instead of the scenario's.")
_LOOP = click.option(
    "--loop",
    metavar="NAME",
    callback=_known,
    shell_complete=loop_names,
    help=f"Use this loop instead of the scenario's: {_NAMES}.",
)
_LOOP_OR_ALL = click.option(
    "--loop",
    metavar="NAME",
    callback=_known_or_all,
    shell_complete=loop_names_and_all,
    help=f"Use this loop instead of the scenario's: {_NAMES}, or {ALL_LOOPS} for each design.",
)
_LOOPS = click.option(
    "--loop",
    "loops",
    metavar="NAME",
    multiple=True,
    callback=_known_each,
    shell_complete=loop_names_and_all,
    help=f"A loop to run: {_NAMES}; may be repeated. By default all {len(DESIGNS)} designs.",
)
replay_loop = click.option(
    "--loop",
    metavar="NAME",
    callback=_known,
    shell_complete=loop_names,
    help="Run the traces on this loop. It is required for a trace of a loop that does not come "
    f"with simloop, because replay imports no module that only the trace names. NAME is {_NAMES}.",
)
"""The parameter `loop` of a verb that runs traces again."""


def read_options(given: tuple[str, ...]) -> dict[str, Any]:
    """Return the options, each given as KEY=VALUE. Raises ScenarioError if one is given twice."""
    pairs = dict(pair.partition("=")[::2] for pair in given)
    if len(pairs) < len(given):
        raise ScenarioError("an option is given twice", key="--option")
    return {key: _read(value) for key, value in pairs.items()}


def _read(text: str) -> Any:
    """Return a value as YAML reads it; a flag needs no value."""
    words = {"": True, "true": True, "false": False, "null": None}
    return int(text) if re.fullmatch(r"-?[0-9]+", text) else words.get(text, text)


def _read_options(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    return read_options(given)


_JUDGE_AS = click.option(
    "--judge-as",
    metavar="DESIGN",
    default="",
    shell_complete=loop_names,
    help="Check a loop of your own against the expectations for this bundled design.",
)
_OPTIONS = click.option(
    "--option",
    "loop_options",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_read_options,
    help="An option of the loop, as in a scenario under `loops`; may be repeated.",
)


def _read_expectations(
    _: click.Context, __: click.Parameter, file: Path | None
) -> Expectations | None:
    return None if file is None else load_expectations(file)


_EXPECT = click.option(
    "--expect",
    "expect_on",
    metavar="FILE",
    type=click.Path(path_type=Path),
    callback=_read_expectations,
    help="Take expectations from this file: below the name of a bundled scenario, the keys of "
    "`expect`. Scenarios that the file does not name keep their own expectations.",
)


def check_single_loop(loop: str | None, settings: RunOptions) -> None:
    """Raise UsageError if settings of one loop are given for all loops."""
    for flag, given in _of_one_loop(settings):
        if loop == ALL_LOOPS and given:
            raise click.UsageError(f"{flag} is for a single loop, and not for --loop {ALL_LOOPS}")


def _of_one_loop(settings: RunOptions) -> Iterator[tuple[str, object]]:
    """Yield each setting that is of a single loop, by its flag."""
    yield "--judge-as", settings.get("judge_as")
    yield "--option", settings.get("loop_options")
    yield "--expect", settings.get("expect_on")


def run_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the parameters `seed`, `loop` and the settings of the loop."""
    return _SEED(_LOOP(_JUDGE_AS(_OPTIONS(_EXPECT(command)))))


def scenario_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the parameters `targets`, and those of `run_settings`."""
    return _TARGETS(run_settings(command))


def scenario_settings_or_all(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the parameters of `scenario_settings`; `loop` may be ALL_LOOPS."""
    return _TARGETS(_SEED(_LOOP_OR_ALL(_JUDGE_AS(_OPTIONS(_EXPECT(command))))))


def comparison_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the parameters `targets`, `seed`, `loops` and the settings of one loop.

    `loops` are names, without ALL_LOOPS.
    """
    return _TARGETS(_SEED(_LOOPS(_JUDGE_AS(_OPTIONS(_EXPECT(command))))))


def settings_by_loop(loops: Sequence[str], of_one: RunOptions) -> dict[str, RunOptions]:
    """Return the settings of each loop; those `of_one` are for one of them.

    That is the only loop of the user's own, or else the only loop. Raises UsageError if there are
    more.
    """
    settings: dict[str, RunOptions] = {loop: {} for loop in loops}
    chosen = [loop for loop in loops if is_own(loop)] or loops
    for flag, given in _of_one_loop(of_one):
        if given and len(chosen) > 1:
            raise click.UsageError(
                f"{flag} is for one loop: name a single --loop, or a single one of your own"
            )
    if any(given for _, given in _of_one_loop(of_one)):
        settings[chosen[0]] |= of_one
    return settings


def _added(context: click.Context, _: click.Parameter, names: tuple[str, ...]) -> None:
    if names:
        from simloop.check.invariants.catalog import add_invariants  # noqa: PLC0415 - most need none

        context.call_on_close(add_invariants(*names))


invariants_of_ones_own = click.option(
    "--invariants",
    multiple=True,
    metavar="MODULE[:NAME]",
    expose_value=False,
    callback=_added,
    help="Also judge these invariants of your own; may be repeated.",
)
"""The option for the invariants of a module, or one of them, which the command judges too."""
