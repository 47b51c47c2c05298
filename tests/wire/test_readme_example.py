"""The README's test of an agent on an SDK runs as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.sdks

TOP = Path(__file__).resolve().parents[2]


def test_the_test_of_the_readme_passes_with_all_of_its_seeds(tmp_path: Path) -> None:
    text = (TOP / "README.md").read_text("utf-8")
    ((name, block),) = re.findall(r"^```python (\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / name).write_text(block)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert "200 runs" in done.stdout
