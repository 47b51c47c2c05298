from pathlib import Path
from typing import Any

import pytest
from commandline import Cli

from simloop.check import trial
from simloop.scenario import loader


class TestAllLoops:
    HOOKED = "prompt: Hi\nhooks: [{at: before_llm_call}]\nmodel: [{say: Hello.}]\n"
    SAYS = "prompt: Hi\nmodel: [{say: Hello.}]\nexpect: {text: Hello.}\n"

    def test_are_a_report_each_and_what_one_cannot_express_is_neither_passed_nor_failed(
        self,
        cli: Cli,
    ) -> None:
        result = cli(
            "check", cli.write("a", self.HOOKED), cli.write("b", self.SAYS), "--loop", "all"
        )
        assert result.exit_code == 0
        assert result.stdout.splitlines() == [
            "react cannot express 1 scenario: react has no hooks",
            "7 passed, 1 cannot be expressed (0.000s virtual)",
        ]
        assert "cannot" not in result.stderr

    def test_are_named_in_order_when_asked_to(self, cli: Cli) -> None:
        result = cli("check", cli.write("a", self.HOOKED), "--loop", "all", "--verbose")
        ending = "completed in 0s (virtual), 1 request"
        assert result.stdout.splitlines()[:4] == [
            f"ok      a.simloop.yaml on reference  {ending}",
            f"ok      a.simloop.yaml on pi         {ending}",
            "cannot  a.simloop.yaml on react      react has no hooks",
            f"ok      a.simloop.yaml on opencode   {ending}",
        ]

    def test_are_each_judged_and_the_command_that_shows_it_names_the_loop(self, cli: Cli) -> None:
        text = f"{self.SAYS}expect_on: {{pi: {{text: Bye.}}}}\n"
        result = cli("check", cli.write("a", text), "--loop", "all", "--seed", "7")
        assert result.exit_code == 1
        assert result.stdout.splitlines() == [
            "FAILED  a.simloop.yaml on pi         completed in 0s (virtual), 1 request",
            "        expect.text: expected 'Bye.', got 'Hello.'",
            "        reproduce: simloop run a.simloop.yaml --seed 7 --loop pi",
            "3 passed, 1 failed (0.000s virtual)",
        ]

    def test_are_told_once_of_a_file_that_cannot_be_read(self, cli: Cli) -> None:
        result = cli("check", cli.write("a", "modell: ["), "no-such-name", "--loop", "all")
        assert result.exit_code == 2
        assert [line.split() for line in result.stdout.splitlines()[:2]] == [
            ["ERROR", "a.simloop.yaml", "not", "run"],
            ["ERROR", "no-such-name", "not", "run"],
        ]
        assert result.stdout.splitlines()[2].startswith("0 passed, 2 errors")
        assert result.stderr.count("a.simloop.yaml:1:") == 1

    def test_are_runs_of_their_own_in_json(self, cli: Cli) -> None:
        runs = cli.runs("check", cli.write("a", self.HOOKED), "--loop", "all")
        assert [run["loop"] for run in runs] == ["reference", "pi", "react", "opencode"]
        assert {run["name"] for run in runs} == {"a.simloop.yaml"}
        assert [run["deterministic"] for run in runs] == [True, True, None, True]
        assert [run["status"] for run in runs] == ["ok", "ok", "cannot", "ok"]
        assert [error["type"] for run in runs for error in run["errors"]] == ["CannotExpress"]

    def test_read_a_file_once(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        read: list[Path] = []
        load = loader.load_scenario

        def noted(path: Path) -> Any:
            read.append(path)
            return load(path)

        monkeypatch.setattr(trial, "load_scenario", noted)
        name = cli.write("a", self.SAYS)
        assert cli("check", name, "--loop", "all").exit_code == 0
        assert read == [Path(name)]
