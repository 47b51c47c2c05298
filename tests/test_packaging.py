"""What is shipped: the source distribution and the wheel that is built from it."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from regenerate import PAGES

from simloop.scenario.catalog import SUFFIX, bundled_folder

TOP = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def distribution(installed: Path) -> Distribution:
    (folder,) = installed.glob("*.dist-info")
    return Distribution.at(folder)


def python(installed: Path, *arguments: str, cwd: Path) -> str:
    """What a Python says that sees the wheel's files, the libraries, and not this checkout."""
    paths = [str(installed), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    run = subprocess.run(
        [sys.executable, "-S", *arguments],  # without `site` no editable install is seen
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


@pytest.mark.slow
def test_the_wheel_holds_every_module_and_nothing_else_of_python(contents: set[str]) -> None:
    modules = {
        path.relative_to(folder).as_posix()
        for folder, package in ((TOP, "simloop"), (TOP / "tui", "simloop_tui"))
        for path in (folder / package).rglob("*.py")
    }
    assert {name for name in contents if name.endswith(".py")} == modules
    assert {name.partition("/")[0] for name in contents} == {"simloop", "simloop_tui"}


@pytest.mark.slow
def test_the_wheel_holds_every_file_that_is_read(contents: set[str]) -> None:
    scenarios = {f"simloop/_{one.relative_to(TOP)}" for one in TOP.glob(f"scenarios/*/*{SUFFIX}")}
    pages = {str(one.relative_to(TOP)) for one in (TOP / "simloop" / "page").glob("*.[chj]*s*")}
    styles = {str(one.relative_to(TOP / "tui")) for one in TOP.glob("tui/*/styles/*")}
    assert all((scenarios, pages, styles))
    assert scenarios | pages | styles | {"simloop/py.typed"} <= contents


@pytest.mark.slow
def test_the_source_distribution_holds_tests_and_what_they_need(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= {
        *("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt"),
        *("tests/conftest.py", "tests/test_packaging.py", "scenarios/schema.json"),
        *(page.relative_to(TOP).as_posix() for page in PAGES),
        "scenarios/__snapshots__/start.quickstart.trace.jsonl",
    }


@pytest.mark.slow
def test_the_metadata_name_the_distribution_its_licence_and_its_python(
    distribution: Distribution,
) -> None:
    metadata = distribution.metadata
    assert metadata["Name"] == "agent-simloop"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "Framework :: Pytest" in metadata.get_all("Classifier", [])
    assert metadata["Summary"] == "Deterministic simulation testing for LLM agent loops"


@pytest.mark.slow
def test_a_command_and_a_pytest_plugin_are_installed(distribution: Distribution) -> None:
    points = {(point.group, point.name, point.value) for point in distribution.entry_points}
    assert points == {
        ("console_scripts", "simloop", "simloop.__main__:main"),
        ("pytest11", "simloop", "simloop.pytest_plugin"),
    }


@pytest.mark.slow
def test_the_core_needs_no_test_framework(distribution: Distribution) -> None:
    needed = [line for line in distribution.requires or () if "extra ==" not in line]
    assert needed
    assert not [line for line in needed if line.startswith(("pytest", "hypothesis", "syrupy"))]


def test_a_checkout_finds_its_scenarios_beside_the_package() -> None:
    assert bundled_folder() == TOP / "scenarios"


@pytest.mark.slow
def test_an_installed_wheel_lists_and_runs_its_scenarios(installed: Path, tmp_path: Path) -> None:
    script = "from simloop.scenario.catalog import bundled_folder; print(bundled_folder())"
    found = python(installed, "-c", script, cwd=tmp_path)
    assert found.strip() == str(installed / "simloop" / "_scenarios")
    listed = python(installed, "-m", "simloop", "list", cwd=tmp_path)
    assert "start/quickstart" in listed
    assert "completed" in python(installed, "-m", "simloop", "run", "quickstart", cwd=tmp_path)
