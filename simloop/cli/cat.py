"""`simloop cat`: the text of a bundled scenario, to read or to begin a file of one's own with."""

import click

from simloop.cli.completion import scenario_names
from simloop.cli.terminal import out_exactly
from simloop.scenario.catalog import find_bundled


@click.command("cat")
@click.argument("name", shell_complete=scenario_names)
def command(name: str) -> None:
    """Print a bundled scenario.

    NAME is as in `simloop list`. `simloop cat retry/rate-limit > mine.simloop.yaml` copies one.
    """
    out_exactly(find_bundled(name).read_text("utf-8").removesuffix("\n"))
