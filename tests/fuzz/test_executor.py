import concurrent.futures
import signal
import sys
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NoReturn

import pytest
import searching
from msgspec.structs import replace

from simloop import Scenario
from simloop.errors import CheckFailed
from simloop.fuzz import executor, processes
from simloop.fuzz.executor import (
    Range,
    RangeResult,
    Ranges,
    SearchFinding,
    SearchSettings,
    play_range,
    results_of,
)
from simloop.fuzz.search import FoundFailure, Group, Search
from simloop.runs import isolation, patience
from simloop.runs.folders import can_bind, own_folder


@pytest.fixture(autouse=True)
def no_nursery_is_left() -> Iterator[None]:
    """A nursery is a fork from before the first run of a process, which other tests have made."""
    yield
    processes.end_nurseries()


SETTINGS = SearchSettings("searching:repeats", seed=3)
UNTIMED = 1e9
"""Seconds: a busy machine must not end a range."""


def ranges(runs: int | None = None, seconds: float | None = None, **given: object) -> Ranges:
    return Ranges(runs, seconds, most=20, **given)  # type: ignore[arg-type]


def taken(of: Ranges, most: int = 99) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while len(found) < most and (due := of.take()) is not None:
        found.append((due.first, due.end - due.first))
    return found


def finding(run: int, name: str = "rule") -> SearchFinding:
    return SearchFinding(
        name, f"request {run} is wrong", "", run, reproduced=True, scenario="", shown=""
    )


def released(of: Ranges, *results: RangeResult) -> list[int]:
    return [
        each.first
        for result in results
        for each in of.add(result, Range(result.first, result.first + result.runs))
    ]


def test_so_many_runs_are_given_out_and_no_more() -> None:
    assert taken(ranges(runs=45)) == [(1, 20), (21, 20), (41, 5)]


def test_a_search_for_a_time_ends_when_its_processes_have_computed_so_long() -> None:
    due = ranges(seconds=8)
    first = due.take()
    assert first is not None
    assert first == Range(1, 21, 2.0)
    list(due.add(RangeResult(1, 20, cpu_s=7.9), first))
    last = due.take()
    assert last is not None
    assert last.seconds == pytest.approx(0.1)
    list(due.add(RangeResult(21, 20, cpu_s=0.2), last))
    assert due.take() is None


def test_a_search_that_is_stopped_gives_out_nothing() -> None:
    due = ranges(runs=45)
    due.stopped = True
    assert due.take() is None


def test_the_worlds_that_a_range_did_not_come_to_are_given_out_again() -> None:
    due = ranges(runs=40)
    first = due.take()
    assert first is not None
    assert [each.first for each in due.add(RangeResult(1, 7), first)] == [1]
    assert taken(due) == [(8, 13), (21, 20)]


def test_results_are_released_in_the_order_of_their_worlds() -> None:
    of = ranges(runs=40)
    taken(of)
    assert released(of, RangeResult(21, 20)) == []
    assert released(of, RangeResult(1, 20)) == [1, 21]
    assert of.waiting == {}


def test_what_is_left_when_a_search_ends_keeps_its_order() -> None:
    of = ranges(runs=80)
    taken(of)
    assert released(of, RangeResult(61, 20), RangeResult(21, 20)) == []
    assert sorted(of.waiting) == [21, 61]


def test_a_group_is_known_to_the_ranges_behind_its_first_run() -> None:
    """So a range in front of it reports the failure as well, and the first run is always found."""
    of = ranges(runs=60)
    taken(of, 2)
    released(of, RangeResult(21, 20, findings=(finding(25),)))
    list(of.add(RangeResult(1, 0), Range(1, 21)))
    front, behind = of.take(), of.take()
    assert front is not None
    assert behind is not None
    assert (front.first, front.known) == (1, ())
    assert (behind.first, behind.known) == (41, (Group("rule", "request 0 is wrong"),))


def played(first: int, runs: int, known: tuple[Group, ...] = ()) -> RangeResult:
    return play_range(SETTINGS, Range(first, first + runs, UNTIMED, known))


@pytest.mark.slow
def test_a_range_ends_with_the_first_failure_of_a_new_group() -> None:
    one = played(1, 60)
    (found,) = one.findings
    assert found.run == one.runs < 60
    group = Group.of(found.name, found.text)
    more = played(1, 60, (group,))
    assert more.runs > one.runs
    assert dict(more.counts)[group] >= 1


@pytest.mark.slow
def test_a_range_gives_what_the_whole_search_gives_for_its_worlds() -> None:
    every = tuple(group for group, _ in _all().counts)
    whole, parts = played(1, 60, every), [played(1, 33, every), played(34, 27, every)]
    assert sum(part.virtual_ns for part in parts) == whole.virtual_ns
    assert sum(part.looked_at for part in parts) == whole.looked_at == 60
    total: dict[Group, int] = {}
    for part in parts:
        for group, count in part.counts:
            total[group] = total.get(group, 0) + count
    assert total == dict(whole.counts)


def _all() -> RangeResult:
    known: tuple[Group, ...] = ()
    while (result := played(1, 60, known)).findings:
        known = (*known, *(Group.of(each.name, each.text) for each in result.findings))
    return result


def test_ctrl_c_in_a_range_keeps_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    def world(search: Search) -> object:
        if search.number == 7:
            raise KeyboardInterrupt
        return next_world(search)

    next_world = Search._next_world
    monkeypatch.setattr(Search, "_next_world", world)
    result = play_range(SearchSettings("react"), Range(1, 61, UNTIMED))
    assert (result.runs, result.ended, result.findings) == (7, True, ())


def test_a_run_that_computes_for_ever_is_ended_and_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patience, "PATIENCE_S", 1.5)  # on a busy machine, no run before takes it
    before = signal.getsignal(signal.SIGALRM)
    result = play_range(SearchSettings("searching:looks"), Range(1, 100, UNTIMED))
    (found,) = result.findings
    assert (result.ended, found.name) == (True, "finishes")
    assert found.run == result.runs
    assert signal.getsignal(signal.SIGALRM) is before


def test_a_smaller_scenario_that_does_not_end_ends_no_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def smallest(*_: object) -> NoReturn:
        raise patience.Overdue

    monkeypatch.setattr(executor, "smallest", smallest)
    result = play_range(replace(SETTINGS, isolate=False), Range(1, 100, UNTIMED, shrinks=True))
    (found,) = result.findings
    assert (result.ended, found.name, found.run) == (False, "repeated-retries-wait", result.runs)


def test_a_range_with_a_finding_waits_for_its_twin_too(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def answer(search: Search) -> list[FoundFailure]:
        asked.append(search.number)
        return []

    monkeypatch.setattr(Search, "answer_elsewhere", answer)
    result = play_range(replace(SETTINGS, isolate=False), Range(1, 100, UNTIMED))
    assert asked == [found.run for found in result.findings]


def test_the_runs_of_a_range_leave_nothing_in_this_process() -> None:
    searching._seen.clear()
    result = play_range(SearchSettings("searching:notes"), Range(1, 61, UNTIMED))
    assert (result.runs, result.findings) == (60, ())
    assert len(searching._seen) < 30  # the probe, and what comes before the fork


@pytest.mark.skipif(not can_bind(), reason="needs user namespaces")
def test_the_folder_of_a_run_has_its_name_whatever_other_searches_do() -> None:
    with own_folder("simloop-run"):
        result = play_range(SearchSettings("searching:stores"), Range(1, 61, UNTIMED))
    assert (result.runs, result.findings) == (60, ())


def test_an_agent_that_keeps_something_gets_a_process_for_each_run() -> None:
    searching._seen.clear()
    settings = SearchSettings("searching:counts")
    (kept,) = play_range(settings, Range(1, 61, UNTIMED)).findings
    assert (kept.name, kept.run, kept.reproduced) == ("ReplayDiverged", 1, True)
    assert play_range(settings, Range(2, 51, UNTIMED)).findings == ()  # one has 40 prompts
    in_one = SearchSettings("searching:counts", isolate=False)
    assert play_range(in_one, Range(1, 61, UNTIMED)).findings


def test_an_agent_that_keeps_all_is_searched_after_its_first_finding() -> None:
    searching._seen.clear()
    settings = SearchSettings("searching:counts", seed=5)
    assert [each.name for each in play_range(settings, Range(1, 61, UNTIMED)).findings]
    assert searching._seen == []  # each run is a fork of this process
    assert play_range(settings, Range(2, 12, UNTIMED)).findings == ()
    assert searching._seen == []


def test_what_a_later_world_leaves_for_the_next_user_is_found() -> None:
    searching._seen.clear()
    settings = SearchSettings("searching:owes")
    (left,) = play_range(settings, Range(1, 61, UNTIMED)).findings
    assert (left.name, left.reproduced) == ("ReplayDiverged", True)
    assert left.run > 1
    assert "I owe somebody an answer." in left.text
    assert play_range(settings, Range(61, 121, UNTIMED)).findings == ()  # apart from each other


def test_what_is_kept_under_a_random_id_is_no_other_users() -> None:
    settings = SearchSettings("searching:keys")
    result = play_range(settings, Range(1, 41, UNTIMED))
    assert (result.runs, result.findings) == (40, ())
    assert settings not in executor._KEEPING, "the runs need no processes of their own"


def test_the_runs_that_warm_a_process_up_have_other_ids_than_its_worlds() -> None:
    settings = SearchSettings("searching:keys", seed=1)
    for first, end in (1, 2), (2, 6):
        assert play_range(settings, Range(first, end, UNTIMED)).findings == ()
    assert settings not in executor._KEEPING


def test_each_world_of_an_agent_has_a_seed_and_the_first_is_that_of_the_scenario() -> None:
    search = Search("searching:keys", scenarios=[Scenario(prompt="Go.", seed=7)])

    seeds = [search.world(number).seed for number in range(1, 400)]
    assert (seeds[0], len({*seeds})) == (7, 399)


def test_a_world_is_made_smaller_apart_from_what_larger_ones_have_left() -> None:
    result = play_range(SearchSettings("searching:spoils"), Range(1, 21, UNTIMED, shrinks=True))
    (found,) = result.findings
    assert found.name == "no-mistake-in-the-code"
    assert "http" in found.scenario


def test_ctrl_c_in_the_fork_of_a_range_keeps_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> NoReturn:
        monkeypatch.undo()
        raise KeyboardInterrupt

    settings = SearchSettings("searching:notes")
    play_range(settings, Range(1, 2, UNTIMED))
    monkeypatch.setattr(isolation, "_read", interrupted)
    result = play_range(settings, Range(1, sys.maxsize, 60.0))
    assert (result.first, result.ended, result.findings) == (1, True, ())


class Dying(concurrent.futures.Executor):
    """An executor whose first worker dies."""

    def submit(self, *_: object, **__: object) -> Any:
        future = concurrent.futures.Future[RangeResult]()
        future.set_exception(BrokenProcessPool())
        return future


def test_a_worker_that_dies_is_told_with_its_runs() -> None:
    with pytest.raises(CheckFailed, match="a worker died in runs 1 to 20"):
        list(results_of(Dying(), 1, SETTINGS, ranges(runs=60)))
