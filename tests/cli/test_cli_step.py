"""`simloop step` says what keeps it from starting, before it touches the terminal."""

import click.testing
import pytest
from commandline import Cli


def test_without_a_terminal_it_names_the_command_to_use(cli: Cli) -> None:
    result = cli("step", "quickstart")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the replayer needs a terminal (use: simloop show TRACE --at 0" in result.stderr


def test_without_the_extra_it_says_what_to_install(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda _: True)
    monkeypatch.setattr("simloop.cli.step.find_spec", lambda _: None)
    result = cli("step", "quickstart")
    assert result.exit_code == 2
    assert (
        "the replayer needs textual (in a clone of simloop: pip install '.[tui]')" in result.stderr
    )
    assert result.stdout == ""


def test_two_runs_and_another_loop_exclude_each_other(cli: Cli) -> None:
    result = cli("step", "a", "b", "--against", "pi")
    assert result.exit_code == 2
    assert "--against takes one run, and not two" in result.stderr


def test_an_unknown_other_loop_is_refused_at_once(cli: Cli) -> None:
    result = cli("step", "quickstart", "--against", "pie")
    assert result.exit_code == 2
    assert "pie" in result.stderr


def test_settings_without_a_run_are_refused(cli: Cli) -> None:
    result = cli("step", "--loop", "pi")
    assert result.exit_code == 2
    assert "the settings of a run need a trace or a scenario" in result.stderr
