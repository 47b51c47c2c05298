import time
from collections import Counter
from pathlib import Path

import pytest

from simloop.messages import FinishReason, Outcome
from simloop.scenario.catalog import SUFFIX, bundled_folder, find
from simloop.scenario.loader import load_scenario
from simloop.scenario.result import Result
from simloop.scenario.simulation import run
from simloop.trace import entries
from simloop.trace.codec import decode, encode

PATHS = sorted(bundled_folder().rglob(f"*{SUFFIX}"))
THEMES = {
    *("abort", "compaction", "finish-reasons", "hooks", "limits", "retry", "start", "streams"),
    "tools",
}


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix(SUFFIX)}"


@pytest.fixture(params=PATHS, ids=name_of)
def path(request: pytest.FixtureRequest) -> Path:
    chosen: Path = request.param
    return chosen


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return [run(load_scenario(path)) for path in PATHS]


def test_it_does_what_it_expects(path: Path) -> None:
    assert run(load_scenario(path)).failures == ()


def test_it_gives_the_same_bytes_each_time(path: Path) -> None:
    first, second = (encode(run(load_scenario(path)).trace) for _ in range(2))
    assert first == second


def test_its_trace_reads_back_as_it_was_written(path: Path) -> None:
    written = encode(run(load_scenario(path)).trace)
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
