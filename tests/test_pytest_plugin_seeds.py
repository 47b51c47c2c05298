"""The seeds of async tests: how often a test runs, and which numbers and orders it gets."""

import pytest
from projects import async_module as play


@pytest.mark.slow
def test_seeds_run_the_test_until_the_first_that_fails(project: pytest.Pytester) -> None:
    source = """
@pytest.mark.simloop(seeds=200)
async def test_it(sim):
    simloop.note(f"seed {sim.seed}")
    assert sim.seed < 3

@pytest.mark.simloop(seeds=50)
async def test_passes(provider, sim):
    provider.script(Reply(say=f"Hello {sim.seed}."))
    assert await my_agent(provider, "Hi") == f"Hello {sim.seed}."
    assert len(provider.requests) == 1
"""
    result = play(project, source)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "seed 3 is the first of 200 that fails",
            "*note * seed 3",
            "reproduce: pytest test_module.py::test_it --simloop-seed 3",
            "simloop: 54 runs, *",
        ]
    )
    again = play(project, source, "--simloop-seed", "3", "-k", "test_it")
    again.stdout.fnmatch_lines(["*note * seed 3", "simloop: 1 run, *"])


@pytest.mark.slow
def test_shuffled_ties_give_orders_that_the_seed_decides(project: pytest.Pytester) -> None:
    source = """
@pytest.mark.simloop(seeds=30, shuffle_ties=True)
async def test_it():
    order = []
    async def tick(name):
        await asyncio.sleep(1)
        order.append(name)
    async with asyncio.TaskGroup() as group:
        for name in "ab":
            group.create_task(tick(name))
    assert order == ["a", "b"]
"""
    result = play(project, source)
    result.assert_outcomes(failed=1)
    found = [line for line in result.outlines if "is the first of 30" in line]
    again = play(project, source)
    assert found == [line for line in again.outlines if "is the first of 30" in line]
    play(project, source.replace(", shuffle_ties=True", "")).assert_outcomes(passed=1)


def test_randomness_and_dates_come_from_the_seed(project: pytest.Pytester) -> None:
    source = """
import datetime, uuid
@pytest.mark.simloop(seed=5)
async def test_it():
    print("drawn", random.random(), uuid.uuid4(), datetime.datetime.now())
"""
    drawn = {
        line
        for _ in range(2)
        for line in play(project, source).outlines
        if line.startswith("drawn")
    }
    assert len(drawn) == 1


def test_arguments_of_no_use_are_refused(project: pytest.Pytester) -> None:
    source = """
@pytest.mark.simloop(lop=1)
async def test_unknown(): pass

@pytest.mark.simloop(loop="pi")
async def test_loop(): pass

@pytest.mark.simloop(seeds=0)
async def test_no_seeds(): pass

@pytest.mark.simloop(seeds=2, seed=1)
async def test_both(): pass

@pytest.mark.simloop(seeds=2)
def test_sync(simloop_run): pass
"""
    result = play(project, source)
    result.assert_outcomes(failed=4, errors=1)
    result.stdout.fnmatch_lines(["*the marker simloop takes *, not lop"])
    result.stdout.fnmatch_lines(["*loop= of the marker simloop is for `simloop_run`*"])
    result.stdout.fnmatch_lines(["*seeds= is a number of runs, such as 200, not 0"])
    result.stdout.fnmatch_lines(["*takes seed= or seeds=, not both"])
    result.stdout.fnmatch_lines(["*seeds= of the marker simloop is for an async test"])


def test_a_marker_states_how_many_requests_a_test_may_make(project: pytest.Pytester) -> None:
    source = """
async def asks(provider):
    provider.script(Reply(say="Yes.", times="always"))
    for _ in range(110):
        assert await my_agent(provider, "Hi") == "Yes."

@pytest.mark.simloop
async def test_ends(provider):
    await asks(provider)

@pytest.mark.simloop(max_transitions=110)
async def test_goes_on(provider):
    await asks(provider)
"""
    result = play(project, source)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "*the run passed max_transitions=100 requests without an outcome, the last at mine*",
            "*reproduce: pytest test_module.py::test_ends",
        ]
    )
