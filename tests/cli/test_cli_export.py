"""`simloop export` writes a run for other programs, and overwrites no trace."""

import json
from pathlib import Path

import pytest
from commandline import Cli

from simloop.trace.codec import read_trace

SCENARIO = "title: It answers\nprompt: Hi\nmodel: [{say: Hello there.}]\n"


@pytest.fixture
def folder(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("a.simloop.yaml").write_text(SCENARIO)
    assert cli("run", "a.simloop.yaml", "--trace", "a.jsonl").exit_code == 0
    return tmp_path


@pytest.mark.parametrize("source", ["a.jsonl", "a.simloop.yaml", "quickstart"])
def test_a_page_is_written_for_a_trace_a_scenario_and_a_name(
    cli: Cli, folder: Path, source: str
) -> None:
    result = cli("export", source, "--html", "page.html")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "written to page.html\n"
    page = Path("page.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert ("<title>It answers</title>" in page) is (source != "quickstart")


def test_a_trace_and_its_scenario_give_the_same_page(cli: Cli, folder: Path) -> None:
    pages = [cli("export", name, "--html", "-").stdout for name in ("a.jsonl", "a.simloop.yaml")]
    assert pages[0] == pages[1]


def test_spans_are_printed_or_written(cli: Cli, folder: Path) -> None:
    assert "resourceSpans" in json.loads(cli("export", "a.jsonl", "--otel").stdout)
    result = cli("export", "a.jsonl", "--html", "a.html", "--otel")
    assert result.exit_code == 0
    assert "resourceSpans" in json.loads(result.stdout)
    assert Path("a.html").exists()


@pytest.mark.parametrize("form", ["--vcr", "--atif", "--otel"])
def test_a_run_becomes_a_recording_that_can_be_imported(cli: Cli, folder: Path, form: str) -> None:
    assert cli("export", "a.jsonl", form, "run.recording").stderr == "written to run.recording\n"
    result = cli("import", "run.recording")
    assert result.exit_code == 0
    assert "say: Hello there." in result.stdout


def test_a_scenario_runs_on_the_loop_and_with_the_seed_that_are_given(
    cli: Cli, folder: Path
) -> None:
    page = cli("export", "a.simloop.yaml", "--html", "-", "--loop", "pi", "--seed", "7").stdout
    assert "<p>loop pi, seed 7," in page


def test_a_run_that_fails_is_written_as_far_as_it_went(cli: Cli, folder: Path) -> None:
    Path("b.simloop.yaml").write_text("prompt: Hi\nmodel: [{http: {status: 429}}]\n")
    result = cli("export", "b.simloop.yaml", "--html", "-")
    assert result.exit_code == 0
    assert '<strong class="bad">did not end, ScriptExhausted</strong>' in result.stdout


def test_a_truncated_trace_is_written_and_said_to_be_cut(cli: Cli, folder: Path) -> None:
    lines = Path("a.jsonl").read_bytes().splitlines(keepends=True)
    Path("cut.jsonl").write_bytes(b"".join(lines[:5]))
    result = cli("export", "cut.jsonl", "--html", "cut.html")
    assert result.exit_code == 0
    assert "cut.jsonl: the trace is truncated" in result.stderr
    assert "the trace is truncated" in Path("cut.html").read_text("utf-8")


@pytest.mark.parametrize("file", ["a.jsonl", "a.simloop.yaml", "./a.jsonl"])
def test_neither_a_trace_nor_the_source_is_overwritten(cli: Cli, folder: Path, file: str) -> None:
    result = cli("export", "a.simloop.yaml", "--html", file)
    assert result.exit_code == 2
    assert "name another file" in result.stderr
    assert read_trace(Path("a.jsonl")).footer is not None
    assert Path("a.simloop.yaml").read_text() == SCENARIO


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["a.jsonl"], "name a format"),
        (["a.jsonl", "--html", "-", "--otel"], "cannot share a file"),
        (["--otel", "a.jsonl"], "Missing argument"),
        (["a.jsonl", "--html", "x", "--seed", "1"], "--seed is for a scenario"),
        (["nowhere", "--html", "x"], "there is no scenario `nowhere`"),
        (["a.jsonl", "--html", "nowhere/x.html"], "cannot be written"),
        (["a.simloop.yaml", "--html", "x", "--loop", "nowhere"], "nowhere"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(
    cli: Cli, folder: Path, arguments: list[str], complaint: str
) -> None:
    result = cli("export", *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert not Path("x").exists()
