"""A fifth loop design can be added: nothing in simloop has to know it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from click.testing import Result as Output
from counterexamples import Explored, scenario_of_ending
from fifth import AGAIN, GIVEN_UP, Careless, Tries, TwoTries

from simloop.check.replay import rerun
from simloop.check.trial import verify
from simloop.cli import main
from simloop.errors import CannotExpress
from simloop.kernel import signals
from simloop.kernel.limits import Limits
from simloop.kernel.states import Finished
from simloop.messages import Outcome
from simloop.prove.proof import Longest, prove
from simloop.runs.run import run
from simloop.scenario.loader import parse_scenario
from simloop.scenario.writing import scenario_text
from simloop.trace.codec import encode, read_trace, write_trace
from simloop.trace.diff import first_difference
from simloop.trace.entries import Transition
from simloop.trace.requests import requests

NAME = "fifth:TwoTries"
SECOND_TRY = """\
title: The second try succeeds
prompt: Hi
model: [{http: {status: 500}}, {say: Hello.}]
expect: {outcome: completed, text: Hello., requests: 2}
"""
IN_VAIN = """\
prompt: Hi
tools: {t: {}}
model: [{call: {t: {}}}, {finish: stop}]
expect: {outcome: too-many-errors, limit: max_tries, tools_run: []}
"""
BOTH = pytest.mark.parametrize("text", [SECOND_TRY, IN_VAIN], ids=["second-try", "in-vain"])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def simloop(*arguments: str) -> Output:
    return CliRunner(env={"NO_COLOR": "1"}).invoke(main, list(arguments))


def write(folder: Path, text: str) -> str:
    file = folder / "a.simloop.yaml"
    file.write_text(text, "utf-8")
    return str(file)


# In Python


@BOTH
@pytest.mark.parametrize("loop", [TwoTries(), NAME, "fifth:MACHINE"], ids=["given", "class", "one"])
def test_it_runs_given_as_a_machine_and_by_its_name(text: str, loop: Any) -> None:
    result = run(parse_scenario(text), loop=loop)
    assert result.failures == ()
    assert result.trace.header.loop == (loop if isinstance(loop, str) else "two-tries")


def test_the_driver_says_its_note_and_its_words() -> None:
    result = run(parse_scenario(IN_VAIN), loop=NAME)
    assert result.message == GIVEN_UP
    assert [request.messages[-1].text == AGAIN for request in result.requests] == [False, True]


def test_it_can_be_aborted_and_told_what_to_do_next() -> None:
    text = f"{SECOND_TRY}then: [Bye]\n".replace("{say: Hello.}]", "{say: Hello., times: 2}]")
    text = text.replace("requests: 2", "requests: 3, outcomes: [completed, completed]")
    assert run(parse_scenario(text), loop=NAME).failures == ()
    stopped = "prompt: Hi\nmodel: [{stall: before-headers}]\nabort: {at: 1s}\n"
    assert run(parse_scenario(stopped), loop=NAME).outcome is Outcome.ABORTED


def test_what_it_lacks_is_refused_in_its_own_words() -> None:
    scenario = parse_scenario(f"{SECOND_TRY}compaction: {{window: 9}}\n")
    with pytest.raises(CannotExpress, match="two tries are never too long"):
        run(scenario, loop=NAME)


def test_a_state_of_its_own_stands_in_the_trace_by_its_name() -> None:
    record = run(parse_scenario(SECOND_TRY), loop=NAME).trace.entries
    assert [entry.state for entry in record if isinstance(entry, Transition)] == [
        "trying",
        "trying",
        "closing-step",
        "finished",
    ]
    assert len(list(requests(record))) == 2


@BOTH
def test_its_trace_is_written_read_and_replayed(text: str, tmp_path: Path) -> None:
    trace = run(parse_scenario(text), loop=NAME).trace
    write_trace(trace, tmp_path / "a.jsonl")
    again = read_trace(tmp_path / "a.jsonl")
    assert encode(again) == encode(trace)
    assert first_difference(again, rerun(again, NAME)) is None


# Proved


def test_it_is_proved_to_end_and_after_how_much() -> None:
    proof = prove(TwoTries(), Limits())
    assert proof.holds
    # The prompt is 1; a try is a reply, refused calls, and a closed step.
    assert proof.longest == Longest(1 + 2 * 3, 2, 0, 0, 0)
    assert Finished(Outcome.TOO_MANY_ERRORS, "max_tries") in proof.endings


def test_a_run_with_a_field_of_its_own_is_told_apart_by_it() -> None:
    runs = {step.run for steps in prove(TwoTries(), Limits()).endings.values() for step in steps}
    assert {one.tries for one in runs if isinstance(one, Tries)} == {1, 2}
    assert len({one for one in runs if isinstance(one, Tries)}) == len(runs)


def test_without_its_count_it_goes_round() -> None:
    proof = prove(Careless(), Limits())
    assert proof.lasso is not None
    assert [type(step.signal) for step in proof.lasso.cycle] == [signals.ModelFailed]


def test_each_of_its_examples_is_a_scenario_that_runs() -> None:
    limits = Limits()
    for state, steps in prove(TwoTries(), limits).endings.items():
        made = scenario_of_ending(steps, Explored(NAME, limits))
        scenario = parse_scenario(scenario_text(made))
        assert scenario.expect.limit == state.limit
        assert verify(scenario).exit_code == 0


# On the command line


@BOTH
def test_simloop_runs_and_shows_it(text: str, folder: Path) -> None:
    ran = simloop("run", write(folder, text), "--loop", NAME, "--trace", "a.jsonl")
    assert ran.exit_code == 0, ran.output
    shown = simloop("show", "a.jsonl")
    assert shown.exit_code == 0
    assert "trying" in shown.stdout
    assert NAME in shown.stdout
    assert simloop("replay", "--loop", NAME, "a.jsonl").exit_code == 0


def test_simloop_explores_it(folder: Path) -> None:
    explored = simloop("explore", "--loop", NAME, "--format", "json")
    assert explored.exit_code == 0, explored.output
    document = json.loads(explored.stdout)
    assert (document["loop"], document["terminates"]) == (NAME, True)
    assert document["longest_run"]["model_calls"] == 2
    fewer = json.loads(simloop("explore", "--loop", "fifth:one_try", "--format", "json").stdout)
    assert fewer["longest_run"]["model_calls"] == 1
