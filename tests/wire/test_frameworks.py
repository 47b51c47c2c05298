"""The tests that need agent frameworks, in environments that have all of them."""

import functools
import os
from pathlib import Path

import pytest
from environments import (
    PYTHONS,
    RECORDED,
    THIS,
    TOP,
    built,
    digests_of_bundled,
    interpreter,
    printed_by,
    run_inside,
    scenarios_of,
    told_by,
)
from test_recipes_on_frameworks import AGENTS

CLIENTS = (
    "clients/test_interception.py", "test_mcp_server.py",
    "test_other_clients.py", "test_sdk_faults.py", "test_sdk_retries.py",
)  # fmt: skip
"""The tests in which the version of Python counts; the traces of recipes are compared besides."""
PLAIN = ("virtual", "test_pytest_plugin_async*.py", "runs/test_agents*.py")
ON_EACH = "not (frameworks or versions) and (not slow or each_python)"
OTHERS = [version for version in PYTHONS if version != THIS]


@pytest.mark.frameworks
def test_everything_holds_with_the_frameworks_that_use_an_older_sdk() -> None:
    run_inside(built("frameworks"), [*of_wire(CLIENTS), "tests/wire/test_recipes_on_frameworks.py"])


@pytest.mark.versions
@pytest.mark.parametrize("version", OTHERS)
def test_another_python_passes_the_tests_and_writes_the_same_bytes(version: str) -> None:
    """The bytes are those of the bundled scenarios, of each recipe and of the cases of threads."""
    if interpreter(version) is None:
        pytest.skip(f"Python {version} is not installed")
    python = built("frameworks", version)
    paths = [str(path) for pattern in PLAIN for path in sorted((TOP / "tests").glob(pattern))]
    run_inside(python, [*paths, *of_wire(CLIENTS)], ON_EACH)
    assert digests_of_bundled(python, hash_seed="2") == RECORDED
    assert traces(python) == traces(built("frameworks"))


def of_wire(names: tuple[str, ...]) -> list[str]:
    return [f"tests/wire/{name}" for name in names]


@functools.cache
def traces(python: Path) -> list[str]:
    """The digests of the traces of recipes and of cases of threads, with their names."""
    runs = scenarios_of(AGENTS)[::3]
    assert len({loop for loop, _ in runs}) == len({loop for loop, _ in AGENTS})
    # One hash seed: smolagents tells the model the names in a set, in the order of the set.
    digests = told_by(runs=runs, hash_seed="3", python=python).digests
    script = "import threadcases; print(*threadcases.digests_of_cases(), sep='\\n')"
    paths = os.pathsep.join((str(TOP), str(TOP / "tests" / "support")))
    return [*digests, *printed_by(script, python, PYTHONPATH=paths).splitlines()]
