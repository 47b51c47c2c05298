import importlib

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Somebody's project: its pytest is strict, and takes warnings for errors."""
    # What a CI service and xdist tell the pytest that runs this, and not the one in the project.
    for name in ("CI", "BUILD_NUMBER", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    # A run in this process forgets the modules that it was the first to import.
    importlib.import_module("simloop.scenario.simulation")
    # Hypothesis would be imported anew in each run, for a second, to say nothing.
    pytester.makepyprojecttoml("""
        [tool.pytest]
        strict = true
        filterwarnings = ["error"]
        addopts = ["-p", "no:hypothesispytest", "-p", "no:benchmark", "-p", "no:anyio"]
    """)
    return pytester
