"""Tab completion, as the scripts of the shells ask for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from commandline import Cli

from simloop.cli import main
from simloop.scenario.catalog import bundled_names
from simloop.scenario.designs import names


def completed(*words: str) -> list[str]:
    *arguments, incomplete = words
    complete = ShellComplete(main, {}, "simloop", "_SIMLOOP_COMPLETE")
    found = complete.get_completions(arguments, incomplete)
    return [item.value for item in found if item.type == "plain"]


@pytest.mark.parametrize("verb", ["run", "check", "record", "compare", "cat", "list"])
def test_names_of_scenarios_and_themes_are_offered(verb: str) -> None:
    offered = completed(verb, "retry/r")
    assert offered == [name for name in bundled_names() if name.startswith("retry/r")]
    assert "retry/" in completed(verb, "re")
    assert completed(verb, "al")[0] == "all"


@pytest.mark.parametrize("verb", ["run", "check", "record", "compare", "explore"])
def test_loops_and_their_versions_are_offered(verb: str) -> None:
    assert completed(verb, "--loop", "open") == [name for name in names() if name[:4] == "open"]


def test_replay_offers_loops_too() -> None:
    assert completed("replay", "--loop", "pi@") == [name for name in names() if name[:3] == "pi@"]


def test_formats_are_offered() -> None:
    assert completed("run", "--format", "") == ["text", "json"]


@pytest.mark.slow
def test_bash_offers_the_names_and_completes_files_where_no_name_fits() -> None:
    script = (
        'eval "$(_SIMLOOP_COMPLETE=bash_source simloop)"; compopt() { echo "files: $2"; }\n'
        'COMP_WORDS=(simloop run "$1") COMP_CWORD=2; _simloop_completion simloop\n'
        'echo "${COMPREPLY[*]}"'
    )
    folder = Path(sys.executable).parent
    run = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", "retry/rate-limit"],
        env={"PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    names = [name for name in bundled_names() if name.startswith("retry/rate-limit")]
    assert run.stdout == f"files: default\n{' '.join(names)}\n"


def test_verbs_are_offered() -> None:
    assert completed("exp") == ["explore", "export"]


def test_help_says_how_to_switch_it_on(cli: Cli) -> None:
    shown = " ".join(cli("--help").stdout.split())
    assert 'eval "$(_SIMLOOP_COMPLETE=bash_source simloop)"' in shown
    assert "zsh_source" in shown
    assert "_SIMLOOP_COMPLETE=fish_source simloop | source" in shown
