"""What can be said to `simloop explore` about a loop: its options and its limits."""

import re
import subprocess
import sysconfig
from dataclasses import replace
from pathlib import Path

import click.testing
import pytest
from commandline import SMALL, Cli

from simloop.cli import terminal
from simloop.cli.explore import proof_lines
from simloop.kernel.limits import Limits
from simloop.loops.react import ReactLoop
from simloop.prove.graph import RuleViolation
from simloop.prove.proof import prove
from simloop.scenario.designs import names

OWN = """\
from simloop.kernel import signals
from simloop.kernel.states import ClosingStep
from simloop.loops.react import LEGAL, ReactLoop

MACHINE = ReactLoop()

def twice(limits):
    return ReactLoop(limits)

class Halves(ReactLoop):
    legal = {**LEGAL, ClosingStep: {}}

class Boundless(ReactLoop):
    def _go_on(self, run):
        return self.advance(run, signals.Began())
"""
# The keys that the issue names, then those that only we do.
KEYS: dict[str, type | tuple[type, ...]] = {
    "loop": str,
    "limits": dict,
    "terminates": bool,
    "states": int,
    "transitions": int,
    "longest_run": (dict, type(None)),
    "outcomes": list,
    "lasso": (dict, type(None)),
    "format_version": int,
    "status": str,
    "bounds": list,
    "undeclared": list,
    "endless": str,
    "edges": int,
    "untaken": list,
    "violations": list,
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def own(folder: Path, request: pytest.FixtureRequest) -> str:
    """A module of the user's: of another name for each test, because Python remembers modules."""
    name = "own_" + re.sub(r"\W", "_", request.node.name)
    (folder / f"{name}.py").write_text(OWN, "utf-8")
    return name


class TestText:
    def test_says_that_every_run_ends_and_after_how_much(self, cli: Cli) -> None:
        result = cli("explore", "--loop", "react", *SMALL)
        assert (result.exit_code, result.stderr) == (0, "")
        first, limits, bounds, longest, calls, *rest = result.stdout.splitlines()
        assert bounds.split() == ["bounds", "max_rounds"]
        assert first.startswith("react: every run ends (")
        assert limits.startswith("limits       max_steps 2, ")
        assert longest.split() == ["longest", "run", "7", "transitions"]
        assert calls.split() == ["2", "model", "calls"]
        assert any("max-steps by max_rounds in 7 transitions" in line for line in rest)
        assert "hook-failed (react has no hooks)" in result.stdout

    def test_says_how_a_run_that_does_not_end_goes_round(self, cli: Cli) -> None:
        result = cli("explore", "--loop", "pi")
        assert result.exit_code == 1
        assert result.stdout.startswith("pi: a run may never end (")
        _, lasso = result.stdout.split("lasso ")
        before, round_ = lasso.split("round:")
        assert "after 1 transition, then endlessly in 4 transitions" in before
        assert [line.split()[0].rstrip(":") for line in round_.splitlines()[1:]] == [
            "context-measured",
            "model-replied",
            "tools-returned",
            "step-closed",
        ]

    def test_says_what_is_wrong_with_a_machine_and_how_to_get_there(
        self, cli: Cli, own: str
    ) -> None:
        result = cli("explore", "--loop", f"{own}:Halves", *SMALL)
        assert result.exit_code == 1
        wrong = result.stdout.index("WRONG")
        assert "map" in result.stdout[wrong:]
        assert "-> closing-step" in result.stdout[wrong:]

    def test_does_not_say_that_every_run_ends_where_not_every_run_was_followed(
        self, cli: Cli, own: str
    ) -> None:
        shown = cli("explore", "--loop", f"{own}:Boundless", *SMALL).stdout
        assert shown.startswith(f"{own}:Boundless: not proved that every run ends, see WRONG (")
        assert "longest run" not in shown
        document = cli.json("explore", "--loop", f"{own}:Boundless", *SMALL)
        assert (document["terminates"], document["longest_run"]) == (False, None)


class TestJson:
    @pytest.mark.parametrize("loop", ["react", "pi", "opencode@1.18.34"])
    def test_has_every_key_of_its_type(self, cli: Cli, loop: str) -> None:
        document = cli.json("explore", "--loop", loop, *SMALL)
        assert set(document) == set(KEYS)
        assert [key for key, kind in KEYS.items() if not isinstance(document[key], kind)] == []
        assert document["loop"] == loop
        assert document["status"] == ("failed" if document["lasso"] else "ok")
        assert document["terminates"] == (document["lasso"] is None)
        assert document["terminates"] == (document["longest_run"] is not None)

    def test_says_the_longest_run(self, cli: Cli) -> None:
        assert cli.json("explore", "--loop", "reference", *SMALL)["longest_run"] == {
            "transitions": 1 + 4 * 2 + 3 * 1 + 3 * 1,
            "model_calls": 4,
            "tool_rounds": 2,
            "backoff_ns": 2_000_000_000,
            "backoff_asked_ns": 120_000_000_000,
        }

    def test_says_each_outcome_with_an_example_that_ends_in_it(self, cli: Cli) -> None:
        enforced = ("--option", "steps=enforce")
        outcomes = cli.json("explore", "--loop", "opencode", *SMALL, *enforced)["outcomes"]
        ends = {(one["outcome"], one["limit"]) for one in outcomes}
        assert ends >= {("completed", ""), ("max-steps", "max_steps"), ("aborted", "")}
        for one in outcomes:
            assert one["example"][0]["signal"] == "began"
            last = one["example"][-1]["state"]
            assert last == ", ".join(filter(None, (f"finished: {one['outcome']}", one["limit"])))

    def test_says_the_lasso_step_by_step(self, cli: Cli) -> None:
        lasso = cli.json("explore", "--loop", "pi")["lasso"]
        assert [step["signal"] for step in lasso["prefix"]] == ["began"]
        assert lasso["cycle"][1] == {
            "signal": "model-replied: tool-calls, text, calls",
            "state": "running-tools",
        }
        assert lasso["cycle"][-1]["state"] == lasso["prefix"][-1]["state"]


class TestLoop:
    def test_that_there_is_not_is_answered_with_those_there_are(self, cli: Cli) -> None:
        result = cli("explore", "--loop", "opncode")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "there is no loop `opncode`" in result.stderr
        assert "did you mean `opencode`?" in result.stderr
        assert all(name in result.stderr for name in names())

    @pytest.mark.parametrize("attribute", ["twice", "ReactLoop"])
    def test_of_ones_own_may_be_a_class_or_a_function_of_limits(
        self, cli: Cli, own: str, attribute: str
    ) -> None:
        document = cli.json("explore", "--loop", f"{own}:{attribute}", *SMALL)
        assert document["loop"] == f"{own}:{attribute}"
        assert document["longest_run"]["model_calls"] == 2

    def test_of_ones_own_may_be_a_machine_with_limits_of_its_own(self, cli: Cli, own: str) -> None:
        result = cli("explore", "--loop", f"{own}:MACHINE")
        assert result.exit_code == 0
        assert "100 model calls" in result.stdout
        refused = cli("explore", "--loop", f"{own}:MACHINE", *SMALL)
        assert refused.exit_code == 2
        assert "limits" in refused.stderr


@pytest.mark.slow
def test_a_loop_of_the_current_folder_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_loop.py").write_text("from simloop.loops.react import ReactLoop\n", "utf-8")
    simloop = Path(sysconfig.get_path("scripts")) / "simloop"
    done = subprocess.run(
        [simloop, "explore", "--loop", "my_loop:ReactLoop", *SMALL],
        check=False,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr


class TestOptions:
    def test_that_a_version_does_not_have_are_refused(self, cli: Cli) -> None:
        result = cli("explore", "--loop", "opencode@1.18.34", "--option", "patience=3")
        assert result.exit_code == 2
        assert "opencode.patience: unknown key (known here: " in result.stderr

    @pytest.mark.parametrize("limit", ["--max-steps", "--max-errors", "--max-steps-per-round"])
    def test_a_limit_below_its_least_is_refused(self, cli: Cli, limit: str) -> None:
        assert cli("explore", limit, "0").exit_code == 2


def test_options_change_the_loop(cli: Cli) -> None:
    given = ("--loop", "opencode", *SMALL, "--option", "max_retries=1", "--option", "calls_go_on")
    document = cli.json("explore", *given, "--option", "steps=enforce")
    assert document["longest_run"]["model_calls"] == 4
    assert cli("explore", *given).exit_code == 1, "by default a run may not end"


def test_an_option_that_is_a_duration_is_given_as_in_a_file(cli: Cli) -> None:
    given = ("--loop", "opencode", *SMALL, "--option", "steps=enforce")
    usual = cli.json("explore", *given)["longest_run"]["backoff_ns"]
    slower = cli.json("explore", *given, "--option", "first_delay=1500ms")["longest_run"]
    assert slower["backoff_ns"] == usual * 3 // 2
    refused = cli("explore", "--loop", "opencode", "--option", "first_delay=1500")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "1500 has no unit: write '1500s' or '1500ms'" in refused.stderr


@pytest.mark.parametrize("option", ["nope=1", "steps=nope", "max_retries=-1", "max_retries=x"])
def test_an_option_that_there_is_not_is_named(cli: Cli, option: str) -> None:
    result = cli("explore", "--loop", "opencode", "--option", option)
    assert result.exit_code == 2
    assert f"opencode.{option.partition('=')[0]}" in result.stderr


def test_how_far_it_has_come_is_shown_on_a_terminal_and_wiped(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "PATIENCE_S", 0.0)
    monkeypatch.setattr(terminal, "BETWEEN_S", 0.0)
    assert "visited" not in cli("explore", "--loop", "react", *SMALL).stderr
    monkeypatch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda _: True)
    shown = cli("explore", "--loop", "react", *SMALL).stderr
    assert re.search(r"\d+ states visited, 0 of \d+ rules checked", shown)
    assert shown.split("\r")[-1] == ""


def counterexample_shown(length: int) -> list[str]:
    """The lines of a violation that has a counterexample of so many steps, without their indent."""
    limits = Limits(max_steps=5)
    proof = prove(ReactLoop(limits), limits)
    steps = max(proof.endings.values(), key=len)[:length]
    assert len(steps) == length
    told = list(proof_lines(replace(proof, violations=(RuleViolation("It.", steps),)), limits))
    return [line.strip() for line in told[told.index("WRONG        It.") + 1 :]]


def test_of_a_long_counterexample_the_end_is_shown_and_how_much_came_before() -> None:
    whole = counterexample_shown(12)
    assert whole[0].startswith("began ")
    first, *rest = counterexample_shown(16)
    assert (first, len(rest), rest[:8]) == ("... 4 transitions before", 12, whole[4:])
    assert len(counterexample_shown(13)) == 13, "one step is not left out"
