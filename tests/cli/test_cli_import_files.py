"""`simloop import` of files of each format: what goes where, and what no file can do to it."""

import stat
from pathlib import Path

import pytest
from commandline import Cli
from recordedfiles import FILES

from simloop.recordings.formats import FORMATS
from simloop.scenario.loader import load_scenario, parse_scenario

ALONE = ("vcr-responses", "sse-chat", "atif", "otel", "langfuse", "codex", "trajectory")
"""Recordings without a service, which the reference loop plays."""


@pytest.fixture(autouse=True)
def _(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(name: str, path: str = "") -> str:
    file = Path(path or name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(FILES[name])
    return str(file)


@pytest.mark.parametrize("name", FILES)
def test_the_format_is_told_by_the_content(cli: Cli, name: str) -> None:
    result = cli("import", written(name, "recording"))
    assert result.exit_code == 0
    known = {each.name: each.words for each in FORMATS}
    format_name = max((each for each in known if name.startswith(each)), key=len)
    assert result.stderr.startswith(f"recording: {known[format_name]}: ")
    parse_scenario(result.stdout)
    assert cli("import", "recording", "--format", format_name).stdout == result.stdout


def test_each_file_of_a_folder_is_written_and_runs(cli: Cli) -> None:
    files = [written(name, f"in/{name}.txt") for name in ALONE]
    result = cli("import", *files, "-o", "out")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [f"out/{name}.simloop.yaml" for name in ALONE]
    ran = cli("run", "out")
    assert ran.exit_code == 0, ran.output
    assert f"{len(ALONE)} passed" in ran.output


def test_the_source_is_not_changed_and_needs_no_right_to_be(cli: Cli) -> None:
    path = Path(written("har", "a.har"))
    path.chmod(stat.S_IRUSR)
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert cli("import", path, "--scrub", "-o", "b.simloop.yaml").exit_code == 0
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_no_file_is_overwritten(cli: Cli) -> None:
    path = written("atif")
    Path("out").mkdir()
    Path("out/atif.simloop.yaml").write_text("mine")
    result = cli("import", path, "-o", "out")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "out/atif.simloop.yaml: this file exists already" in result.stderr
    assert Path("out/atif.simloop.yaml").read_text() == "mine"
    Path("out/atif.simloop.yaml").unlink()
    Path("out/atif.simloop.yaml").symlink_to(Path("elsewhere"))
    assert cli("import", path, "-o", "out").exit_code == 2
    assert not Path("elsewhere").exists()


def test_a_wrong_format_is_refused_and_what_is_told_has_its_place(cli: Cli) -> None:
    path = written("vcr-text", "tape.yaml")
    for each in FORMATS:
        result = cli("import", path, "--format", each.name)
        assert result.exit_code == (0 if each.name == "vcr" else 2), each.name
        assert each.name == "vcr" or result.stderr.startswith("tape.yaml"), result.stderr
        assert "Traceback" not in result.output
    unknown = cli("import", path, "--format", "cassette")
    assert unknown.exit_code == 2
    assert "'cassette' is not one of" in unknown.stderr


WRONG = {
    "missing": (None, "cannot be read"),
    "empty": (b"", "no recording that simloop knows"),
    "binary": (bytes(range(256)) * 9, "no recording that simloop knows"),
    "cut.gz": (FILES["vcr-gzip"][:60], "no gzip file"),
    "tag.yaml": (b"interactions:\n- !!python/object:os.x {}\n", "tag.yaml:2: the tag"),
    "odd\x1b[31m.yaml": (b"interactions: 7\n", "no list of interactions"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_one_message_with_its_name(cli: Cli, name: str) -> None:
    data, words = WRONG[name]
    if data is not None:
        Path(name).write_bytes(data)
    result = cli("import", name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert "\x1b" not in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_folder_without_recordings_says_so(cli: Cli) -> None:
    Path("logs").mkdir()
    Path("logs/a.txt").write_text("nothing")
    result = cli("import", "logs", "-o", "out")
    assert result.exit_code == 0
    assert "logs: files that are no recordings: 1" in result.stderr
    assert not Path("out").exists()


def test_the_name_of_a_recording_is_one_line_of_the_scenario(cli: Cli) -> None:
    path = written("atif", "a\nprompt: no: {.json")
    result = cli("import", path, "-o", "made.simloop.yaml")
    assert result.exit_code == 0
    assert load_scenario("made.simloop.yaml").prompt == "Is it warm in Rome?"
