"""`Result.expect`: what tests in Python ask of a run, in the words of scenario files."""

from typing import Any

import pytest

from simloop import ExpectationFailed, Outcome, Result, ScenarioError, parse_scenario, run

RUN = """
prompt: What does README.md say?
tools:
  read_file: {parameters: {path: string}, returns: "# Hello", takes: 120ms}
hooks: [{at: before_tool_call, name: guard}]
model:
  - http: {status: 429, retry_after: 5s}
  - {say: Let me look., call: {read_file: {path: README.md}}}
  - say: It says Hello.
"""

HOLDS: list[tuple[str, Any]] = [
    ("outcome", "completed"),
    ("outcome", Outcome.COMPLETED),
    ("limit", ""),
    ("text", "It says Hello."),
    ("message", "It says Hello."),
    ("elapsed", "5.12s"),
    ("elapsed", "5120ms"),
    ("counters", {"error_count": 1, "total_steps": 2, "compaction_attempts": 0}),
    ("requests", 3),
    ("tools_run", ["read_file"]),
    ("calls", [{"read_file": {"path": "README.md"}}]),
    ("backoffs", ["5s"]),
    ("hooks", ["before_tool_call guard ok"]),
    ("sent", ["user", "user", "user assistant tool"]),
]

FAILS: list[tuple[str, Any, str]] = [
    ("outcome", "aborted", "expected aborted, got completed"),
    ("limit", "max_steps", "expected 'max_steps', got ''"),
    ("text", "It says Bye.", "expected 'It says Bye.', got 'It says Hello.'"),
    ("message", "", "expected '', got 'It says Hello.'"),
    ("elapsed", "5s", "expected '5s', got '5.12s'"),
    ("requests", 2, "expected 2, got 3"),
    ("tools_run", [], "expected [], got ['read_file']"),
    (
        "calls",
        [{"read_file": {"path": "LICENSE"}}],
        "expected [{'read_file': {'path': 'LICENSE'}}], got [{'read_file': {'path': 'README.md'}}]",
    ),
    ("backoffs", ["2s", "4s"], "expected ['2s', '4s'], got ['5s']"),
    ("hooks", [], "expected [], got ['before_tool_call guard ok']"),
    (
        "sent",
        ["user"],
        "expected ['user'], got ['user', 'user', 'user assistant tool']",
    ),
]


@pytest.fixture(scope="module")
def result() -> Result:
    return run(parse_scenario(RUN, "reads.simloop.yaml"))


@pytest.mark.parametrize(("key", "value"), HOLDS, ids=repr)
def test_what_holds_gives_the_result_back(result: Result, key: str, value: Any) -> None:
    assert result.expect(**{key: value}) is result


def test_nothing_expected_always_holds(result: Result) -> None:
    assert result.expect() is result


@pytest.mark.parametrize(("key", "value", "told"), FAILS, ids=[key for key, _, _ in FAILS])
def test_what_does_not_hold_says_what_came(result: Result, key: str, value: Any, told: str) -> None:
    with pytest.raises(ExpectationFailed) as caught:
        result.expect(**{key: value})
    first, *run, command = str(caught.value).splitlines()
    assert first == f"expect.{key}: {told}"
    assert run == caught.value.account.split("\n")
    assert command == "reproduce: simloop run reads.simloop.yaml --seed 0"


def test_each_failure_has_a_line_and_what_holds_has_none(result: Result) -> None:
    with pytest.raises(ExpectationFailed) as caught:
        result.expect(
            outcome="completed", text="Bye.", counters={"error_count": 0, "total_steps": 2}
        )
    assert str(caught.value).splitlines()[:3] == [
        "expect.text: expected 'Bye.', got 'It says Hello.'",
        "expect.counters.error_count: expected 0, got 1",
        "",
    ]


def test_a_failure_is_a_failed_assertion(result: Result) -> None:
    with pytest.raises(AssertionError):
        result.expect(requests=0)


@pytest.mark.parametrize(
    ("expected", "place"),
    [
        ({"outcom": "completed"}, "outcom: "),
        ({"counters": {"error_cuont": 1}}, "counters.error_cuont: "),
        ({"outcome": "finished"}, "outcome: "),
        ({"elapsed": "5 parsecs"}, "elapsed: "),
        ({"requests": "3"}, "requests: "),
        ({"requests": -1}, "requests: "),
        ({"calls": ["read_file"]}, "calls.0: "),
        ({"backoffs": [float("nan")]}, "backoffs.0: "),
    ],
    ids=str,
)
def test_what_cannot_be_expected_is_the_authors_mistake(
    result: Result, expected: dict[str, Any], place: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        result.expect(**expected)
    assert str(caught.value).startswith(f"expect.{place}")
    assert "\n" not in str(caught.value)
