"""Async fixtures of tests that the marker runs on the virtual clock."""

import pytest
from projects import async_module as play


def test_async_fixtures_run_on_the_clock_of_the_test_and_anew_for_each_seed(
    project: pytest.Pytester,
) -> None:
    source = """
calls = []

@pytest.fixture
async def first(sim):
    await asyncio.sleep(2)
    yield sim.now
    await asyncio.sleep(3)
    calls.append(("closed", sim.seed, sim.now))

@pytest.fixture
async def second(first):
    return first + 1

@pytest.fixture
async def third(first):
    calls.append(("third", first))

@pytest.mark.simloop(seeds=2)
async def test_it(second, first, sim, third):
    assert (first, second, sim.now) == (2.0, 3.0, 2.0)

def test_after():
    opened = ("third", 2.0)
    assert calls == [opened, ("closed", 0, 5.0), opened, ("closed", 1, 5.0)]
"""
    play(project, source).assert_outcomes(passed=2)


def test_what_is_not_async_uses_the_database_of_a_fixture(
    project: pytest.Pytester,
) -> None:
    source = """
import sqlite3
from simloop import Scenario

@pytest.fixture
def db():
    with sqlite3.connect(":memory:") as one:
        one.execute("create table t (x)")
    yield one
    one.close()

@pytest.mark.simloop
def test_it(db, sim):
    with db:
        db.execute("insert into t values (7)")

def test_scenario(db, simloop_run):
    def agent(prompt: str) -> str:
        return str(db.execute("select count(*) from t").fetchall())

    assert simloop_run(Scenario(prompt="Go."), loop=agent).text == "[(0,)]"

def test_after():
    assert sqlite3.connect is __import__("_sqlite3").connect
"""
    play(project, source).assert_outcomes(passed=3)


def test_an_async_autouse_fixture_runs_although_no_test_asks_for_it(
    project: pytest.Pytester,
) -> None:
    source = """
seen = []

@pytest.fixture(autouse=True)
async def around(request):
    if "simloop" in request.keywords:
        seen.append("before")
        yield
        seen.append("after")

@pytest.mark.simloop
async def test_it():
    assert seen == ["before"]

@pytest.mark.simloop
async def test_again():
    assert seen == ["before", "after", "before"]
"""
    play(project, source).assert_outcomes(passed=2)


def test_a_script_of_a_fixture_is_there_for_each_seed(project: pytest.Pytester) -> None:
    source = """
@pytest.fixture
def scripted(provider):
    provider.script(Reply(say="Hello."))
    return provider

@pytest.mark.simloop(seeds=3)
async def test_it(scripted):
    reply = await scripted.model.reply([UserMessage("Hi")])
    assert reply.message.text == "Hello."
    assert len(scripted.requests) == 1
"""
    play(project, source).assert_outcomes(passed=1)


def test_a_party_has_a_script_of_its_own_in_a_fixture_and_in_the_test(
    project: pytest.Pytester,
) -> None:
    source = """
@pytest.fixture
def reviewer(provider):
    found = provider.party("reviewer", {"system": {"contains": "You review"}})
    found.script(Reply(say="Good."))
    return found

@pytest.mark.simloop(seeds=2)
async def test_it(provider, reviewer):
    provider.script(Reply(say="A line."))
    reviewer.script(Reply(say="Good again."))
    said = []
    for system in ("You review.", "You write.", "You review."):
        reply = await provider.model.reply([UserMessage("Hi")], system_prompt=system)
        said.append(reply.message.text)
    assert said == ["Good.", "A line.", "Good again."]
    assert [each.number for each in reviewer.requests] == [1, 3]
    provider.expect(requests={"reviewer": 2})

@pytest.mark.simloop
async def test_unused(reviewer): pass

@pytest.mark.simloop
async def test_unknown(provider, reviewer):
    provider.expect(requests={"revewer": 0})
"""
    result = play(project, source)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines([
        "*did not use models.reviewer.replies.0*",
        "*expect.requests.revewer: there is no `revewer` in models: it has reviewer",
    ])  # fmt: skip


def test_fixtures_that_cannot_run_in_the_simulation_are_errors_with_their_names(
    project: pytest.Pytester,
) -> None:
    source = """
@pytest.fixture(scope="module")
async def shared():
    return 1

@pytest.fixture
async def inner():
    return 1

@pytest.fixture
def outer(inner):
    return inner

@pytest.mark.simloop
async def test_shared(shared): pass

@pytest.mark.simloop
async def test_outer(outer): pass
"""
    result = play(project, source)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["the async fixture `shared` has the scope module: *"])
    result.stdout.fnmatch_lines(
        ["the fixture `outer` is not async and asks for the async fixture `inner`, *"]
    )


def test_an_error_of_a_fixture_or_of_its_end_fails_the_test(project: pytest.Pytester) -> None:
    source = """
@pytest.fixture
async def before():
    raise ValueError("at the start")

@pytest.fixture
async def after():
    yield
    raise ValueError("at the end")

@pytest.mark.simloop
async def test_before(before): pass

@pytest.mark.simloop
async def test_after(after): pass
"""
    result = play(project, source)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*ValueError: at the start", "*ValueError: at the end"])
