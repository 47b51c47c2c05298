import pytest
from searching import WORLD

from simloop.check.trial import UNJUDGED, trial
from simloop.fuzz.processes import Twin, digest_of, failure_alone
from simloop.fuzz.search import Search
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
    assert twin.send(1, world, record(world)) is None
    assert twin.send(2, world, record(world)) is None
    assert twin.answer() is None
    twin.end()


@pytest.mark.slow
def test_a_run_that_depends_on_a_hash_differs_elsewhere() -> None:
    twin, world = Twin(), of("hashes")
    assert twin.send(7, world, record(world)) is None
    assert twin.answer() == (7, world)
    assert twin.answer() is None, "it is told once"
    twin.end()


@pytest.mark.slow
def test_a_search_finds_a_loop_that_depends_on_a_hash() -> None:
    search = Search("searching:hashes", seed=1, invariants=())
    search.twin = Twin()
    assert [each.name for each in search.run(runs=250)] == ["ReplayDiverged"]
    assert search.answer_elsewhere() is None, "one shape is one failure"
    search.twin.end()


def test_the_digest_is_that_of_the_entries() -> None:
    other = WORLD.model_copy(update={"prompt": "Go on."})
    assert digest_of(record(WORLD)) == digest_of(record(WORLD))
    assert digest_of(record(WORLD)) != digest_of(record(other))


@pytest.mark.slow
def test_a_failure_that_needs_earlier_runs_is_none_in_a_new_process() -> None:
    world = of("remembers")
    assert failure_alone(world, "search") is None
    again = failure_alone(world.model_copy(update={"then": ["a", "b"]}), "file")
    assert again is not None
    assert again.name == "adjacent-results"


@pytest.mark.slow
def test_a_search_marks_a_failure_as_reproduced_if_a_new_process_shows_it() -> None:
    found = {each.name: each.reproduced for each in Search("searching:remembers").run(runs=9)}
    assert found["adjacent-results"] is False
    (first, *_) = Search("searching:repeats").run(runs=60)
    assert first.reproduced is True
