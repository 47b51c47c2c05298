import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

import simloop
from simloop.cli import main
from simloop.scenario.catalog import bundled

SCENARIO = "title: It answers\nprompt: Hi\nmodel: [{say: Hello.}]\n"


def listed(*arguments: str, python_path: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "simloop", "list", *arguments],
        cwd=python_path,
        env={**os.environ, "PYTHONPATH": str(python_path)},
        capture_output=True,
        text=True,
        check=False,
    )


def installed(folder: Path, scenarios: dict[str, str]) -> Path:
    """A copy of the package, with these bundled scenarios, as in a wheel."""
    package = Path(simloop.__file__).parent
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(package, folder / "simloop", ignore=ignore)
    for name, text in scenarios.items():
        path = folder / "simloop" / "_scenarios" / f"{name}.simloop.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def test_scenarios_are_listed_by_name_with_their_titles(tmp_path: Path) -> None:
    folder = installed(tmp_path, {"z/last": SCENARIO, "a": SCENARIO})
    result = listed(python_path=folder)
    assert result.returncode == 0
    assert result.stdout == "a       It answers\nz/last  It answers\n"
    assert result.stderr == ""


def test_json_is_an_array_of_name_path_title_and_loop(tmp_path: Path) -> None:
    folder = installed(tmp_path, {"theme/a": SCENARIO})
    result = listed("--format", "json", python_path=folder)
    path = folder.resolve() / "simloop" / "_scenarios" / "theme" / "a.simloop.yaml"
    row = {"name": "theme/a", "path": str(path), "title": "It answers", "loop": "reference"}
    assert json.loads(result.stdout) == [row]


def test_the_scenarios_of_this_installation_are_listed(tmp_path: Path) -> None:
    package = Path(simloop.__file__).parent.parent
    result = listed("--format", "json", python_path=package)
    names = [row["name"] for row in json.loads(result.stdout)]
    assert names == [one.name for one in bundled()]
    assert list(tmp_path.iterdir()) == []


def test_an_installation_without_scenarios_says_so_on_stderr(tmp_path: Path) -> None:
    result = listed(python_path=installed(tmp_path, {}))
    assert result.returncode == 0
    assert result.stdout == ""
    assert "see: simloop doctor" in result.stderr
    assert listed("--format", "json", python_path=tmp_path).stdout == "[]\n"


def test_a_bundled_scenario_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    result = listed(python_path=installed(tmp_path, {"a": SCENARIO, "bad": "modell: 1\n"}))
    assert result.returncode == 2
    assert "bad.simloop.yaml:1:1: " in result.stderr


def test_a_theme_lists_its_own_scenarios() -> None:
    run = CliRunner().invoke(main, ["list", "retry/"])
    names = [line.split()[0] for line in run.stdout.splitlines()]
    assert names == [one.name for one in bundled() if one.name.startswith("retry/")]
    assert names


def test_a_theme_that_there_is_not_is_refused() -> None:
    run = CliRunner().invoke(main, ["list", "retri/"])
    assert run.exit_code == 2
    assert "did you mean `retry/`?" in run.stderr
