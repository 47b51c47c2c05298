"""The check judges each run by all invariants, those of the user included."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from faultyruns import DONE, LOOK, hearing, misled, scenario

from simloop import InvariantViolated, Scenario, ScenarioError, add_invariants
from simloop.check.invariants.judge import all_invariants
from simloop.check.trial import verify
from simloop.cli import main
from simloop.kernel.signals import ContextMeasured
from simloop.loops.reference import ReferenceLoop
from simloop.scenario.loader import load_scenario

EAGER = misled(ReferenceLoop, hearing(ContextMeasured, over=True))
OWN = """
import simloop
from simloop.trace.entries import Request

@simloop.invariant("A run makes one request.", "a budget", sees=[Request])
def one_request(subject: simloop.Subject) -> simloop.Watch:
    yield
    yield
    return "a second request was sent"

@simloop.invariant("This one is broken.", "a mistake", sees=[Request])
def broken(subject):
    entry = yield
    entry.no_such_field

"""
FILE = """
prompt: Go.
tools: {look: {returns: seen}}
model: [{call: {look: {}}}, {say: Done.}]
expect: {outcome: completed}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "ours.py").write_text(OWN, "utf-8")
    (tmp_path / "a.simloop.yaml").write_text(FILE, "utf-8")
    all_invariants.cache_clear()
    yield tmp_path
    all_invariants.cache_clear()


def simloop(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def expecting(violates: dict[str, str]) -> Scenario:
    return scenario(DONE, expect={"outcome": "completed", "violates": violates})


def test_a_violation_fails_the_check_with_its_name_and_its_place() -> None:
    verdict = verify(expecting({}), loop=EAGER)
    (error,) = verdict.errors
    assert isinstance(error, InvariantViolated)
    assert "invariant compactions-have-a-reason: a compaction is tried, and " in error.message
    assert "(entry " in error.message
    assert verdict.exit_code == 1
    assert "seed=0" in str(error)


def test_a_violation_that_is_expected_is_none() -> None:
    found = {
        line.split()[1].rstrip(":")
        for line in str(verify(expecting({}), loop=EAGER).errors[0]).split("\n")
        if line.startswith("invariant ")
    }
    assert verify(expecting(dict.fromkeys(found, "by design")), loop=EAGER).exit_code == 0


def test_a_violation_that_is_expected_and_does_not_happen_fails_the_check() -> None:
    (error,) = verify(expecting({"effects-run-once": "it does not"})).errors
    assert "listed in expect.violates, but the run does not violate it" in str(error)


def test_an_invariant_that_is_not_judged_cannot_be_violated() -> None:
    played = scenario(
        DONE,
        expect={"outcome": "completed", "violates": {"max-steps-per-round-enforced": "no limit"}},
        loop="pi",
    )
    (error,) = verify(played).errors
    assert "but it is not judged: the loop counts no steps" in str(error)


def test_a_name_that_no_invariant_has_is_the_authors_error() -> None:
    (error,) = verify(expecting({"effects-hapen-once": "typo"})).errors
    assert isinstance(error, ScenarioError)
    assert "there is no invariant `effects-hapen-once`" in str(error)


def test_expected_violations_hold_for_the_loop_that_is_run(folder: Path) -> None:
    file = folder / "a.simloop.yaml"
    known = "expect_on: {pi: {outcome: completed, violates: {one-request: two are needed}}}\n"
    file.write_text(FILE + known, "utf-8")
    option = ("--invariants", "ours:one_request")
    assert simloop("check", str(file), "--loop", "pi", *option).exit_code == 0
    assert simloop("check", str(file), *option).exit_code == 1


def test_an_invariant_of_the_user_is_judged_by_its_name(folder: Path) -> None:
    assert simloop("check", "a.simloop.yaml").exit_code == 0
    judged = simloop("check", "a.simloop.yaml", "--invariants", "ours:one_request")
    assert judged.exit_code == 1
    assert "invariant one-request: a second request was sent (entry " in judged.stderr
    assert "reproduce: simloop check a.simloop.yaml --seed 0" in judged.stderr


@pytest.mark.slow
def test_a_search_is_judged_by_an_invariant_of_the_user_and_the_next_one_is_not(
    folder: Path,
) -> None:
    search = ("fuzz", "--loop", "reference", "--runs", "5", "--jobs", "1")
    found = simloop(*search, "--invariants", "ours:one_request")
    assert "one-request" in found.stdout + found.stderr
    assert found.exit_code == 1
    assert simloop(*search).exit_code == 0


def test_in_python_invariants_are_added_and_taken_away(folder: Path) -> None:
    take_away = add_invariants("ours")
    assert [each.name for each in all_invariants()][-2:] == ["one-request", "broken"]
    take_away()
    assert "one-request" not in [each.name for each in all_invariants()]


def test_an_invariant_of_the_user_that_fails_is_reported_with_its_place(folder: Path) -> None:
    judged = simloop("check", "a.simloop.yaml", "--invariants", "ours:broken")
    line = OWN.split("\n").index("    entry.no_such_field") + 1
    assert judged.exit_code == 2
    assert f"ours.py:{line}: the invariant `broken` fails: AttributeError" in judged.stderr


@pytest.mark.parametrize("name", ["ours:nothing", "nowhere:one", "json:dumps"])
def test_a_name_without_an_invariant_is_an_error_before_anything_runs(
    folder: Path, name: str
) -> None:
    judged = simloop("check", "a.simloop.yaml", "--invariants", name)
    assert (judged.exit_code, judged.stdout) == (2, "")
    assert "--invariants" in judged.stderr


def test_the_list_names_sentence_source_and_needs() -> None:
    listed = simloop("invariants").stdout
    assert "tool-runs-at-most-once: The tool of a call runs at most once." in listed
    assert "BUGS.md" in listed
    assert "needs machine" in listed
    headings = [line for line in listed.splitlines()[:-1] if not line.startswith(" ")]
    assert headings == [f"{each.name}: {each.sentence}" for each in all_invariants()]


def test_the_list_of_a_loop_says_what_is_not_judged_and_why() -> None:
    listed = simloop("invariants", "--loop", "react").stdout
    each = dict(re.findall(r"^([\w-]+): .*\n((?: .*\n)+)", listed, re.MULTILINE))
    assert "    not judged: the loop has no retry\n" in each["retries-match-policy"]
    assert "not judged" not in each["tool-runs-at-most-once"]


def test_each_name_is_unique_and_each_deviation_names_an_invariant() -> None:
    names = [each.name for each in all_invariants()]
    assert len(set(names)) == len(names)
    for loop in (
        "reference@documented",
        "pi",
        "pi@0.87.1",
        "react",
        "opencode",
        "opencode@1.18.34",
    ):
        played = scenario(LOOK, DONE, loop=loop)
        verdict = verify(played)
        assert verdict.run is not None
        assert set(verdict.run.loop.deviations) <= set(names), loop


def test_a_file_may_expect_violations(folder: Path) -> None:
    file = folder / "a.simloop.yaml"
    file.write_text(FILE.replace("completed}", "completed, violates: {one-request: two}}"), "utf-8")
    assert load_scenario(file).expect.violates == {"one-request": "two"}
