"""The verbs around scenario files: `new`, and `list`, `cat` and `schema` of what ships."""

from pathlib import Path

import click

from simloop.cli.options import scenario_names, targets_of
from simloop.cli.terminal import cells, note, out, out_lines, padded, plain
from simloop.scenario import catalog
from simloop.scenario.writing import create, create_schema

STARTER = Path(__file__).with_name("starter.yaml")


@click.command("new")
@click.argument("file", type=click.Path(path_type=Path))
def new(file: Path) -> None:
    """Write a starter scenario that passes.

    FILE is created under the given name and never overwritten; call it something.simloop.yaml, so
    that `simloop run FOLDER` finds it. The command also writes simloop.schema.json beside it, if
    there is none, for completion and checks in an editor.
    """
    create(file, STARTER.read_text("utf-8"))
    out(plain(str(file)))
    if (schema := create_schema(file.parent)) is not None:
        out(plain(str(schema)))
    if not file.name.endswith(end := catalog.SUFFIX):
        note(f"its name does not end with {end}, so `simloop run FOLDER` will not find it")


@click.command("list")
@click.argument("names", metavar="[THEME/|NAME]...", nargs=-1, shell_complete=scenario_names)
def listing(names: tuple[str, ...]) -> None:
    """List the bundled scenarios.

    `simloop list retry/` lists those of a theme. `simloop cat NAME` prints one.
    """
    found = sorted(targets_of(names or catalog.bundled_names()), key=lambda each: each.name)
    listed = [(plain(each.name), plain(each.scenario().title)) for each in found]
    width = max((cells(name) for name, _ in listed), default=0)
    out_lines(f"{padded(name, width)}  {title}".rstrip() for name, title in listed)
    if not listed:
        folder = plain(str(catalog.bundled_folder()))
        note(f"there are no scenarios in {folder}; see: simloop doctor")


@click.command("cat")
@click.argument("name", shell_complete=scenario_names)
def cat(name: str) -> None:
    """Print a bundled scenario.

    NAME is one of `simloop list`. `simloop cat retry/rate-limit > mine.simloop.yaml` copies it.
    """
    out(catalog.find_bundled(name).read_text("utf-8").removesuffix("\n"))


@click.command("schema")
def schema() -> None:
    """Print the JSON Schema of scenario files.

    An editor with the YAML language server completes and checks a scenario whose first line is:

    # yaml-language-server: $schema=PATH
    """
    out(catalog.schema_text().removesuffix("\n"))
