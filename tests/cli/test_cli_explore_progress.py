"""The progress of simloop explore, and limits that are too high."""

import re

import click.testing
import pytest
from commandline import SMALL, Cli

from simloop.cli import explore as exploring
from simloop.cli import terminal


def test_how_far_it_has_come_is_shown_on_a_terminal_and_wiped(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terminal, "PATIENCE_S", 0.0)
    monkeypatch.setattr(terminal, "BETWEEN_S", 0.0)
    assert "visited" not in cli("explore", "--loop", "react", *SMALL).stderr
    monkeypatch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda _: True)
    shown = cli("explore", "--loop", "react", *SMALL).stderr
    assert re.search(r"\d+ states visited, 0 of \d+ rules checked", shown)
    assert shown.split("\r")[-1] == ""


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (("--max-steps", "5000"), ("--max-steps 5000: ", "lower it to about 1141")),
        (("--max-errors", "400"), ("--max-errors 400: ", "lower it to about")),
        (("--max-steps", "900", "--max-compactions", "900"), ("--max-compactions 900: ",)),
    ],
)
def test_limits_that_are_too_high_are_refused_before_anything_is_explored(
    cli: Cli, limits: tuple[str, ...], words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exploring, "prove", None)
    result = cli("explore", *limits)
    assert result.exit_code == 2
    assert "no more than 1,000,000 are visited" in result.stderr
    for word in words:
        assert word in result.stderr


@pytest.mark.slow
def test_high_limits_that_a_loop_does_not_heed_are_explored(cli: Cli) -> None:
    assert cli("explore", "--loop", "pi", "--max-steps", "5000").exit_code == 1
    assert cli("explore", "--loop", "react", "--max-steps", "120").exit_code == 0
