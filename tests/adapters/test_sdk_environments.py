"""The tests that need SDKs, in environments that have the newest ones and old ones."""

from pathlib import Path

import pytest
from environments import built, run_inside

INSIDE = {"sdks": ("test_mcp_server.py",), "sdks-older": ("test_mcp_server.py",)}


@pytest.mark.frameworks
@pytest.mark.parametrize("environment", INSIDE)
def test_everything_holds_with_these_versions(environment: str, tmp_path: Path) -> None:
    run_inside(built(environment, tmp_path), INSIDE[environment])
