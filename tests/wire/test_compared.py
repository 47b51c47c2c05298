"""The table of docs/compared.md, which compares the bundled loops with agents on real packages."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.sdks


def test_the_table_is_what_the_runs_give() -> None:
    command = [sys.executable, str(Path(__file__).with_name("publish_compare.py")), "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
