"""`simloop cat`: the text of a bundled scenario."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from click.testing import Result
from commandline import Cli

from simloop.cli.scenarios import STARTER
from simloop.scenario import catalog
from simloop.scenario.catalog import bundled, bundled_folder, schema_text
from simloop.scenario.expect import Expect
from simloop.scenario.loader import load_scenario
from simloop.scenario.writing import SCHEMA_FILE


def new(cli: Cli, path: Path) -> Result:
    return cli("new", str(path))


def test_the_starter_passes(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.simloop.yaml"
    result = new(cli, path)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [str(path), str(tmp_path / SCHEMA_FILE)]
    assert result.stderr == ""
    run = cli("run", str(path))
    assert run.exit_code == 0
    assert run.stdout.splitlines()[-1].startswith("ok")


def test_the_starter_can_fail(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.simloop.yaml"
    new(cli, path)
    assert load_scenario(path).expect != Expect()
    path.write_text(path.read_text("utf-8").replace("120ms", "121ms"), "utf-8")
    assert cli("run", str(path)).exit_code == 1


def test_the_first_line_points_an_editor_to_the_schema(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.simloop.yaml"
    new(cli, path)
    first = path.read_text("utf-8").splitlines()[0]
    match = re.fullmatch(r"# yaml-language-server: \$schema=(.+)", first)
    assert match is not None
    assert (path.parent / match[1]).read_text("utf-8") == schema_text()


def test_an_existing_file_is_never_overwritten(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.simloop.yaml"
    path.write_text("mine", "utf-8")
    result = new(cli, path)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"{path}: this file exists already (")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text("utf-8") == "mine"


def test_a_folder_that_is_not_there_is_an_error(cli: Cli, tmp_path: Path) -> None:
    result = new(cli, tmp_path / "nosuch" / "a.simloop.yaml")
    assert result.exit_code == 2
    assert "cannot be created: No such file or directory" in result.stderr
    assert list(tmp_path.iterdir()) == []


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


def test_an_installation_without_scenarios_says_so_on_stderr(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, {}, monkeypatch)
    result = cli("list")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "see: simloop doctor" in result.stderr


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


def cat(cli: Cli, name: str) -> tuple[int, str, str]:
    run = cli("cat", name)
    return run.exit_code, run.stdout, run.stderr


def test_a_scenario_is_printed_as_its_file_is(cli: Cli) -> None:
    text = (bundled_folder() / "retry" / "rate-limit.simloop.yaml").read_text("utf-8")
    assert cat(cli, "retry/rate-limit") == (0, text, "")


def test_a_stem_is_enough_where_only_one_scenario_has_it(cli: Cli) -> None:
    assert cat(cli, "quickstart")[1].startswith("# yaml-language-server")


def test_a_name_that_there_is_not_is_refused_with_the_nearest(cli: Cli) -> None:
    code, out, err = cat(cli, "retry/rate-limt")
    assert (code, out) == (2, "")
    assert "did you mean `retry/rate-limit`?" in err


def test_a_name_unlike_all_others_gets_no_suggestion(cli: Cli) -> None:
    assert "did you mean" not in cat(cli, "nope")[2]


@pytest.mark.parametrize("name", ["retry/", "all"])
def test_a_theme_is_refused_with_the_command_that_lists_it(cli: Cli, name: str) -> None:
    told = f"`{name}` names several scenarios (see them with: simloop list {name})\n"
    assert cat(cli, name) == (2, "", told)


@pytest.fixture
def schema(cli: Cli) -> Any:
    return json.loads(cli("schema").stdout)


def test_what_is_printed_is_the_text_that_is_committed(cli: Cli) -> None:
    result = cli("schema")
    assert (result.exit_code, result.stdout, result.stderr) == (0, schema_text(), "")


def test_the_schema_accepts_the_starter_scenario(schema: Any) -> None:
    jsonschema_rs.validate(schema, yaml.safe_load(STARTER.read_text()))


def test_the_schema_refuses_an_unknown_key(schema: Any) -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, yaml.safe_load(f"{STARTER.read_text()}\nmodell: []\n"))
