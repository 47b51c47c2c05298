"""`simloop cat`: print a bundled scenario, to read it or to start a file from it."""

import click

from simloop.cli.completion import scenario_names
from simloop.cli.terminal import out_exactly
from simloop.scenario.catalog import find_bundled


@click.command("cat")
@click.argument("name", shell_complete=scenario_names)
def command(name: str) -> None:
    """Print a bundled scenario.

    NAME is a name from `simloop list`. `simloop cat retry/rate-limit > mine.simloop.yaml` copies
    one.
    """
    out_exactly(find_bundled(name).read_text("utf-8").removesuffix("\n"))
