"""The tests that need agent frameworks, in environments that have all of them."""

import functools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from environments import (
    THIS,
    TOP,
    built,
    digests_of,
    interpreter,
    printed_by,
    run_inside,
    scenarios_of,
)
from test_recipes_on_frameworks import RECIPES

INSIDE = (
    "test_clients.py", "test_compared.py", "test_findings.py", "test_interception.py",
    "test_mcp_server.py", "test_other_clients.py", "test_readme_example.py",
    "test_recipes_on_frameworks.py", "test_sdk_faults.py", "test_sdk_retries.py",
)  # fmt: skip
CLIENTS = (
    "test_clients.py", "test_interception.py", "test_mcp_server.py", "test_other_clients.py",
    "test_sdk_faults.py", "test_sdk_retries.py",
)  # fmt: skip
"""The tests in which the version of Python counts; the traces of recipes are compared besides."""
PLAIN = ("virtual", "world", "adapters", "test_pytest_plugin_async*.py", "runs/test_agents*.py")
USUAL = "not (sdks or frameworks or versions or slow)"
PYTHONS = [version for version in ("3.11", "3.12", "3.13") if version != THIS]
"""The others for which all pinned packages have wheels."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds the environment for a version of Python once, and returns its Python."""

    @functools.cache
    def of(version: str) -> Path:
        if interpreter(version) is None:
            pytest.skip(f"Python {version} is not installed")
        return built("frameworks", tmp_path_factory.mktemp("environment"), version)

    return of


def of_adapters(names: tuple[str, ...]) -> list[str]:
    return [f"tests/adapters/{name}" for name in names]


@pytest.mark.frameworks
def test_everything_holds_with_the_frameworks_that_use_an_older_sdk(
    environment: Callable[[str], Path],
) -> None:
    run_inside(environment(THIS), of_adapters(INSIDE))


@pytest.mark.versions
@pytest.mark.parametrize("version", PYTHONS)
def test_another_python_passes_the_tests_of_time_threads_and_clients(
    version: str, environment: Callable[[str], Path]
) -> None:
    python = environment(version)
    plain = [str(path) for pattern in PLAIN for path in sorted((TOP / "tests").glob(pattern))]
    run_inside(python, plain, USUAL)
    run_inside(python, map(str, (TOP / "tests" / "virtual").glob("test_threads*.py")), "slow")
    run_inside(python, of_adapters(CLIENTS))


@pytest.mark.versions
@pytest.mark.parametrize("version", PYTHONS)
def test_another_python_writes_the_same_bytes_for_each_recipe_and_case_of_threads(
    version: str, environment: Callable[[str], Path]
) -> None:
    assert traces(environment(version)) == traces(environment(THIS))


@functools.cache
def traces(python: Path) -> list[str]:
    """The digests of the traces of all recipes and of all cases of threads, with their names."""
    runs = scenarios_of(RECIPES)
    assert len(runs) > 150
    # One hash seed: smolagents tells the model the names in a set, in the order of the set.
    digests = digests_of(runs, "3", python)
    script = "import threadcases; print(*threadcases.digests_of_cases(), sep='\\n')"
    paths = os.pathsep.join((str(TOP), str(TOP / "tests" / "support")))
    return [*digests, *printed_by(script, python, PYTHONPATH=paths).splitlines()]
