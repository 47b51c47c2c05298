"""`simloop list`: the scenarios that ship with simloop."""

import click

from simloop.cli.terminal import json_text, note, out, out_lines, plain
from simloop.scenario.catalog import bundled, bundled_folder


@click.command("list")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="What to print on stdout.",
)
def command(output_format: str) -> None:
    """List the bundled scenarios."""
    listed = list(bundled())
    if output_format == "json":
        rows = [
            {"name": one.name, "path": str(one.path), "title": one.title, "loop": one.loop}
            for one in listed
        ]
        out(json_text(rows, indent=2))
        return
    width = max((len(one.name) for one in listed), default=0)
    out_lines(f"{plain(one.name).ljust(width)}  {plain(one.title)}".rstrip() for one in listed)
    if not listed:
        note(f"there are no scenarios in {plain(str(bundled_folder()))}; see: simloop doctor")
