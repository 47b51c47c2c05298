"""What can be said to `simloop explore` about a loop: its options and its limits."""

from pathlib import Path
from typing import Any

import pytest
from commandline import SMALL, Cli

from simloop.cli.explore import options_of
from simloop.loops.react import ReactLoop


class TestOptions:
    @pytest.mark.parametrize(
        ("loop", "option", "value"),
        [
            ("opencode@1.18.34", "parallel", "false"),
            ("reference@documented", "count_tries", "true"),
        ],
    )
    def test_of_a_version_change_only_what_is_given(
        self, cli: Cli, loop: str, option: str, value: str
    ) -> None:
        own = cli.json("explore", "--loop", loop, *SMALL)["options"]
        changed = cli.json("explore", "--loop", loop, *SMALL, "--option", f"{option}={value}")[
            "options"
        ]
        assert {key for key in own if own[key] != changed[key]} == {option}

    @pytest.mark.parametrize("loop", ["opencode@1.18.34", "reference@documented"])
    def test_that_a_version_does_not_have_are_refused(self, cli: Cli, loop: str) -> None:
        result = cli("explore", "--loop", loop, "--option", "patience=3")
        assert result.exit_code == 2
        key = loop.partition("@")[0]
        assert f"--option {key}.patience: unknown key (known here: " in result.stderr

    @pytest.mark.parametrize("limit", ["--max-steps", "--max-errors", "--max-steps-per-round"])
    def test_a_limit_below_its_least_is_refused(self, cli: Cli, limit: str) -> None:
        assert cli("explore", limit, "0").exit_code == 2


def test_options_change_the_loop(cli: Cli, tmp_path: Path) -> None:
    given = ("--loop", "opencode", *SMALL, "--option", "max_retries=1", "--option", "calls_go_on")
    document = cli.json("explore", *given, "--option", "steps=enforce")
    assert (document["options"]["max_retries"], document["options"]["calls_go_on"]) == (1, True)
    assert document["longest_run"]["model_calls"] == 4
    assert cli("explore", *given).exit_code == 1, "by default a run may not end"
    assert (
        cli(
            "explore", "--loop", "pi", "--option", "steering=all", "--write", str(tmp_path)
        ).exit_code
        == 1
    )


def test_an_option_that_is_a_duration_is_given_and_shown_as_in_a_file(cli: Cli) -> None:
    given = ("--loop", "opencode", *SMALL, "--option", "first_delay=1500ms")
    assert cli.json("explore", *given)["options"]["first_delay"] == "1.5s"
    assert "options      first_delay 1.5s" in cli("explore", *given).stdout.splitlines()
    refused = cli("explore", "--loop", "opencode", "--option", "first_delay=1500")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "1500 has no unit: write '1500s' or '1500ms'" in refused.stderr


def test_an_option_that_is_given_twice_is_refused(cli: Cli) -> None:
    twice = ("--option", "parallel=true", "--option", "parallel=false")
    result = cli("explore", "--loop", "pi", *twice)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "an option is given twice" in result.stderr


@pytest.mark.parametrize("option", ["nope=1", "steps=nope", "max_retries=-1", "max_retries=x"])
def test_an_option_that_there_is_not_is_named(cli: Cli, option: str) -> None:
    result = cli("explore", "--loop", "opencode", "--option", option)
    assert result.exit_code == 2
    assert f"opencode.{option.partition('=')[0]}" in result.stderr


def test_options_of_ones_own_need_be_no_json() -> None:
    machine: Any = ReactLoop()
    machine.options = machine.policies
    assert options_of(machine) == {}
