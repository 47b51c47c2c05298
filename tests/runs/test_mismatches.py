"""What is expected of a run, in a file and in Python, and what is said where it does not hold."""

from typing import Any

import pytest
from builders import play_text
from incases import in_cases

from simloop import Outcome
from simloop.errors import ExpectationFailed, ScenarioError
from simloop.runs.result import Result, mismatches, mismatches_by_default
from simloop.runs.run import run
from simloop.scenario.expect import Expect
from simloop.scenario.loader import parse_scenario
from simloop.trace import entries

RUN = """
prompt: What time is it?
tools: {clock: {parameters: {at: string}, returns: "12:00", takes: 120ms}}
model:
  - http: {status: 429, retry_after: 5s}
  - {say: Let me look., call: {clock: {at: here}}}
  - {say: And there., call: {clock: {at: there}}}
  - say: It is noon.
"""
FAILS = "prompt: x\nmodel: [{http: {status: 401}}]\n"


def result_of(expect: str, text: str = RUN) -> Result:
    return play_text(f"{text}\nexpect: {expect}\n")


@in_cases(
    [
        ("{elapsed: {max: 5.24s}}", "{elapsed: {max: 5.239s}}"),
        ("{elapsed: {min: 5.24s}}", "{elapsed: {min: 5.241s}}"),
        ("{elapsed: {min: 1s, max: 1m}}", "{elapsed: {min: 1s, max: 2s}}"),
        ("{requests: {min: 4, max: 4}}", "{requests: {max: 3}}"),
        ("{requests: {min: 2}}", "{requests: {min: 5}}"),
        ("{counters: {error_count: {max: 1}}}", "{counters: {error_count: {min: 2}}}"),
        ("{text: {contains: noon}}", "{text: {contains: Noon}}"),
        ("{text: {contains: [It, noon]}}", "{text: {contains: [It, midnight]}}"),
        ("{message: {contains: ''}}", "{message: {contains: midnight}}"),
        ("{sent: [user, ...]}", "{sent: [user user, ...]}"),
        ("{sent: [..., user ... tool]}", "{sent: [..., user ... user]}"),
        ("{sent: [..., ...]}", "{sent: [user, ..., user]}"),
        ("{tools_run: [clock, ...]}", "{tools_run: [..., look]}"),
        ("{calls: [{clock: ...}, {clock: {at: there}}]}", "{calls: [{look: ...}, ...]}"),
        ("{calls: [..., {clock: {at: there}}]}", "{calls: [{clock: {at: there}}, ...]}"),
        ("{backoffs: [..., 5s, ...]}", "{backoffs: [5s, 5s, ...]}"),
        ("{outcomes: [..., completed]}", "{outcomes: [completed, completed, ...]}"),
        ("{messages: user ... assistant}", "{messages: user ... user}"),
    ]
)
def test_an_expectation_that_is_no_equality_holds_or_fails(holds: str, fails: str) -> None:
    result = play_text(RUN)
    assert mismatches(parse_scenario(f"prompt: x\nexpect: {holds}").expect, result) == ()
    (found,) = mismatches(parse_scenario(f"prompt: x\nexpect: {fails}").expect, result)
    assert str(found).startswith(f"expect.{fails[1:].partition(':')[0]}")


@pytest.mark.parametrize(
    ("expected", "says"),
    [
        ({"elapsed": {"max": "1s"}}, "expect.elapsed: expected at most 1s, got '5.24s'"),
        ({"requests": {"min": 5, "max": 9}}, "requests: expected at least 5 and at most 9, got 4"),
        ({"text": {"contains": "x"}}, "expect.text: expected a text with 'x', got 'It is noon.'"),
        ({"tools_run": ["look", ...]}, "expected ['look', '...'], got ['clock', 'clock']"),
    ],
)
def test_a_failure_says_the_bounds_in_words(expected: dict[str, Any], says: str) -> None:
    with pytest.raises(ExpectationFailed) as caught:
        play_text(RUN).expect(**expected)
    assert says in str(caught.value).splitlines()[0]


@pytest.mark.parametrize(
    ("expected", "key", "says"),
    [
        ({"elapsed": 5}, "expect.elapsed", "5 has no unit: write '5s' or '5ms'"),
        ({"elapsed": {"max": 5}}, "expect.elapsed.max", "5 has no unit"),
        ({"elapsed": {"mxa": "5s"}}, "expect.elapsed.mxa", "did you mean `max`?"),
        ({"requests": {"min": 3, "max": 2}}, "expect.requests.min", "min is more than max"),
        ({"requests": {}}, "expect.requests", "give min, max or both"),
        ({"requests": "2"}, "expect.requests", "must be a whole number"),
        ({"text": 5}, "expect.text", "must be a text"),
        ({"outcome": "complete"}, "expect.outcome", "did you mean `completed`?"),
        ({"outcom": "completed"}, "expect.outcom", "did you mean `outcome`?"),
        ({"calls": [5]}, "expect.calls.0", "must be a mapping"),
    ],
)
def test_what_cannot_be_expected_is_refused_by_its_key(
    expected: dict[str, Any], key: str, says: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        play_text(RUN).expect(**expected)
    assert caught.value.key == key
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("expect", "kind", "nth"),
    [
        ("{requests: 2}", entries.Request, 2),
        ("{requests: {max: 3}}", entries.Request, 3),
        ("{sent: [user, user, ...], outcome: completed}", None, 0),
        ("{sent: [user, tool, ...]}", entries.Request, 1),
        ("{calls: [{clock: ...}, {clock: {at: here}}]}", entries.ToolStarted, 1),
        ("{tools_run: [clock]}", entries.ToolStarted, 1),
        ("{tools_run: [clock, clock, clock]}", None, 0),
        ("{backoffs: [4s]}", entries.Backoff, 0),
        ("{text: Noon.}", None, 0),
    ],
)
def test_a_mismatch_names_the_first_entry_that_shows_it(expect: str, kind: Any, nth: int) -> None:
    result = result_of(expect)
    of_kind = [entry.seq for entry in result.trace.entries if kind and isinstance(entry, kind)]
    places = [found.seq for found in result.mismatches]
    assert places == ([of_kind[nth]] if kind else [None] * len(places))


def test_a_run_that_is_too_long_is_wrong_from_the_first_entry_past_the_bound() -> None:
    result = result_of("{elapsed: {max: 5.1s}}")
    (found,) = result.mismatches
    assert found.seq is not None
    before, at = result.trace.entries[found.seq - 1 : found.seq + 1]
    assert before.at_ns <= 5_100_000_000 < at.at_ns


def test_many_dots_cost_no_more_than_their_number() -> None:
    """A search that tries one order of `...` after the other would not end within a lifetime."""
    result = play_text("prompt: x\nmodel: [{say: y}]\nloop: pi")
    many = Expect(messages=" ".join(["...", "user"] * 200))
    assert len(mismatches(many, result)) == 1


@pytest.mark.parametrize(
    ("expect", "failures"),
    [
        ("{}", ["expect.outcome: expected completed, got failed"]),
        ("{requests: 1}", ["expect.outcome: expected completed, got failed"]),
        ("{outcome: failed}", []),
        ("{outcomes: [failed]}", []),
    ],
)
def test_a_scenario_that_names_no_outcome_expects_completed(
    expect: str, failures: list[str]
) -> None:
    told = [each.partition(" (")[0] for each in result_of(expect, FAILS).failures]
    assert told == failures


def test_every_prompt_must_complete_where_no_outcome_is_named() -> None:
    text = "prompt: x\nthen: [y]\nmodel: [{http: {status: 401}}, {say: z}]\n"
    (failure,) = play_text(text).failures
    assert "expected ['completed', 'completed'], got ['failed', 'completed']" in failure


def test_a_call_of_expect_asks_only_what_it_says() -> None:
    result = play_text(FAILS)
    assert mismatches_by_default(Expect(), result) != ()
    assert result.expect(requests=1) is result


READS = """
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

MISSES: list[tuple[str, Any, str]] = [
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
def reading() -> Result:
    return run(parse_scenario(READS, "reads.simloop.yaml"))


@pytest.mark.parametrize(("key", "value"), HOLDS, ids=repr)
def test_what_holds_gives_the_result_back(reading: Result, key: str, value: Any) -> None:
    assert reading.expect(**{key: value}) is reading


@pytest.mark.parametrize(("key", "value", "told"), MISSES, ids=[key for key, _, _ in MISSES])
def test_what_does_not_hold_says_what_came(
    reading: Result, key: str, value: Any, told: str
) -> None:
    with pytest.raises(ExpectationFailed) as caught:
        reading.expect(**{key: value})
    first, *run, command = str(caught.value).splitlines()
    assert first == f"expect.{key}: {told}"
    assert run == caught.value.account.split("\n")
    assert command == "reproduce: simloop run reads.simloop.yaml --seed 0"


def test_each_failure_has_a_line_and_what_holds_has_none(reading: Result) -> None:
    with pytest.raises(ExpectationFailed) as caught:
        reading.expect(
            outcome="completed", text="Bye.", counters={"error_count": 0, "total_steps": 2}
        )
    assert str(caught.value).splitlines()[:3] == [
        "expect.text: expected 'Bye.', got 'It says Hello.'",
        "expect.counters.error_count: expected 0, got 1",
        "",
    ]
