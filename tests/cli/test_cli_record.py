import errno
import os
from pathlib import Path

import pytest
from commandline import Cli

from simloop.scenario.catalog import SUFFIX, bundled_folder
from simloop.trace.codec import read_trace

PASSES = "title: It answers\nprompt: Hi\nmodel: [{say: Hello.}]\nexpect: {text: Hello.}\n"
FAILS = PASSES.replace("expect: {text: Hello.}", "expect: {text: Bye.}")
EXHAUSTED = "prompt: Hi\ntools: {t: {}}\nmodel: [{call: {t: {}}}]\n"
UNUSED = "prompt: Hi\nmodel: [{say: a}, {say: b}]\n"
RUNAWAY = "prompt: Hi\ntools: {t: {takes: 100000h}}\nmodel: [{call: {t: {}}}]\n"


def traces() -> list[str]:
    return sorted(path.as_posix() for path in Path().rglob("*.trace.jsonl"))


class TestATraceFile:
    def test_is_beside_the_scenario_and_named_with_its_outcome(self, cli: Cli) -> None:
        result = cli("record", cli.write("f/a", PASSES))
        assert result.exit_code == 0
        assert result.stderr == ""
        assert result.stdout == "ok      f/a.trace.jsonl  completed in 0s (virtual), 1 request\n"
        assert traces() == ["f/a.trace.jsonl"]

    def test_of_a_folder_are_beside_each_scenario(self, cli: Cli) -> None:
        for name in ("f/a", "f/b/x"):
            cli.write(name, PASSES)
        result = cli("record", "f")
        assert traces() == ["f/a.trace.jsonl", "f/b/x.trace.jsonl"]
        assert result.stdout.splitlines() == [
            "ok      f/a.trace.jsonl    completed in 0s (virtual), 1 request",
            "ok      f/b/x.trace.jsonl  completed in 0s (virtual), 1 request",
            "2 passed",
        ]

    def test_of_a_bundled_name_is_in_the_current_folder(self, cli: Cli) -> None:
        path = next(iter(sorted(bundled_folder().rglob(f"*{SUFFIX}"))))
        name = path.relative_to(bundled_folder()).as_posix().removesuffix(SUFFIX)
        before = sorted(bundled_folder().rglob("*"))
        assert cli("record", name).exit_code == 0
        assert traces() == [f"{name.rpartition('/')[2]}.trace.jsonl"]
        assert sorted(bundled_folder().rglob("*")) == before

    @pytest.mark.slow
    def test_of_a_theme_is_in_its_own_folder_and_of_all_in_those_of_their_themes(
        self, cli: Cli
    ) -> None:
        assert cli("record", "start/", "--to", "one").exit_code == 0
        assert "one/quickstart.trace.jsonl" in traces()
        assert cli("record", "all", "--to", "all-of-them").exit_code == 0
        assert "all-of-them/start/quickstart.trace.jsonl" in traces()
        themes = {path.parent.name for path in bundled_folder().rglob(f"*{SUFFIX}")}
        assert {path.name for path in Path("all-of-them").iterdir()} == themes

    def test_that_is_there_is_replaced(self, cli: Cli) -> None:
        Path("a.trace.jsonl").write_text("old", "utf-8")
        cli("record", cli.write("a", PASSES))
        assert read_trace(Path("a.trace.jsonl")).footer is not None

    def test_is_what_replay_takes(self, cli: Cli) -> None:
        cli("record", cli.write("a", PASSES))
        assert cli("replay", "a.trace.jsonl").exit_code == 0


class TestAnotherFolder:
    def test_has_the_same_folders_as_a_path_that_is_one(self, cli: Cli) -> None:
        for name in ("f/a", "f/b/a", "f/c/a"):
            cli.write(name, PASSES)
        assert cli("record", "f", "--to", "x").exit_code == 0
        assert traces() == ["x/a.trace.jsonl", "x/b/a.trace.jsonl", "x/c/a.trace.jsonl"]

    def test_has_room_for_one_trace_of_a_name(self, cli: Cli) -> None:
        first, second = cli.write("f/a", PASSES), cli.write("g/a", PASSES.replace("Hi", "Ho"))
        result = cli("record", first, second, "--to", "x")
        assert result.exit_code == 2
        assert result.stdout.splitlines()[-1] == "1 passed, 1 error"
        assert f"x/a.trace.jsonl: {first} is recorded there" in result.stderr
        header = read_trace(Path("x/a.trace.jsonl")).header
        assert b'"Hi"' in bytes(header.scenario)

    def test_that_cannot_be_created_is_an_error_that_names_it(self, cli: Cli) -> None:
        Path("x").touch()
        result = cli("record", cli.write("a", PASSES), "--to", "x/y")
        assert result.exit_code == 2
        assert result.stdout.startswith("ERROR   a.simloop.yaml")
        assert result.stderr.startswith("x/y: the folder cannot be created: ")


class TestWhatIsWrong:
    def test_with_an_expectation_is_recorded_all_the_same_and_said(self, cli: Cli) -> None:
        result = cli("record", cli.write("a", FAILS))
        assert result.exit_code == 1
        assert result.stdout.splitlines() == [
            "FAILED  a.trace.jsonl  completed in 0s (virtual), 1 request",
            "        expect.text: expected 'Bye.', got 'Hello.'",
            "        reproduce: simloop run a.simloop.yaml --seed 0",
        ]
        assert read_trace(Path("a.trace.jsonl")).footer is not None

    def test_with_a_file_never_keeps_the_others_from_being_recorded(self, cli: Cli) -> None:
        files = [
            cli.write("a", "modell: ["),
            cli.write("b", FAILS),
            "no-such-name",
            cli.write("c", PASSES),
        ]
        result = cli("record", *files)
        assert result.exit_code == 2
        words = [line.split()[0] for line in result.stdout.splitlines() if line[0] != " "]
        assert words == ["ERROR", "FAILED", "ERROR", "ok", "1"]
        assert result.stdout.splitlines()[-1] == "1 passed, 1 failed, 2 errors"
        assert traces() == ["b.trace.jsonl", "c.trace.jsonl"]

    @pytest.mark.parametrize(
        ("text", "code"), [(EXHAUSTED, 1), (RUNAWAY, 1)], ids=["exhausted", "runaway"]
    )
    def test_with_a_run_that_has_no_outcome_never_replaces_a_good_trace(
        self, cli: Cli, text: str, code: int
    ) -> None:
        name = cli.write("a", PASSES)
        cli("record", name)
        good = Path("a.trace.jsonl").read_bytes()
        result = cli("record", cli.write("a", text))
        assert result.exit_code == code
        assert "a.simloop.yaml: not recorded, because the run has no outcome" in result.stderr
        assert Path("a.trace.jsonl").read_bytes() == good

    def test_with_the_disk_leaves_the_old_trace_as_it_was(
        self, cli: Cli, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name = cli.write("a", PASSES)
        Path("a.trace.jsonl").write_text("old", "utf-8")

        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        result = cli("record", name)
        assert result.exit_code == 2
        assert "cannot be written: No space left on device" in result.stderr
        assert Path("a.trace.jsonl").read_text("utf-8") == "old"
        assert sorted(path.name for path in cli.folder.iterdir()) == [
            "a.simloop.yaml",
            "a.trace.jsonl",
        ]
