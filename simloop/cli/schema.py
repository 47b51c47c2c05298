"""`simloop schema`: the JSON Schema of scenario files, for editors and other tools.

The rule to keep: the text is the same for every call, because a copy is committed beside the
bundled scenarios and compared.
"""

import json

import click

from simloop.cli.terminal import out
from simloop.scenario.schema import Scenario

# A name, not an address: editors are pointed to a file, and nobody has to be asked.
SCHEMA_ID = "urn:simloop:scenario"


def schema_text() -> str:
    """The JSON Schema (draft 2020-12) of a scenario, with a line end."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        **Scenario.model_json_schema(),
        "title": "simloop scenario",
    }
    return json.dumps(document, indent=2) + "\n"


@click.command("schema")
def command() -> None:
    """Print the JSON Schema of scenario files.

    An editor with the YAML language server completes and checks a scenario whose first line is:

    # yaml-language-server: $schema=PATH
    """
    out(schema_text().removesuffix("\n"))
