"""`simloop schema`: the JSON Schema of scenario files, for editors and other tools."""

import click

from simloop.cli.terminal import out_exactly
from simloop.scenario.jsonschema import schema_text


@click.command("schema")
def command() -> None:
    """Print the JSON Schema of scenario files.

    An editor with the YAML language server completes and checks a scenario whose first line is:

    # yaml-language-server: $schema=PATH
    """
    out_exactly(schema_text().removesuffix("\n"))
