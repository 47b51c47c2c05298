"""The verbs around scenario files: `new`, and `list`, `cat` and `schema` of what ships."""

from pathlib import Path

import click

from simloop.cli.options import scenario_names
from simloop.cli.terminal import cells, note, out, out_lines, padded, plain
from simloop.errors import ScenarioError
from simloop.scenario.catalog import (
    SUFFIX,
    bundled,
    bundled_folder,
    find_bundled,
    schema_text,
)
from simloop.scenario.writing import SCHEMA_FILE, create, create_schema

STARTER = f"""\
# yaml-language-server: $schema={SCHEMA_FILE}
# What the model will say, the tools that it can call, and what must come of it.
# All keys are in {SCHEMA_FILE}; an editor with a YAML language server completes them.

title: A rate limit is waited out, and what the tool returns reaches the answer

# What the user asks for.
prompt: What does README.md say?

# Bounds of the run; all have defaults.
limits: {{max_steps: 20}}

# Fake tools. One that fails has `raises: the message` in the place of `returns`.
tools:
  read_file:
    description: Read a file.
    parameters: {{path: string}}  # write `string?` for an argument that may be left out
    returns: "# Hello"
    takes: 120ms

# What the model says, one entry for each request. All time is virtual: waiting costs nothing.
model:
  - http: {{status: 429, retry_after: 5s}}
  - say: Let me look.
    call: {{read_file: {{path: README.md}}}}
  - say: It says Hello.

# What must hold at the end; leave out what does not matter. To see it fail, change `takes` above.
expect:
  outcome: completed
  text: It says Hello.
  elapsed: 5.12s
  requests: 3
  tools_run: [read_file]
  backoffs: [5s]
  counters: {{error_count: 1, total_steps: 2}}
"""


@click.command("new")
@click.argument("file", type=click.Path(path_type=Path))
def new(file: Path) -> None:
    """Write a starter scenario that passes.

    FILE is created under the given name and never overwritten; call it something.simloop.yaml, so
    that `simloop run FOLDER` finds it. The command also writes simloop.schema.json beside it, if
    there is none, for completion and checks in an editor.
    """
    if not create(file, STARTER):
        hint = "choose another name, or delete it first"
        raise ScenarioError("this file exists already", path=file, hint=hint)
    out(plain(str(file)))
    schema = create_schema(file.parent)
    if schema is not None:
        out(plain(str(schema)))
    if not file.name.endswith(SUFFIX):
        note(f"its name does not end with {SUFFIX}, so `simloop run FOLDER` will not find it")


@click.command("list")
@click.argument("names", metavar="[THEME/|NAME]...", nargs=-1, shell_complete=scenario_names)
def listing(names: tuple[str, ...]) -> None:
    """List the bundled scenarios.

    `simloop list retry/` lists those of a theme. `simloop cat NAME` prints one.
    """
    listed = list(bundled(names))
    width = max((cells(one.name) for one in listed), default=0)
    out_lines(f"{padded(plain(one.name), width)}  {plain(one.title)}".rstrip() for one in listed)
    if not listed:
        note(f"there are no scenarios in {plain(str(bundled_folder()))}; see: simloop doctor")


@click.command("cat")
@click.argument("name", shell_complete=scenario_names)
def cat(name: str) -> None:
    """Print a bundled scenario.

    NAME is a name from `simloop list`. `simloop cat retry/rate-limit > mine.simloop.yaml` copies
    one.
    """
    out(find_bundled(name).read_text("utf-8").removesuffix("\n"))


@click.command("schema")
def schema() -> None:
    """Print the JSON Schema of scenario files.

    An editor with the YAML language server completes and checks a scenario whose first line is:

    # yaml-language-server: $schema=PATH
    """
    out(schema_text().removesuffix("\n"))
