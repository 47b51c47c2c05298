from pathlib import Path

import pytest
from regenerate import generated


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.name)
def test_a_generated_file_is_current(path: Path) -> None:
    assert path.read_text("utf-8") == generated()[path], "run: python tests/regenerate.py"
