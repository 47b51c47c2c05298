"""Tab completion: the names of bundled scenarios, themes and loops, beside the files of the folder.

The rule to keep: completion runs at each press of a key, so it lists names and reads no scenario.
"""

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem


def scenarios_and_files(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names that `run` and its like take; without one, the shell completes files."""
    # First, because click's script for bash drops the names that come before it.
    files = CompletionItem(incomplete, type="file")
    return [files, *scenario_names(context, parameter, incomplete)]


def scenario_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of bundled scenarios and of their themes, and `all`."""
    from simloop.scenario.catalog import ALL, bundled_names  # noqa: PLC0415 - at a key press only

    names = list(bundled_names())
    themes = dict.fromkeys(f"{name.rpartition('/')[0]}/" for name in names if "/" in name)
    return _beginning(incomplete, (ALL, *themes, *names))


def loop_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the loop designs and their versions."""
    from simloop.scenario.designs import names  # noqa: PLC0415 - at a key press only

    return _beginning(incomplete, names())


def loop_names_and_all(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the loop designs, their versions, and the word for all designs."""
    return [*loop_names(context, parameter, incomplete), *_beginning(incomplete, ("all",))]


def _beginning(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
