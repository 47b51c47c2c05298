"""`simloop list`: the scenarios that ship with simloop, all of them or those of a theme."""

import click

from simloop.cli.completion import scenario_names
from simloop.cli.folding import cells, padded
from simloop.cli.terminal import json_text, note, out_exactly, out_lines, plain
from simloop.scenario.catalog import Listed, bundled, bundled_folder


@click.command("list")
@click.argument("names", metavar="[THEME/|NAME]...", nargs=-1, shell_complete=scenario_names)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The format of the output.",
)
def command(names: tuple[str, ...], output_format: str) -> None:
    """List the bundled scenarios.

    `simloop list retry/` lists those of a theme. `simloop cat NAME` prints one.
    """
    listed = list(bundled(names))
    if output_format == "json":
        out_exactly(json_text([_row(one) for one in listed], indent=2))
        return
    width = max((cells(one.name) for one in listed), default=0)
    out_lines(f"{padded(plain(one.name), width)}  {plain(one.title)}".rstrip() for one in listed)
    if not listed:
        note(f"there are no scenarios in {plain(str(bundled_folder()))}; see: simloop doctor")


def _row(one: Listed) -> dict[str, str]:
    return {"name": one.name, "path": str(one.path), "title": one.title, "loop": one.loop}
