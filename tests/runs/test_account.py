import pytest

from simloop.errors import ExpectationFailed
from simloop.runs.result import LINES, account
from simloop.runs.run import run
from simloop.scenario.loader import parse_scenario
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario

RUN = parse_scenario("""
prompt: Go on.
tools: {look: {returns: found}}
model: [{call: {look: {}}, times: 9}, {say: Done.}]
expect: {outcome: completed}
""")


def account_of(**expected: object) -> list[str]:
    with pytest.raises(ExpectationFailed) as caught:
        run(RUN).expect(**expected)
    return caught.value.account.strip("\n").splitlines()


def test_a_run_that_ends_wrong_is_shown_to_its_end() -> None:
    title, *lines = account_of(text="x")
    assert title == "the end of the run:"
    assert len(lines) == LINES
    assert lines[-1].split() == ["errors", "0,", "steps", "10,", "compactions", "0"]


def test_a_run_that_goes_wrong_is_shown_up_to_the_first_wrong_entry() -> None:
    title, *lines = account_of(text="x", requests=3)
    assert title == "the run up to the first entry that is wrong:"
    assert len(lines) == LINES
    assert not any("#5" in line for line in lines)
    assert any("request       #4" in line for line in lines)


def test_a_short_run_is_shown_whole() -> None:
    shown = account(run(Scenario(prompt="Hi", model=[Reply(say="Hello.")])).trace)
    assert "loop reference, seed 0, default limits" in shown
    assert "user: Hi" in shown


def test_an_exception_of_the_user_is_shown_without_its_control_characters() -> None:
    def look() -> str:
        raise LookupError("gone\n\x1b[31mred")

    scenario = Scenario(prompt="x", model=[Reply(call={"look": {}}), Reply(say="y")])
    result = run(scenario, tools=[look])
    with pytest.raises(ExpectationFailed) as caught:
        result.expect(text="z")
    lines = str(caught.value).splitlines()
    assert lines[0] == "expect.text: expected 'z', got 'y'"
    assert "raised by the tool look:" in lines
    assert lines[-4:-2] == ["LookupError: gone", "\\x1b[31mred"]
    assert lines[-1] == "reproduce: simloop.run(scenario, seed=0)"
