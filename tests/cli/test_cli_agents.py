"""Agents as loops on the command line: every verb that takes a loop takes an agent."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from commandline import Cli

from simloop.trace.codec import read_trace

AGENTS = Path(__file__).parents[1] / "agents"
NATIVE = "native:Native"
OTHERS = """
from simloop.messages import UserMessage

RUNS = []


async def plain(prompt, world):
    return (await world.model.reply([UserMessage(prompt)])).message.text


async def carries(prompt, world):
    RUNS.append(prompt)
    return (await world.model.reply([UserMessage(prompt * len(RUNS))])).message.text


class Fresh:
    def __init__(self):
        self.runs = []

    async def __call__(self, prompt, world):
        self.runs.append(prompt)
        return (await world.model.reply([UserMessage(prompt * len(self.runs))])).message.text


async def raises(prompt):
    raise ValueError("oops")


async def takes_three(prompt, world, more):
    return ""
"""
SCENARIO = "prompt: Go.\nmodel: [{say: Done.}]\nexpect: {text: Done.}\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with a scenario and, as module `others`, some agents."""
    (tmp_path / "others.py").write_text(OTHERS, "utf-8")
    (tmp_path / "a.simloop.yaml").write_text(SCENARIO, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(AGENTS))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    monkeypatch.delitem(sys.modules, "others", raising=False)


# The native agent and the library


@pytest.mark.slow
def test_the_native_agent_passes_every_bundled_scenario_that_it_can_express(cli: Cli) -> None:
    checked = cli("check", "all", "--loop", NATIVE)
    assert checked.exit_code == 0, checked.output
    assert "an agent of your own has no hooks of simloop" in checked.stdout
    counts = re.search(r"(\d+) passed, (\d+) cannot be expressed", checked.stdout)
    assert counts is not None
    passed, cannot = map(int, counts.groups())
    assert passed > 100
    assert cannot > 100


def test_without_its_expectations_it_fails_in_those_that_expect_other_decisions(cli: Cli) -> None:
    Path("bare.py").write_text(
        "from native import Native\nclass Bare(Native):\n    expect_on = {}\n", "utf-8"
    )
    checked = cli("check", "finish-reasons/content-filter", "--loop", "bare:Bare")
    assert (checked.exit_code, "expected content-filtered" in checked.stdout) == (1, True)
    assert cli("check", "finish-reasons/content-filter", "--loop", NATIVE).exit_code == 0


def test_its_trace_is_recorded_shown_compared_and_replayed(cli: Cli) -> None:
    assert cli("record", "retry/rate-limit", "--loop", NATIVE).exit_code == 0
    trace = "rate-limit.trace.jsonl"
    shown = cli("show", trace)
    assert shown.exit_code == 0
    assert "429" in shown.stdout
    assert "completed     Hello." in shown.stdout
    demands = cli("replay", trace)
    assert (demands.exit_code, f"--loop {NATIVE}" in demands.stderr) == (2, True)
    replayed = cli("replay", trace, "--loop", NATIVE)
    assert (replayed.exit_code, "identical" in replayed.stdout) == (0, True)
    cli("record", "retry/server-error", "--loop", NATIVE)
    differs = cli("diff", trace, "server-error.trace.jsonl")
    assert (differs.exit_code, "500" in differs.stdout) == (1, True)


# The verbs


@pytest.mark.parametrize("verb", ["run", "check", "record", "compare"])
@pytest.mark.parametrize("loop", ["others:plain", "others:Fresh", NATIVE])
def test_every_verb_that_runs_scenarios_takes_an_agent(cli: Cli, verb: str, loop: str) -> None:
    ran = cli(verb, "a.simloop.yaml", "--loop", loop)
    assert ran.exit_code == 0, ran.output


def test_a_file_may_name_an_agent_as_its_loop(cli: Cli) -> None:
    Path("b.simloop.yaml").write_text(f"loop: others:plain\n{SCENARIO}", "utf-8")
    assert cli("check", "b.simloop.yaml").exit_code == 0


def test_an_agent_that_carries_something_into_its_next_run_is_found(cli: Cli) -> None:
    found = cli("check", "a.simloop.yaml", "--loop", "others:carries")
    assert found.exit_code == 1
    assert "two runs of the same scenario with the same seed differ" in found.stderr
    assert cli("check", "a.simloop.yaml", "--loop", "others:Fresh").exit_code == 0


def test_an_exception_of_an_agent_is_a_failed_run_and_not_an_error_of_simloop(cli: Cli) -> None:
    ran = cli("run", "a.simloop.yaml", "--loop", "others:raises")
    assert ran.exit_code == 1
    assert "Error: ValueError: oops" in ran.stdout
    assert "internal error" not in ran.output
    assert "explore" not in ran.output


def test_an_agent_that_takes_no_prompt_is_one_error_before_anything_runs(cli: Cli) -> None:
    ran = cli("check", "all", "--loop", "others:takes_three")
    assert ran.exit_code == 2
    assert ran.output.count(", not a prompt and a world") == 1


def test_compare_shows_an_agent_beside_the_designs(cli: Cli) -> None:
    pair = ("--loop", "reference", "--loop", NATIVE)
    compared = cli("compare", "retry/rate-limit", "hooks/change-request", *pair)
    assert "native:Native cannot express" in " ".join(compared.stdout.split())
    table = cli("compare", "retry/rate-limit", *pair, "--format", "json")
    rows = json.loads(table.stdout)["scenarios"][0]["rows"]
    assert [(row["loop"], row["status"], row["model_calls"]) for row in rows] == [
        ("reference", "ok", 2),
        (NATIVE, "ok", 2),
    ]


def test_only_machines_can_be_explored(cli: Cli) -> None:
    for loop in (NATIVE, "others:plain"):
        explored = cli("explore", "--loop", loop)
        assert explored.exit_code == 2
        assert f"the loop `{loop}` is an agent, and only machines can be explored" in (
            explored.stderr
        )


def test_the_trace_of_an_agent_has_no_counters_and_no_limits_but_the_wall_clock(cli: Cli) -> None:
    cli("record", "limits/wall-clock", "--loop", NATIVE)
    trace = read_trace(Path("wall-clock.trace.jsonl"))
    assert trace.header.limits == {"max_wall_clock": "60s"}
    assert trace.ends[-1].counters is None
    assert trace.header.loop == NATIVE


def test_what_does_not_fit_a_bundled_script_says_where_to_expect_it(cli: Cli) -> None:
    ran = cli("check", "retry/retry-after", "--loop", "others:plain")
    advice = "add to its `expect_on`: retry/retry-after: {outcome: failed, unused: 1}"
    assert advice in " ".join(ran.output.split())
