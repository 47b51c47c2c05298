"""Writes what is generated from the code: `python tests/regenerate.py`. Tests prove it current."""

from collections.abc import Mapping
from pathlib import Path

from simloop.kernel.diagram import mermaid
from simloop.loops.reference import LEGAL
from simloop.scenario.jsonschema import schema_text

TOP = Path(__file__).resolve().parent.parent
ARCHITECTURE = TOP / "simloop" / "ARCHITECTURE.md"


def architecture() -> str:
    """ARCHITECTURE.md with its diagrams drawn anew."""
    return _between_marks(ARCHITECTURE.read_text("utf-8"), "reference", mermaid(LEGAL))


def _between_marks(text: str, name: str, diagram: str) -> str:
    begin, end = f"<!-- {name}: generated -->\n", f"<!-- {name}: end -->\n"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}```mermaid\n{diagram}\n```\n{end}{after}"


def generated() -> Mapping[Path, str]:
    """Every generated file with what it should hold."""
    return {
        ARCHITECTURE: architecture(),
        TOP / "scenarios" / "schema.json": schema_text(),
    }


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text, "utf-8")
