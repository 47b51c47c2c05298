import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import Result
from commandline import Cli

import simloop
from simloop.cli import doctor as doctor_verb
from simloop.scenario import catalog

SCENARIO = "prompt: Hi\nmodel: [{say: Hello.}]\n"


@pytest.fixture
def scenarios(tmp_path: Path) -> Path:
    """A folder with one bundled scenario, where an installation has them."""
    folder = tmp_path / "simloop" / "_scenarios"
    folder.mkdir(parents=True)
    (folder / "a.simloop.yaml").write_text(SCENARIO, "utf-8")
    return tmp_path


@pytest.fixture
def installation(scenarios: Path) -> Path:
    """A copy of the package beside them, in which something can be broken."""
    ignore = shutil.ignore_patterns("__pycache__")
    package = Path(simloop.__file__).parent
    shutil.copytree(package, scenarios / "simloop", ignore=ignore, dirs_exist_ok=True)
    return scenarios


def examined(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    """What it says of this installation, with the bundled scenarios of `folder`."""
    monkeypatch.setattr(catalog, "__file__", str(folder / "simloop" / "scenario" / "catalog.py"))
    return cli("doctor")


def doctor(folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "simloop", "doctor"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_good_installation_is_all_ok(
    cli: Cli, scenarios: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = examined(cli, scenarios, monkeypatch)
    *lines, last = result.stdout.splitlines()
    assert result.exit_code == 0
    assert last == "all is well"
    assert all(line.startswith("ok ") for line in lines)
    assert result.stderr == ""
    for subject in ("Python", "simloop"):
        assert subject in result.stdout
    assert "1 in " in result.stdout
    listed = "openai-responses    POST /responses; tested with openai 1.109.1, "
    assert any(listed in line for line in lines)


def test_the_clients_and_the_formats_are_told_with_the_versions_that_were_tested(
    cli: Cli, scenarios: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"click": ["an HTTP client", "click", ["1.0", "2.0"]],
            "other": ["POST /other", "no-package", ["3.0"]]}  # fmt: skip
    answered = scenarios / "answered.json"
    answered.write_text(json.dumps(rows), "utf-8")
    monkeypatch.setattr(doctor_verb, "ANSWERED", answered)
    result = examined(cli, scenarios, monkeypatch)
    here = metadata.version("click")
    assert result.stdout.splitlines()[-3:-1] == [
        f"ok      click               an HTTP client; tested with click 1.0, 2.0; here {here}",
        "ok      other               POST /other; tested with no-package 3.0; not installed here",
    ]


def test_missing_scenarios_are_told_and_the_other_checks_go_on(
    cli: Cli, scenarios: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scenarios / "simloop" / "_scenarios" / "a.simloop.yaml").unlink()
    result = examined(cli, scenarios, monkeypatch)
    assert result.exit_code == 1
    failed = [line.split()[1] for line in result.stdout.splitlines() if line.startswith("FAILED")]
    assert failed == ["scenarios"]
    assert result.stdout.splitlines()[-1].startswith("1 of ")


@pytest.mark.slow
def test_a_dependency_that_cannot_be_imported_is_told_without_a_traceback(
    installation: Path,
) -> None:
    (installation / "msgspec.py").write_text("raise ImportError('msgspec is broken')", "utf-8")
    result = doctor(installation)
    assert result.returncode == 1
    assert "FAILED  scenarios" in result.stdout
    assert "msgspec is broken" in result.stdout
    assert result.stderr == ""
