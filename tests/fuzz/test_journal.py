from pathlib import Path

import pytest
from filesizes import file_size_limit

from simloop.errors import ScenarioError
from simloop.fuzz.failures import Group
from simloop.fuzz.journal import Journal
from simloop.fuzz.ranges import RangeResult, SearchFinding, SearchSettings

SETTINGS = SearchSettings("reference", seed=7)
FINDING = SearchFinding("rule", "it is wrong", "It is right.", 25, True, "prompt: Go.", "wrong")  # noqa: FBT003
RESULTS = [
    RangeResult(1, 20, 0.5, 10**9, {"a-goal": 3}, 5),
    RangeResult(21, 5, counts=((Group("rule", "it is wrong"), 1),), finding=FINDING),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    journal = Journal(tmp_path, SETTINGS)
    for result in reversed(RESULTS):
        journal.append(result)
    return tmp_path


def lines(folder: Path) -> int:
    return (folder / "search.jsonl").read_text().count("\n")


def test_each_range_and_each_failure_is_a_line_and_is_read_again_in_order(folder: Path) -> None:
    assert lines(folder) == 4
    assert Journal(folder, SETTINGS).results == RESULTS
    assert lines(folder) == 4


def test_another_search_begins_anew_behind_the_old_one(folder: Path) -> None:
    changed = SearchSettings("reference", seed=7, code="another")
    journal = Journal(folder, changed)
    assert journal.results == []
    journal.append(RESULTS[0])
    assert Journal(folder, changed).results == RESULTS[:1]
    assert lines(folder) == 6, "nothing is lost"


def test_a_line_that_was_cut_off_is_left_out_and_its_range_is_played_again(folder: Path) -> None:
    file = folder / "search.jsonl"
    file.write_bytes(file.read_bytes()[:-10])
    journal = Journal(folder, SETTINGS)
    assert journal.results == RESULTS[1:]
    journal.append(RESULTS[0])
    assert Journal(folder, SETTINGS).results == RESULTS


def test_a_file_that_is_no_journal_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "search.jsonl").write_text("mine\n")
    with pytest.raises(ScenarioError, match=r"search\.jsonl: this is no file of a search"):
        Journal(tmp_path, SETTINGS)
    assert (tmp_path / "search.jsonl").read_text() == "mine\n"


def test_a_full_disk_is_an_error_of_the_user_and_keeps_the_lines(folder: Path) -> None:
    journal = Journal(folder, SETTINGS)
    full = file_size_limit((folder / "search.jsonl").stat().st_size + 20)
    with full, pytest.raises(ScenarioError, match=r"search\.jsonl: cannot be written"):
        journal.append(RESULTS[0])
    assert Journal(folder, SETTINGS).results == RESULTS
