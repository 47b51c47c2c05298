import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from commandline import Cli

from simloop.cli.scenarios import STARTER
from simloop.scenario.expect import Expect
from simloop.scenario.jsonschema import schema_text
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


def test_the_file_is_named_as_asked_for(cli: Cli, tmp_path: Path) -> None:
    result = new(cli, tmp_path / "plain")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain", SCHEMA_FILE]
    assert "`simloop run FOLDER` will not find it" in result.stderr


def test_an_existing_file_is_never_overwritten(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.simloop.yaml"
    path.write_text("mine", "utf-8")
    result = new(cli, path)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"{path}: this file exists already (")
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text("utf-8") == "mine"


def test_nothing_is_written_through_a_link_that_leads_nowhere(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "a.simloop.yaml"
    path.symlink_to(tmp_path / "nowhere")
    assert new(cli, path).exit_code == 2
    assert list(tmp_path.iterdir()) == [path]


def test_an_existing_schema_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    schema = tmp_path / SCHEMA_FILE
    schema.write_text("mine", "utf-8")
    assert new(cli, tmp_path / "a.simloop.yaml").exit_code == 0
    assert schema.read_text("utf-8") == "mine"


@pytest.mark.slow
def test_of_many_at_once_one_creates_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.simloop.yaml"
    command = [sys.executable, "-m", "simloop", "new", str(path)]
    quiet = subprocess.DEVNULL
    racing = [subprocess.Popen(command, stdout=quiet, stderr=quiet) for _ in range(6)]
    assert sorted(process.wait(60) for process in racing) == [0, 2, 2, 2, 2, 2]
    assert path.read_text("utf-8") == STARTER


def test_a_folder_that_is_not_there_is_an_error(cli: Cli, tmp_path: Path) -> None:
    result = new(cli, tmp_path / "nosuch" / "a.simloop.yaml")
    assert result.exit_code == 2
    assert "cannot be created: No such file or directory" in result.stderr
    assert list(tmp_path.iterdir()) == []
