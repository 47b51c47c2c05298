"""The tests that need agent frameworks or another Python, in environments that have them."""

import pytest
from environments import (
    PYTHONS,
    RECORDED,
    THIS,
    built,
    digests_of_bundled,
    digests_of_thread_cases,
    interpreter,
    run_inside,
)

CLIENTS = tuple(
    f"tests/wire/{name}"
    for name in (
        "clients/test_interception.py", "test_mcp_server.py",
        "test_other_clients.py", "test_sdk_faults.py", "test_sdk_retries.py",
        "test_service_clients.py",
    )
)  # fmt: skip
PLUGIN = ("tests/test_pytest_plugin_async.py", "tests/test_pytest_plugin_async_fixtures.py")
SHARES = (
    (*PLUGIN, "tests/runs/test_agents.py", "tests/wire/test_other_clients.py"),
    ("tests/virtual",),
)
"""What depends on the version of Python: each of the other Pythons takes one share.

All tests run on each Python in .github/workflows/ci.yml.
"""
OTHERS = [version for version in PYTHONS if version != THIS]
ON_EACH = "not (frameworks or versions) and (not slow or each_python)"


@pytest.mark.frameworks
def test_clients_behave_with_the_frameworks_that_use_an_older_sdk() -> None:
    run_inside(built("frameworks"), CLIENTS)


@pytest.mark.versions
@pytest.mark.parametrize("version", OTHERS)
def test_another_python_passes_its_share_and_writes_the_same_bytes(version: str) -> None:
    """The bytes are those of the bundled scenarios and of the cases of threads."""
    if interpreter(version) is None:
        pytest.skip(f"Python {version} is not installed")
    python = built("frameworks", version)
    run_inside(python, SHARES[OTHERS.index(version) % len(SHARES)], ON_EACH)
    assert digests_of_bundled(python, hash_seed="2") == RECORDED
    assert digests_of_thread_cases(python) == digests_of_thread_cases()
