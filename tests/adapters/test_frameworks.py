"""The tests that need agent frameworks, in an environment that has all of them."""

from pathlib import Path

import pytest
from environments import built, run_inside

INSIDE = (
    "test_clients.py", "test_compared.py", "test_findings.py", "test_interception.py",
    "test_mcp_server.py", "test_other_clients.py", "test_readme_example.py",
    "test_recipes_on_frameworks.py", "test_sdk_faults.py", "test_sdk_retries.py",
)  # fmt: skip


@pytest.mark.frameworks
def test_everything_holds_with_the_frameworks_that_use_an_older_sdk(tmp_path: Path) -> None:
    run_inside(built("frameworks", tmp_path), INSIDE)
