import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import searching
from searching import WORLD

from simloop.check.trial import UNJUDGED, trial
from simloop.fuzz import processes
from simloop.fuzz.processes import Nursery, Twin, digest_of, failure_alone
from simloop.fuzz.search import Search
from simloop.runs import patience
from simloop.runs.plan import Plan
from simloop.scenario.schema import Scenario
from simloop.trace.entries import AnyEntry


def of(loop: str) -> Scenario:
    return WORLD.model_copy(update={"loop": f"searching:{loop}"})


def record(world: Scenario) -> list[AnyEntry]:
    plan = Plan(world, {})
    return list(trial(plan, UNJUDGED).entries)


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asks", "prints"])
def test_a_run_that_depends_on_no_hash_is_the_same_elsewhere(loop: str) -> None:
    """What it prints is no answer of the other process."""
    twin, world = Twin(), of(loop)
    for number in (1, 2):
        twin.send(number, world, record(world))
        assert twin.answer() is None
    twin.end()


@pytest.mark.slow
def test_a_run_that_depends_on_a_hash_differs_elsewhere() -> None:
    twin, world = Twin(), of("hashes")
    twin.send(7, world, record(world))
    assert twin.answer() == (7, world)
    assert twin.answer() is None, "it is told once"
    twin.end()


@pytest.mark.slow
def test_a_search_finds_a_loop_that_depends_on_a_hash() -> None:
    search = Search("searching:hashes", seed=1, invariants=())
    search.twin = Twin()
    assert [each.name for each in search.run(runs=250)] == ["ReplayDiverged"]
    assert search.answer_elsewhere() == [], "one shape is one failure"
    search.twin.end()


def test_the_digest_is_that_of_the_entries() -> None:
    other = WORLD.model_copy(update={"prompt": "Go on."})
    assert digest_of(record(WORLD)) == digest_of(record(WORLD))
    assert digest_of(record(WORLD)) != digest_of(record(other))


@pytest.mark.slow
def test_a_failure_that_needs_earlier_runs_is_none_in_a_new_process() -> None:
    world = of("remembers")
    assert failure_alone(world, "") is None
    again = failure_alone(world.model_copy(update={"then": ["a", "b"]}), "")
    assert again is not None
    assert again.name == "adjacent-results"


@pytest.mark.slow
def test_a_search_marks_a_failure_as_reproduced_if_a_new_process_shows_it() -> None:
    found = {each.name: each.reproduced for each in Search("searching:remembers").run(runs=3)}
    assert found["adjacent-results"] is False
    (first,) = Search("searching:repeats").run(runs=2)
    assert first.reproduced is True


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    searching._seen.clear()
    nursery = Nursery()
    yield nursery
    nursery.end()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For runs that spin: on a busy machine, others take as long, too."""
    monkeypatch.setattr(patience, "PATIENCE_S", 0.3)


def test_a_failure_that_needs_earlier_runs_is_none_in_a_nursery(nursery: Nursery) -> None:
    world = of("remembers")
    found = [trial(Plan(world, {})).failure() for _ in range(4)]
    assert [each and each.name for each in found] == [None, None, *["adjacent-results"] * 2]
    assert [nursery.answer(world) for _ in range(4)] == [None] * 4
    again = nursery.answer(world.model_copy(update={"then": ["a", "b"]}))
    assert again[0] == "adjacent-results"


def test_a_nursery_judges_by_the_one_rule_that_is_named(nursery: Nursery) -> None:
    world = of("remembers").model_copy(update={"then": ["a", "b"]})
    assert nursery.answer(world, name="no-mistake-in-the-code", alone=True) is None
    found = nursery.answer(world, name="adjacent-results", alone=True)
    assert found[0] == "adjacent-results"


def test_a_run_that_ends_its_process_does_not_end_the_nursery(nursery: Nursery) -> None:
    assert nursery.answer(of("dies")) is None
    assert nursery.answer(of("asks")) is None
    assert nursery.answer(of("fails")) is not None


@pytest.mark.usefixtures("impatient")
def test_the_computing_of_a_nursery_counts_before_it_ends(
    nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "NURSERIES", [nursery])
    assert nursery.cpu_s == 0
    nursery.answer(of("spins"))
    assert 0 < nursery.cpu_s <= processes.cpu_s()


@pytest.mark.usefixtures("impatient")
def test_a_run_that_computes_for_ever_does_not_hold_the_nursery(nursery: Nursery) -> None:
    found = nursery.answer(of("spins"))
    assert found[:2] == ("finishes", patience.OVERDUE)
    assert nursery.answer(of("fails")) is not None


def test_a_failure_is_tried_in_the_nursery_of_the_process_if_it_has_one(
    nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "NURSERIES", [nursery])
    monkeypatch.setattr(subprocess, "Popen", None)  # no new Python
    found = failure_alone(of("fails"), "")
    assert found is not None
    assert found.name == "no-mistake-in-the-code"


_PARENT = """
import sys
import searching
from simloop.fuzz.processes import Nursery
nursery = Nursery()
print(nursery._process.pid, flush=True)
nursery.answer(searching.WORLD.model_copy(update={"loop": "searching:spins"}))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are read there")
def test_a_nursery_dies_with_its_parent_even_in_a_run_that_spins() -> None:
    command = [sys.executable, "-c", _PARENT]
    where = Path(searching.__file__).parent
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=where) as parent:
        assert parent.stdout is not None
        nurse = int(parent.stdout.readline())
        children = Path(f"/proc/{nurse}/task/{nurse}/children")
        while not (runs := children.read_text().split()):
            os.sched_yield()
        parent.send_signal(signal.SIGKILL)
        parent.stdout.read()  # until the last process that holds it has ended
    while any(map(_lives, (nurse, *map(int, runs)))):  # it ends, a little later
        time.sleep(0.05)


def _lives(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
