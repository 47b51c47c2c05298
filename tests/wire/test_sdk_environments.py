"""The tests that need SDKs, in environments that have the newest ones and old ones."""

import pytest
from environments import built, run_inside

FILES = ("test_real_sdks.py", "test_sdk_retries.py")
ENVIRONMENTS = {
    # The pages quote what the newest SDKs do.
    "sdks": (*FILES, "test_cloud_sdks.py", "test_recipes_on_sdks.py", "test_page_examples.py"),
    "mocks": ("test_mocked_clients.py",),  # libraries that mock HTTP clients
    "sdks-older": (*FILES, "test_mcp_server.py"),  # with the older package `mcp`
}


@pytest.mark.frameworks
@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_everything_holds_with_these_versions(environment: str) -> None:
    run_inside(built(environment), [f"tests/wire/{file}" for file in ENVIRONMENTS[environment]])
