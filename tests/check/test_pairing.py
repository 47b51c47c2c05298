"""Calls and results as sent: each call has exactly one result, where a provider looks for it."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import Raw
from work import lines_run

from simloop import parse_scenario
from simloop.check.invariants.pairs import broken_pairs
from simloop.check.trial import verify
from simloop.cli import main
from simloop.engine.model_calls import CallIds
from simloop.errors import InvariantViolated, ScenarioError
from simloop.kernel.signals import Began
from simloop.messages import (
    AssistantMessage,
    Counters,
    Message,
    SummaryMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from simloop.runs.run import run
from simloop.trace import entries
from simloop.trace.codec import FORMAT, VERSION
from simloop.trace.entries import AnyEntry, Footer, Header
from simloop.trace.looptrace import LoopTrace

GO, MORE = UserMessage("Go."), UserMessage("And?")
HEADER = Header(FORMAT, VERSION, "", "own", 0, "", Raw(b"{}"))
BEGAN = entries.Transition(0, 0, Began(), "measuring", Counters(0, 0, 0))


def calls(*ids: str) -> AssistantMessage:
    return AssistantMessage("", tuple(ToolCall(call_id, "look", "{}") for call_id in ids))


def result(call_id: str) -> ToolMessage:
    return ToolMessage(call_id, "found")


def request(
    number: int, added: Sequence[Message], kept: int = 0, purpose: str = "main"
) -> AnyEntry:
    return entries.Request(0, 0, number, purpose, "", number - 1, kept, tuple(added))


def trace(*record: AnyEntry, ended: bool = True) -> LoopTrace:
    """A trace of a machine, since only an engine answers its calls in the trace."""
    return LoopTrace(HEADER, [BEGAN, *record], Footer(1 + len(record), 0) if ended else None)


def called(call_id: str) -> AnyEntry:
    return entries.ToolCall(0, 0, 1, call_id, "look", "{}")


def answered(call_id: str) -> AnyEntry:
    return entries.Answered(0, 0, call_id, "look", "found")


@pytest.mark.parametrize(
    ("messages", "broken"),
    [
        ([GO], []),
        ([GO, calls("a"), result("a")], []),
        ([GO, calls("a", "b"), result("b"), result("a"), MORE], []),
        ([GO, calls("a"), result("a"), calls("b"), result("b")], []),
        ([SummaryMessage("They looked."), calls("a"), result("a")], []),
        ([GO, calls("a")], ["call 'a' has no result"]),
        ([GO, calls("a"), MORE], ["call 'a' has no result"]),
        ([GO, calls("a", "b"), result("b")], ["call 'a' has no result"]),
        ([GO, calls("a"), calls("b"), result("b")], ["call 'a' has no result"]),
        ([GO, calls("a"), result("a"), result("a")], ["call 'a' has more than one result"]),
        ([GO, result("a")], ["call 'a' has a result and is in no message before it"]),
        ([GO, calls("a", "a"), result("a")], ["call 'a' shares its id with another call"]),
        (
            [GO, calls("a"), result("a"), calls("a"), result("a")],
            ["call 'a' shares its id with another call"],
        ),
        (
            [GO, calls("a"), MORE, result("a")],
            ["call 'a' has a result that does not follow its message", "call 'a' has no result"],
        ),
    ],
)
def test_a_request_must_pair_its_calls_and_results(
    messages: list[Message], broken: list[str]
) -> None:
    assert broken_pairs(trace(request(1, messages))) == [f"request 1: {line}" for line in broken]
    pieces = (request(n, [message], n - 1) for n, message in enumerate(messages, start=1))
    alone = {line.partition(": ")[2] for line in broken_pairs(trace(*pieces))}
    assert set(broken) <= alone, "however the requests were recorded"


def test_a_break_is_listed_once_with_the_first_request_that_has_it() -> None:
    found = broken_pairs(
        trace(
            request(1, [GO]), request(2, [calls("a")], 1), request(3, [MORE], 2), request(4, [], 3)
        )
    )
    assert found == ["request 2: call 'a' has no result"]


def test_messages_that_a_request_no_longer_has_are_forgotten() -> None:
    whole = request(1, [GO, calls("a"), result("a"), MORE])
    assert broken_pairs(trace(whole, request(2, [calls("a"), result("a")], 1))) == []
    assert broken_pairs(trace(whole, request(2, [MORE], 2))) == [
        "request 2: call 'a' has no result"
    ]
    assert broken_pairs(trace(whole, request(2, [result("a")], 3))) == [
        "request 2: call 'a' has more than one result"
    ]


def test_a_request_for_a_summary_is_judged_by_itself() -> None:
    main, summary = (
        request(1, [GO, calls("a"), result("a")]),
        request(2, [calls("b")], 0, "summary"),
    )
    assert broken_pairs(trace(main, summary, request(3, [MORE], 3))) == [
        "request 2: call 'b' has no result"
    ]


@pytest.mark.parametrize(
    ("record", "broken"),
    [
        ([called("a"), answered("a")], []),
        ([called("a"), called("b"), answered("b"), answered("a")], []),
        ([called("a")], ["call 'a' has no result"]),
        ([called("a"), answered("a"), answered("a")], ["call 'a' has more than one result"]),
        ([answered("a")], ["call 'a' has a result and was not called"]),
        ([called("a"), called("a"), answered("a")], ["call 'a' shares its id with another call"]),
    ],
)
def test_the_last_reply_which_no_request_shows_must_pair_too(
    record: list[AnyEntry], broken: list[str]
) -> None:
    found = broken_pairs(trace(request(1, [GO]), *record))
    assert found == [f"request 1: {line}" for line in broken]


def renamed(call_id: str, to_id: str) -> AnyEntry:
    return entries.CallRenamed(0, 0, call_id, to_id, "look")


@pytest.mark.parametrize(
    ("record", "broken"),
    [
        ([called("a"), called("a"), renamed("a", "a#2"), answered("a"), answered("a#2")], []),
        (
            [called("a"), renamed("a", "b"), answered("a")],
            ["call 'a' has a result and was not called", "call 'b' has no result"],
        ),
    ],
)
def test_a_call_that_was_renamed_is_answered_under_its_new_id(
    record: list[AnyEntry], broken: list[str]
) -> None:
    found = broken_pairs(trace(request(1, [GO]), *record))
    assert found == [f"request 1: {line}" for line in broken]


def test_an_agent_without_an_engine_answers_its_calls_in_its_next_request_alone() -> None:
    record = [request(1, [GO]), called("a")]
    assert broken_pairs(LoopTrace(HEADER, record, Footer(len(record), 0))) == []
    unanswered = [*record, request(2, [calls("a"), MORE], 1)]
    assert broken_pairs(LoopTrace(HEADER, unanswered, Footer(len(unanswered), 0))) == [
        "request 2: call 'a' has no result"
    ]


def test_two_conversations_in_one_trace_are_judged_each_by_itself() -> None:
    def other(number: int, base: int, kept: int, *added: Message) -> AnyEntry:
        return entries.Request(0, 0, number, "main", "", base, kept, added)

    one = [other(1, 0, 0, GO, calls("a")), other(3, 1, 2, result("a"))]
    two = [other(2, 0, 0, GO, calls("a"), result("a")), other(4, 2, 3, MORE)]
    taken_in_turns = [one[0], two[0], one[1], two[1]]
    assert broken_pairs(LoopTrace(HEADER, taken_in_turns, Footer(4, 0))) == [
        "request 1: call 'a' has no result"
    ]


def test_a_run_that_was_cut_short_may_have_calls_that_are_still_open() -> None:
    assert broken_pairs(trace(request(1, [GO]), called("a"), ended=False)) == []


def test_the_calls_of_a_summary_need_no_result() -> None:
    asked = request(1, [GO]), request(2, [GO], purpose="summary")
    assert broken_pairs(trace(*asked, called("a"))) == []


def test_the_work_grows_with_the_trace_and_not_with_its_square() -> None:
    def work_of(steps: int) -> int:
        said = [request(n, [calls(f"{n}"), result(f"{n}")], 2 * n) for n in range(steps)]
        return lines_run(lambda: broken_pairs(trace(*said)))

    assert work_of(200) < 2.5 * work_of(100)


TWICE = """
prompt: Go.
tools: {look: {returns: found}}
model: [{call: {look: {}}, ids: [a]}, {call: {look: {}}, ids: [a]}, {say: Done.}]
"""


@pytest.fixture
def sends_ids_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator with a fault: it sends the ids of calls as the model gave them (bug D14)."""
    monkeypatch.setattr(CallIds, "own", lambda _, call, __: call)


SHARED = "request 3: call 'a' shares its id with another call"


@pytest.mark.usefixtures("sends_ids_twice")
def test_a_simulator_that_sends_an_id_twice_fails_the_check() -> None:
    verdict = verify(parse_scenario(TWICE))
    assert (verdict.exit_code, verdict.failures) == (1, ())
    error, runs_again = verdict.errors
    assert isinstance(error, InvariantViolated)
    assert error.message == f"pairing: {SHARED}"
    assert "invariant tool-runs-at-most-once: the tool of call 'a'" in str(runs_again)


@pytest.mark.usefixtures("sends_ids_twice")
def test_the_report_of_the_check_names_the_request_the_call_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.simloop.yaml").write_text(TWICE, "utf-8")
    ran = CliRunner().invoke(main, ["check", "a.simloop.yaml"])
    assert ran.exit_code == 1
    assert f"pairing: {SHARED}" in ran.stderr
    assert "reproduce: simloop check a.simloop.yaml --seed 0" in ran.stderr


@pytest.mark.usefixtures("sends_ids_twice")
def test_a_loop_that_is_known_to_send_broken_pairs_can_say_so() -> None:
    violates = "violates: {tool-runs-at-most-once: the calls share an id}"
    expected = f'{{broken_pairs: ["{SHARED}"], {violates}}}'
    known = parse_scenario(f"{TWICE}expect_on: {{pi: {expected}}}\n")
    assert verify(known, loop="pi").exit_code == 0
    assert verify(known).exit_code == 1


def test_a_broken_pair_that_is_expected_and_does_not_happen_fails_the_check() -> None:
    verdict = verify(parse_scenario(f'{TWICE}expect: {{broken_pairs: ["{SHARED}"]}}\n'))
    assert [error.args[0] for error in verdict.errors] == [
        f"pairing: listed in expect.broken_pairs, but not so: {SHARED}"
    ]


def test_a_result_refuses_to_judge_broken_pairs_because_the_check_does() -> None:
    with pytest.raises(ScenarioError, match="a result does not judge pairing"):
        run(parse_scenario(TWICE)).expect(broken_pairs=[])


def test_of_many_broken_pairs_the_first_are_shown_and_the_rest_counted() -> None:
    many = "prompt: Go.\ntools: {look: {}}\nmodel: [{call: {look: {}}}, {say: Done.}]\n"
    known = ", ".join(f"call {number}" for number in range(7))
    (error,) = verify(parse_scenario(f"{many}expect: {{broken_pairs: [{known}]}}\n")).errors
    assert str(error).splitlines()[4:6] == [
        "pairing: listed in expect.broken_pairs, but not so: call 4",
        "pairing: and 2 more",
    ]
