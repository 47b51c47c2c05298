"""`simloop cat`: the text of a bundled scenario."""

import pytest
from commandline import Cli

from simloop.scenario.catalog import bundled_folder


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
