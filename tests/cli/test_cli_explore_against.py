from pathlib import Path

import pytest
from click.testing import CliRunner
from exploring import SMALL, explore, explore_json

from simloop.cli import main
from simloop.scenario.loader import load_scenario

VERSIONS = ("--loop", "opencode@1.1.11", "--against", "opencode@1.2.27", *SMALL)
SAME = ("--loop", "reference", "--against", "reference", *SMALL)


def test_a_loop_is_alike_itself() -> None:
    result = explore(*SAME)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0].startswith("reference against reference: alike (")


def test_each_difference_is_shown_with_the_way_there_and_what_the_other_does() -> None:
    result = explore(*VERSIONS)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("DIFFERS"))
    assert lines[0].startswith("opencode@1.1.11 against opencode@1.2.27: 4 differences (")
    assert lines[place].startswith("DIFFERS      in calling-model on model-failed: overflow: it ")
    assert [line.split("->")[1].strip() for line in lines[place + 1 : place + 4]] == [
        "calling-model",
        "finished: failed",
        "compacting: forced, the other",
    ]


def test_json_has_the_same_differences() -> None:
    document = explore_json(*VERSIONS)
    assert document["status"] == "failed"
    assert (document["alike"], len(document["differences"])) == (False, 2)
    assert set(document["differences"][0]) == {"what", "example", "example_against"}
    assert document["policies"][0].startswith("retry.overflow_words: ")
    assert explore_json(*SAME)["alike"] is True


@pytest.mark.parametrize(
    ("loop", "against"),
    [
        ("opencode@1.1.11", "opencode@1.2.27"),
        ("opencode@1.2.27", "opencode@1.18.33"),
        ("reference", "reference@documented"),
        ("pi@0.73.1", "pi@0.87.1"),
    ],
)
def test_what_is_written_shows_the_difference_on_both_loops(
    loop: str, against: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    explore("--loop", loop, "--against", against, *SMALL, "--write", "out")
    files = sorted(Path("out").glob("*.simloop.yaml"))
    assert files
    for name in (loop, against):
        checked = CliRunner().invoke(main, ["check", "out", "--loop", name])
        assert checked.exit_code == 0, checked.output
    for file in files:
        scenario = load_scenario(file)
        assert scenario.loop == loop
        assert scenario.expect != scenario.expect_on[against]


@pytest.mark.parametrize("other", [("--through", "began"), ("--format", "mermaid")])
def test_what_is_about_one_loop_is_refused(other: tuple[str, str]) -> None:
    result = explore(*SAME, *other)
    assert result.exit_code == 2
    assert "--against takes no --through, and has no mermaid format" in result.stderr


def test_an_unknown_loop_is_wrong_usage() -> None:
    assert explore("--loop", "pi", "--against", "nothing").exit_code == 2


def test_an_option_is_one_of_the_first_loop_alone() -> None:
    both = ("--loop", "opencode", "--against", "opencode", *SMALL)
    assert explore(*both).exit_code == 0
    result = explore(*both, "--option", "max_retries=1")
    assert result.exit_code == 1
    assert "and the other asks for backoff: 2 failures" in result.stdout


def test_a_machine_of_the_users_own_is_compared_with_the_one_it_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = "from simloop.loops.react import ReactLoop\nclass Mine(ReactLoop):\n    name = 'mine'\n"
    (tmp_path / "replaced_react.py").write_text(own)
    monkeypatch.syspath_prepend(tmp_path)
    result = explore("--loop", "replaced_react:Mine", "--against", "react", *SMALL)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("replaced_react:Mine against react: alike (")


def test_an_agent_has_no_machine_to_compare() -> None:
    result = explore("--loop", "react", "--against", "differing:Plain")
    assert result.exit_code == 2
