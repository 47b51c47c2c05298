"""The user of an async test: lines on standard input, time that passes, restarts of the agent."""

import pytest
from projects import async_module as play

SOURCE = """
import asyncio
from simloop import Line, Sim, Provider, UserMessage

@pytest.fixture
def careful(sim: Sim) -> None:
    sim.input(Line(say="no", to={"contains": "Sure"}, after="1m"))

@pytest.mark.simloop
async def test_lines_of_a_fixture_and_of_the_test(careful: None, sim: Sim) -> None:
    sim.input("yes", Line(say="maybe", after="40m"))
    found = [await asyncio.to_thread(input, each) for each in ("Sure? ", "Go on? ", "And? ")]
    assert found == ["no", "yes", "maybe"]
    assert sim.now == 60 + 2400

@pytest.mark.simloop
def test_a_plain_test_reads_too(sim: Sim) -> None:
    sim.input("yes")
    assert input() == "yes"
    with pytest.raises(EOFError):
        input()
    with pytest.raises(simloop.ScenarioError, match="come to its end"):
        sim.input("late")

@pytest.mark.simloop
async def test_time_passes(sim: Sim) -> None:
    await sim.wait("2h")
    assert sim.now == 7200
    assert not [each for each in sim.trace.entries if type(each).__name__ == "Sleep"]
"""

FAILS = """
from simloop import Sim, Provider, UserMessage

@simloop.traced
async def pay(bill):
    return "paid"

@pytest.mark.simloop
async def test_an_unused_line(sim: Sim) -> None:
    sim.input("a")

@pytest.mark.simloop
async def test_a_tool_that_runs_again(sim: Sim, provider: Provider) -> None:
    provider.script(Reply(call={"pay": {"bill": "rent"}}))
    await provider.model.reply([UserMessage("Pay.")])
    await pay(bill="rent")
    await sim.wait("2h")
    sim.restart()
    await pay(bill="rent")
"""


def test_the_user_of_a_test_types_and_lets_time_pass(project: pytest.Pytester) -> None:
    play(project, SOURCE).assert_outcomes(passed=3)


def test_an_unused_line_and_a_tool_that_runs_again_fail_a_test(project: pytest.Pytester) -> None:
    result = play(project, FAILS)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*these actions of the user never happened: input.0*"])
    result.stdout.fnmatch_lines(["*no-tools-run-again-after-a-pause*"])
