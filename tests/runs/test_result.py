"""The result of a run, its comparison with the scenario, and the account of a run that failed."""

import asyncio
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from builders import play_text

from simloop.errors import (
    CheckFailed,
    Deadlock,
    ExpectationFailed,
    RunawayRun,
    ScenarioError,
)
from simloop.runs.result import LINES, Result, account, mismatches
from simloop.runs.run import run
from simloop.scenario.expect import Expect
from simloop.scenario.loader import parse_scenario
from simloop.scenario.replies import Reply
from simloop.scenario.schema import Scenario

RUN = """
prompt: What time is it?
tools: {clock: {returns: "12:00", takes: 120ms}}
model:
  - http: {status: 429, retry_after: 5s}
  - {say: Let me look., call: {clock: {}}}
  - say: It is noon.
"""

MANY = """
prompt: Go on.
loop: pi
compaction: {window: 1000000}
tools: {clock: {returns: "12:00"}}
model: [{call: {clock: {}}, times: 500}, {say: It is noon.}]
"""


def result_of(expect: str, path: str = "a b.yaml") -> Result:
    return run(parse_scenario(f"{RUN}\nexpect: {expect}\n", path))


def test_requests_are_counted_without_building_them_all() -> None:
    result, expected = play_text(MANY), Expect(requests=501)
    tracemalloc.start()
    found = mismatches(expected, result)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found, most < 100_000) == ((), True)


def test_a_failure_is_reproduced_by_the_command_at_its_end() -> None:
    result = result_of("{requests: 0, text: Noon.}")
    with pytest.raises(ExpectationFailed) as caught:
        result.check()
    lines = str(caught.value).splitlines()
    assert lines[:2] == sorted(result.failures, reverse=True)
    assert lines[-1] == "reproduce: simloop run 'a b.yaml' --seed 0"


def test_the_end_of_the_trace_says_the_same_as_the_result() -> None:
    result = result_of("{}")
    (end,), footer = result.trace.ends, result.trace.footer
    assert footer is not None
    assert end is result.trace.entries[-1]
    assert footer.elapsed_ns == result.elapsed_ns
    assert (end.outcome, end.text, end.message, end.limit, end.elapsed_ns, end.counters) == (
        result.outcome,
        result.text,
        result.message,
        result.limit,
        result.elapsed_ns,
        result.counters,
    )


async def hang() -> None:
    await asyncio.get_running_loop().create_future()


async def never_done() -> None:
    await asyncio.sleep(11 * 365 * 86_400)


@pytest.mark.parametrize(
    ("tool", "failure"), [(hang, Deadlock), (never_done, RunawayRun)], ids=["deadlock", "runaway"]
)
def test_a_run_that_does_not_end_says_how_to_see_it_again(
    tool: Callable[[], Any], failure: type[CheckFailed]
) -> None:
    scenario = parse_scenario(
        f"prompt: x\nmodel: [{{call: {{{tool.__name__}: {{}}}}}}]", "a b.yaml"
    )
    with pytest.raises(failure) as caught:
        run(scenario, tools=[tool], seed=5)
    assert str(caught.value).splitlines()[-1] == "reproduce: simloop run 'a b.yaml' --seed 5"


def test_a_scenario_of_text_is_reproduced_in_python() -> None:
    result = play_text("prompt: x\nmodel: [{say: x}]", seed=5)
    assert result.reproduce == "simloop.run(scenario, seed=5)"


# ---------------------------------------------------------------------- prompts, files, leftovers

TALK = """
prompt: Note it.
then: [Again.]
files: {a: old}
model:
  - call: {WriteFile: {path: b, content: new}}
  - say: Noted.
  - {http: {status: 401}}
  - say: Never asked for.
"""


def talk(expect: str, on: str = "{}") -> Result:
    return play_text(f"{TALK}\nexpect: {expect}\nexpect_on: {on}\n")


@pytest.mark.parametrize(
    "expect",
    [
        "{unused: 1, outcomes: [completed, failed]}",
        "{unused: 1, outcomes: [completed, ...]}",
        "{unused: 1, outcome: failed}",
        "{unused: {max: 1}, outcome: failed}",
        "{unused: {min: 1, max: 3}, outcome: failed}",
        "{outcome: failed, unused: 1, files: {a: old, b: new}}",
    ],
)
def test_an_expectation_of_a_whole_conversation_that_holds_is_no_failure(expect: str) -> None:
    assert talk(expect).failures == ()


@pytest.mark.parametrize(
    ("expect", "failure"),
    [
        ("{outcome: failed, unused: 2}", "expect.unused: expected 2, got 1: model.3"),
        (
            "{outcome: failed, unused: {min: 2}}",
            "expect.unused: expected at least 2, got 1: model.3",
        ),
        (
            "{unused: 1, outcomes: [completed]}",
            "expect.outcomes: expected ['completed'], got ['completed', 'failed']",
        ),
        (
            "{unused: 1, outcomes: [failed, completed]}",
            "expect.outcomes: expected ['failed', 'completed'], got ['completed', 'failed']",
        ),
        (
            "{outcome: failed, unused: 1, files: {a: old}}",
            "expect.files: expected {'a': 'old'}, got {'a': 'old', 'b': 'new'}",
        ),
        (
            "{outcome: failed, unused: 1, files: {}}",
            "expect.files: expected {}, got {'a': 'old', 'b': 'new'}",
        ),
    ],
)
def test_an_expectation_of_a_whole_conversation_that_does_not_hold_says_why(
    expect: str, failure: str
) -> None:
    assert talk(expect).failures == (failure,)


def test_that_none_is_left_over_cannot_be_expected_otherwise() -> None:
    with pytest.raises(ScenarioError, match="must be at least 1"):
        talk("{unused: 0}")


def test_replies_that_were_expected_to_be_left_over_and_were_asked_for_are_a_failure() -> None:
    result = play_text("prompt: x\nmodel: [{say: x}]\nexpect: {unused: 1}")
    assert result.failures == ("expect.unused: expected 1, got 0",)


def test_a_run_without_files_has_none_and_says_so_when_some_were_expected() -> None:
    result = play_text("prompt: x\nmodel: [{say: x}]\nexpect: {files: {}}")
    assert result.files is None
    assert result.failures == ("expect.files: expected {}, got None",)


def test_the_files_of_a_result_are_those_at_the_end_and_leave_the_scenario_alone() -> None:
    scenario = parse_scenario(f"{TALK}\nexpect: {{unused: 1}}\n")
    assert run(scenario).files == run(scenario).files == {"a": "old", "b": "new"}
    assert scenario.files == {"a": "old"}


ON_PI = "prompt: x\nmodel: [{say: x}]\nexpect: {text: y, requests: 1}\nexpect_on: {pi: {text: x}}"


def test_what_is_expected_on_a_loop_stands_in_the_place_of_all_else_that_is() -> None:
    scenario = parse_scenario(ON_PI)
    assert run(scenario).failures == ("expect.text: expected 'y', got 'x'",)
    assert run(scenario, loop="pi").failures == ()


def test_what_is_expected_on_a_loop_is_for_its_versions_too_unless_they_have_their_own() -> None:
    assert play_text(ON_PI, loop="pi@0.87.1").failures == ()
    on_version = parse_scenario(ON_PI.replace("{pi:", "{pi@0.87.1: {text: z}, pi:"))
    assert run(on_version, loop="pi@0.87.1").failures == ("expect.text: expected 'z', got 'x'",)
    assert run(on_version, loop="pi").failures == ()


def test_what_a_scenario_of_a_version_expects_is_for_that_version() -> None:
    of_version = parse_scenario(f"loop: pi@0.87.1\n{ON_PI}")
    assert run(of_version).failures == ("expect.text: expected 'y', got 'x'",)
    assert run(of_version, loop="pi").failures == ()


def test_a_loop_that_there_is_not_cannot_be_expected_of() -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario("prompt: x\nexpect_on: {opncode: {text: x}}", "a.yaml")
    assert caught.value.key.startswith("expect_on")
    assert "did you mean `opencode`?" in caught.value.hint


LOOKS = parse_scenario("""
prompt: Go on.
tools: {look: {returns: found}}
model: [{call: {look: {}}, times: 9}, {say: Done.}]
expect: {outcome: completed}
""")


def account_of(**expected: object) -> list[str]:
    with pytest.raises(ExpectationFailed) as caught:
        run(LOOKS).expect(**expected)
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
    shown = account(run(Scenario(prompt="Hi", model=[Reply(say="Hello.")])).trace, (), ())
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
