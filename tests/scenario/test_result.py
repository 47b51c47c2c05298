import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from simloop.errors import CheckFailed, Deadlock, ExpectationFailed, RunawayRun
from simloop.scenario.loader import parse_scenario
from simloop.scenario.result import Result
from simloop.scenario.simulation import run

RUN = """
prompt: What time is it?
tools: {clock: {returns: "12:00", takes: 120ms}}
model:
  - http: {status: 429, retry_after: 5s}
  - {say: Let me look., call: {clock: {}}}
  - say: It is noon.
"""


def result_of(expect: str, path: str = "a b.yaml") -> Result:
    return run(parse_scenario(f"{RUN}\nexpect: {expect}\n", path))


@pytest.mark.parametrize(
    "expect",
    [
        "{}",
        "{outcome: completed}",
        '{limit: ""}',
        "{text: It is noon.}",
        "{message: It is noon.}",
        "{elapsed: 5.12s}",
        "{elapsed: 5120ms}",
        "{counters: {error_count: 1, total_steps: 2, compaction_attempts: 0}}",
        "{requests: 3}",
        "{tools_run: [clock]}",
        "{backoffs: [5000ms]}",
    ],
)
def test_an_expectation_that_holds_is_no_failure(expect: str) -> None:
    result = result_of(expect)
    assert (result.failures, result.ok, result.check()) == ((), True, result)


@pytest.mark.parametrize(
    ("expect", "failure"),
    [
        ("{outcome: aborted}", "expect.outcome: expected aborted, got completed"),
        ("{limit: max_steps}", "expect.limit: expected 'max_steps', got ''"),
        ("{text: Noon.}", "expect.text: expected 'Noon.', got 'It is noon.'"),
        ('{text: ""}', "expect.text: expected '', got 'It is noon.'"),
        ("{message: Noon.}", "expect.message: expected 'Noon.', got 'It is noon.'"),
        ("{elapsed: 5s}", "expect.elapsed: expected '5s', got '5.12s'"),
        ("{counters: {error_count: 0}}", "expect.counters.error_count: expected 0, got 1"),
        ("{counters: {total_steps: 1}}", "expect.counters.total_steps: expected 1, got 2"),
        (
            "{counters: {compaction_attempts: 1}}",
            "expect.counters.compaction_attempts: expected 1, got 0",
        ),
        ("{requests: 0}", "expect.requests: expected 0, got 3"),
        ("{tools_run: []}", "expect.tools_run: expected [], got ['clock']"),
        ("{backoffs: [2s, 4s]}", "expect.backoffs: expected ['2s', '4s'], got ['5s']"),
    ],
)
def test_an_expectation_that_does_not_hold_says_what_was_expected_and_what_came(
    expect: str, failure: str
) -> None:
    assert result_of(expect).failures == (failure,)


def test_a_failure_is_reproduced_by_the_command_at_its_end() -> None:
    result = result_of("{requests: 0, text: Noon.}")
    with pytest.raises(ExpectationFailed) as caught:
        result.check()
    assert str(caught.value).splitlines() == [
        *sorted(result.failures, reverse=True),
        "reproduce: simloop run 'a b.yaml' --seed 0",
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [("elapsed_ns", 5_120_000_000), ("elapsed_s", 5.12), ("text", "It is noon."), ("limit", "")],
)
def test_a_result_says_how_the_run_went(field: str, value: Any) -> None:
    assert getattr(result_of("{}"), field) == value


def test_the_footer_of_the_trace_says_the_same_as_the_result() -> None:
    result = result_of("{}")
    footer = result.trace.footer
    assert footer is not None
    assert (footer.outcome, footer.text, footer.elapsed_ns, footer.total_steps) == (
        result.outcome,
        result.text,
        result.elapsed_ns,
        result.counters.total_steps,
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
    result = run(parse_scenario("prompt: x\nmodel: [{say: x}]"), seed=5)
    assert result.reproduce == "simloop.run(scenario, seed=5)"
