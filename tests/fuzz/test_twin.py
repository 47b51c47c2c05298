from pathlib import Path

import pytest

from simloop import Reply, Scenario
from simloop.fuzz.play import chosen_for, play
from simloop.fuzz.search import Search
from simloop.fuzz.twin import Twin, digest_of
from simloop.runs.plan import Plan
from simloop.trace.entries import AnyEntry

HASHING = """
from simloop import UserMessage, World

async def agent(prompt: str, world: World) -> str:
    words = " ".join({"one", "two", "three", "four", "five", "six", "seven"})
    await world.model.reply([UserMessage(words)])
    return words
"""
WORLD = Scenario(prompt="Go.", model=[Reply(say="Done.", times="always")])


@pytest.fixture
def hashing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_agent_that_hashes.py").write_text(HASHING)
    monkeypatch.syspath_prepend(tmp_path)
    return "own_agent_that_hashes:agent"


def record(world: Scenario, loop: str) -> list[AnyEntry]:
    plan = Plan(world, {"loop": loop})
    return play(plan, chosen_for(plan, ())).prepared.trace.entries


@pytest.mark.slow
def test_a_run_that_depends_on_no_hash_is_the_same_elsewhere() -> None:
    twin = Twin("reference")
    assert twin.send(WORLD, record(WORLD, "reference")) is None
    assert twin.send(WORLD, record(WORLD, "reference")) is None
    assert twin.finish() is None


@pytest.mark.slow
def test_a_run_that_depends_on_a_hash_differs_elsewhere(hashing: str) -> None:
    twin = Twin(hashing)
    assert twin.send(WORLD, record(WORLD, hashing)) is None
    assert twin.finish() is WORLD


@pytest.mark.slow
def test_a_search_finds_a_loop_that_depends_on_a_hash(hashing: str) -> None:
    search = Search(hashing, seed=1, invariants=(), scenarios=())
    search.twin = Twin(hashing)
    assert [each.name for each in search.run(runs=250)] == ["ReplayDiverged"]
    assert list(search.finish()) == [], "one shape is one failure"


def test_the_digest_is_that_of_the_entries() -> None:
    other = WORLD.model_copy(update={"prompt": "Go on."})
    assert digest_of(record(WORLD, "react")) == digest_of(record(WORLD, "react"))
    assert digest_of(record(WORLD, "react")) != digest_of(record(other, "react"))
