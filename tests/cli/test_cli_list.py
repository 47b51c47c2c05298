import json
from pathlib import Path

import pytest
from commandline import Cli

from simloop.scenario import catalog
from simloop.scenario.catalog import bundled

SCENARIO = "title: It answers\nprompt: Hi\nmodel: [{say: Hello.}]\n"


def installed(folder: Path, scenarios: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let these be the bundled scenarios, in the folder that they have in a wheel."""
    package = folder.resolve() / "simloop"
    monkeypatch.setattr(catalog, "__file__", str(package / "scenario" / "catalog.py"))
    for name, text in scenarios.items():
        path = package / "_scenarios" / f"{name}.simloop.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return package / "_scenarios"


def test_scenarios_are_listed_by_name_with_their_titles(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, {"z/last": SCENARIO, "a": SCENARIO}, monkeypatch)
    result = cli("list")
    assert result.exit_code == 0
    assert result.stdout == "a       It answers\nz/last  It answers\n"
    assert result.stderr == ""


def test_json_is_an_array_of_name_path_title_and_loop(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = installed(tmp_path, {"theme/a": SCENARIO}, monkeypatch)
    path = folder / "theme" / "a.simloop.yaml"
    row = {"name": "theme/a", "path": str(path), "title": "It answers", "loop": "reference"}
    assert json.loads(cli("list", "--format", "json").stdout) == [row]


@pytest.mark.slow
def test_the_scenarios_of_this_installation_are_listed(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [row["name"] for row in json.loads(cli("list", "--format", "json").stdout)]
    assert names == [one.name for one in bundled()]
    assert list(tmp_path.iterdir()) == []


def test_an_installation_without_scenarios_says_so_on_stderr(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, {}, monkeypatch)
    result = cli("list")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "see: simloop doctor" in result.stderr
    assert cli("list", "--format", "json").stdout == "[]\n"


def test_a_bundled_scenario_that_cannot_be_read_is_named(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, {"a": SCENARIO, "bad": "modell: 1\n"}, monkeypatch)
    result = cli("list")
    assert result.exit_code == 2
    assert "bad.simloop.yaml:1:1: " in result.stderr


@pytest.mark.slow
def test_a_theme_lists_its_own_scenarios(cli: Cli) -> None:
    run = cli("list", "retry/")
    names = [line.split()[0] for line in run.stdout.splitlines()]
    assert names == [one.name for one in bundled() if one.name.startswith("retry/")]
    assert names


def test_a_theme_that_there_is_not_is_refused(cli: Cli) -> None:
    run = cli("list", "retri/")
    assert run.exit_code == 2
    assert "did you mean `retry/`?" in run.stderr
