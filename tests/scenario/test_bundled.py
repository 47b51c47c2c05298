import functools
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from simloop.messages import (
    AssistantMessage,
    FinishReason,
    Message,
    Outcome,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from simloop.scenario.catalog import SUFFIX, bundled_folder, find
from simloop.scenario.loader import load_scenario
from simloop.scenario.result import Result
from simloop.scenario.simulation import run
from simloop.trace import entries
from simloop.trace.codec import decode, encode

PATHS = sorted(bundled_folder().rglob(f"*{SUFFIX}"))
THEMES = {
    *("abort", "calls", "chance", "clock", "compaction", "finish-reasons", "hooks", "limits"),
    *("providers", "queue", "retry", "start", "streams", "tools", "usage"),
}


@functools.cache
def ran(path: Path) -> Result:
    return run(load_scenario(path))


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix(SUFFIX)}"


def unpaired(messages: Iterable[Message]) -> list[str]:
    """The ids of calls that have not one result each right after them, and of results alone (I1).

    The ids of calls that share one count too.
    """
    wrong, seen, open_ids = [], set[str](), list[str]()
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.call_id not in open_ids[:1]:
                wrong.append(message.call_id)
            del open_ids[:1]
            continue
        wrong += open_ids
        open_ids = [call.id for call in message.calls] if hasattr(message, "calls") else []
        wrong += [one for one in open_ids if one in seen or not one or open_ids.count(one) > 1]
        seen.update(open_ids)
    return wrong + open_ids


@pytest.fixture(params=PATHS, ids=name_of)
def path(request: pytest.FixtureRequest) -> Path:
    chosen: Path = request.param
    return chosen


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return [ran(path) for path in PATHS]


def test_it_does_what_it_expects(path: Path) -> None:
    assert ran(path).failures == ()


def test_each_call_has_one_result_in_its_requests_and_at_its_end(path: Path) -> None:
    result = ran(path)
    transcripts = [*(request.messages for request in result.requests), result.messages]
    assert [unpaired(messages) for messages in transcripts] == [[] for _ in transcripts]


def test_it_gives_the_same_bytes_each_time(path: Path) -> None:
    again = run(load_scenario(path))
    assert encode(again.trace) == encode(ran(path).trace)


def test_its_trace_reads_back_as_it_was_written(path: Path) -> None:
    written = encode(ran(path).trace)
    assert encode(decode(written)) == written


def test_it_says_what_must_hold_as_one_sentence_without_a_full_stop(path: Path) -> None:
    title = load_scenario(path).title
    assert title[:1].isupper()
    assert not title.endswith((".", "!", "?", ":"))
    assert len(title) <= 90


def test_it_expects_an_outcome_and_at_least_one_thing_more(path: Path) -> None:
    expect = load_scenario(path).expect
    assert expect.outcome is not None
    assert len(expect.model_fields_set) > 1


def test_it_is_short_and_tells_editors_its_schema(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines[0] == "# yaml-language-server: $schema=../schema.json"
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 100


def test_it_is_found_by_its_name_alone(path: Path) -> None:
    assert find(path.name.removesuffix(SUFFIX)) == path


def test_titles_are_different() -> None:
    titles = Counter(load_scenario(path).title for path in PATHS)
    assert [title for title, count in titles.items() if count > 1] == []


def test_every_theme_has_a_folder() -> None:
    assert {path.parent.name for path in PATHS} == THEMES


def test_together_they_reach_every_outcome(results: list[Result]) -> None:
    assert {result.outcome for result in results} == set(Outcome)


def test_together_they_meet_every_finish_reason(results: list[Result]) -> None:
    met = {
        entry.reason
        for result in results
        for entry in result.trace.entries
        if isinstance(entry, entries.Finish)
    }
    assert met == set(FinishReason)


def test_together_they_record_every_kind_of_entry_but_a_failed_callback(
    results: list[Result],
) -> None:
    recorded = {type(entry) for result in results for entry in result.trace.entries}
    kinds = set(entries.Entry.__subclasses__())
    assert kinds - recorded == {entries.Callback}


def test_together_they_reach_every_limit_that_can_end_a_run(results: list[Result]) -> None:
    assert {result.limit for result in results} >= {
        *("max_steps", "max_steps_per_round", "max_error_count", "max_compaction_attempts"),
        "max_wall_clock_ms",
    }


def test_the_quickstart_shows_a_retry_tools_a_compaction_and_an_answer() -> None:
    result = run(load_scenario(find("quickstart")))
    kinds = {type(entry) for entry in result.trace.entries}
    assert {entries.Backoff, entries.ToolStarted, entries.Compaction} <= kinds
    assert (result.outcome, result.message) == (Outcome.COMPLETED, result.text)


def test_fifty_retries_and_an_hour_in_a_tool_take_next_to_no_time() -> None:
    scenario = load_scenario(find("patience"))
    start = time.perf_counter()
    result = run(scenario)
    assert time.perf_counter() - start < 1
    assert result.elapsed_s == 5100


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("between-tools", ["built", "Error: not finished, the request was aborted"]),
        ("before-the-finish", ["Error: not finished, the request was aborted"] * 2),
        ("in-parallel-tools", ["Error: not finished", "found", "Error: not finished"]),
    ],
)
def test_after_an_abort_the_transcript_says_what_was_done_and_what_was_not(
    name: str, told: list[str]
) -> None:
    messages = run(load_scenario(find(name))).messages
    results = [message.text for message in messages if isinstance(message, ToolMessage)]
    assert len(results) == len(told)
    assert all(result.startswith(start) for result, start in zip(results, told, strict=True))


def test_pairing_is_seen_to_be_broken_where_it_is() -> None:
    call, answer = ToolCall("a", "x", "{}"), ToolMessage("a", "")
    said = AssistantMessage("", (call,))
    assert unpaired([said, answer]) == []
    assert unpaired([said]) == ["a"]
    assert unpaired([answer]) == ["a"]
    assert unpaired([said, UserMessage("?"), answer]) == ["a", "a"]
    assert unpaired([said, answer, said, answer]) == ["a"]
    assert unpaired([AssistantMessage("", (call, call)), answer, answer]) == ["a", "a"]
