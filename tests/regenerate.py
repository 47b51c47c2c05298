"""Writes what is generated from the code: `python tests/regenerate.py`. Tests prove it current."""

from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner

from simloop.cli import main
from simloop.kernel.diagram import mermaid
from simloop.loops.reference import LEGAL
from simloop.scenario.catalogue import catalogue_text
from simloop.scenario.jsonschema import schema_text

TOP = Path(__file__).resolve().parent.parent


def quickstart() -> str:
    """What the README's first command prints."""
    run = CliRunner(env={"NO_COLOR": "1"}).invoke(main, ["run", "quickstart"])
    assert run.exit_code == 0, run.output
    return run.stdout.strip()


def generated() -> Mapping[Path, str]:
    """Every generated file with what it should hold."""
    readme, architecture = TOP / "README.md", TOP / "simloop" / "ARCHITECTURE.md"
    return {
        readme: _fill(readme, "quickstart", f"```\n{quickstart()}\n```"),
        architecture: _fill(architecture, "reference", f"```mermaid\n{mermaid(LEGAL)}\n```"),
        TOP / "scenarios" / "README.md": catalogue_text(),
        TOP / "scenarios" / "schema.json": schema_text(),
    }


def _fill(path: Path, name: str, block: str) -> str:
    """The file with `block` between the marks of that name."""
    begin, end = f"<!-- {name}: generated -->\n", f"<!-- {name}: end -->\n"
    before, _, rest = path.read_text("utf-8").partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}{block}\n{end}{after}"


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, "utf-8")
