"""Single bundled scenarios, and what is special in the run of each."""

import pytest

from simloop.messages import Outcome, ToolMessage
from simloop.runs.result import Result
from simloop.runs.run import run
from simloop.scenario.catalog import find
from simloop.scenario.designs import DESIGNS
from simloop.scenario.loader import load_scenario
from simloop.trace import entries
from simloop.trace.requests import requests


def ran(name: str, loop: str | None = None) -> Result:
    return run(load_scenario(find(name)), loop=loop)


def test_every_loop_can_be_asked_a_second_and_a_third_time() -> None:
    for loop in DESIGNS:
        result = ran("prompts/three", loop)
        assert len(result.outcomes) == 3


def test_a_result_larger_than_the_window_is_reported_as_it_cannot_be_compacted_away() -> None:
    (notice,) = (e for e in ran("huge-result").trace.entries if type(e) is entries.Notice)
    assert notice.text.startswith("the context has 2,521 tokens (trigger 375), but nothing")


def test_pi_reports_the_calls_after_the_fiftieth() -> None:
    notices = [
        entry.text for entry in ran("pi-warns").trace.entries if type(entry) is entries.Notice
    ]
    assert notices == [f"{number} model calls, and no end yet" for number in (51, 52, 53)]


def test_details_of_a_result_are_in_the_trace_and_in_no_request() -> None:
    trace = ran("pi-details").trace
    details = [entry.details for entry in trace.entries if type(entry) is entries.ToolResult]
    assert details == [{"bytes": 4096, "path": "build.log"}]
    sent = [m.text for request in requests(trace.entries) for m in request.messages]
    assert sent
    assert not any("4096" in text for text in sent)


def test_the_quickstart_shows_a_retry_tools_a_compaction_and_an_answer() -> None:
    result = ran("quickstart")
    kinds = {type(entry) for entry in result.trace.entries}
    assert {entries.Backoff, entries.ToolStarted, entries.Compaction} <= kinds
    assert (result.outcome, result.message) == (Outcome.COMPLETED, result.text)


def test_fifty_retries_and_an_hour_in_a_tool_are_waited_for_in_virtual_time() -> None:
    assert ran("patience").elapsed_s == 5100


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
    messages = ran(name).messages
    results = [message.text for message in messages if isinstance(message, ToolMessage)]
    assert len(results) == len(told)
    assert all(result.startswith(start) for result, start in zip(results, told, strict=True))
