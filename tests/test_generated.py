from pathlib import Path

import pytest
from regenerate import generated

FILES = ("README.md", "simloop/ARCHITECTURE.md", "scenarios/README.md", "scenarios/schema.json")


def test_these_files_are_generated() -> None:
    top = Path(__file__).resolve().parent.parent
    assert {path.relative_to(top).as_posix() for path in generated()} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_generated_file_is_current(name: str) -> None:
    path = Path(__file__).resolve().parent.parent / name
    assert path.read_text("utf-8") == generated()[path], "run: python tests/regenerate.py"
