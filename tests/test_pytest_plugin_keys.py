"""The keys of providers in somebody's tests: dummies, wherever a simulated test needs one."""

import os

import pytest

# Loaded here, because a session of pytester forgets the modules that were first loaded in it.
import simloop.page.page  # noqa: F401

AGENT = """
import os
from types import SimpleNamespace

def connect():
    if "OPENAI_API_KEY" not in os.environ:
        raise RuntimeError("Missing credentials. Set the `OPENAI_API_KEY` environment variable.")
    return SimpleNamespace(key=os.environ["OPENAI_API_KEY"])
"""
CLIENT = "from agent import connect\n\nclient = connect()\n"
TEST = """
import pytest
from client import client

@pytest.mark.simloop
async def test_it(sim):
    assert client.key == "simulated"
"""


@pytest.fixture
def written(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project on a machine without keys, with a module that needs one to be imported."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://proxy.test")
    project.makepyfile(agent=AGENT, client=CLIENT, test_it=TEST)
    return project


def run(project: pytest.Pytester, *args: str) -> pytest.RunResult:
    return project.runpytest_inprocess(*args)


def test_a_module_that_needs_a_key_can_be_imported_and_the_environment_is_as_before(
    written: pytest.Pytester,
) -> None:
    run(written).assert_outcomes(passed=1)
    assert "OPENAI_API_KEY" not in os.environ
    assert os.environ["OPENAI_BASE_URL"] == "http://proxy.test"


@pytest.mark.slow
def test_so_can_one_in_a_project_whose_tests_are_all_simulated(written: pytest.Pytester) -> None:
    written.makepyfile(test_it="from client import client\n\ndef test_it(): pass")
    run(written, "-o", "simloop_auto=true").assert_outcomes(passed=1)


def test_fixtures_bodies_and_the_clean_up_of_simulated_tests_have_dummies(
    written: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
        import os, pytest, simloop
        from agent import connect
        from simloop import Reply, Scenario, UserMessage

        class Bot:
            def __init__(self):
                self.client = connect()

            async def __call__(self, prompt):
                return connect().key + self.client.key

        @pytest.fixture
        def client():
            yield connect()
            connect()

        @pytest.fixture
        def own_key(monkeypatch):
            monkeypatch.setenv("OPENAI_API_KEY", "mine")
            return connect()

        def test_with_a_fixture_of_simloop(client, simloop_run):
            assert client.key == "simulated"
            result = simloop_run(Scenario(prompt="Go."), loop=Bot, check=False)
            assert result.text == "simulatedsimulated"

        @pytest.mark.simloop
        async def test_async(client):
            assert connect().key == client.key == "simulated"

        class TestsInAClass:
            def test_it(self, client, simloop_run):
                assert connect().key == "simulated"

        def test_a_key_of_ones_own(own_key, simloop_run):
            assert own_key.key == "mine"

        def test_of_something_else():
            assert "OPENAI_API_KEY" not in os.environ
            assert os.environ["OPENAI_BASE_URL"] == "http://proxy.test"
    """
    (written.path / "test_it.py").unlink()
    written.makepyfile(test_module=source)
    run(written).assert_outcomes(passed=5)


def test_tests_of_others_get_no_key(written: pytest.Pytester) -> None:
    written.makepyfile(test_it="import client")
    skipped = """
        import os, pytest

        @pytest.mark.skipif("OPENAI_API_KEY" not in os.environ, reason="it costs money")
        def test_simloop_with_the_real_provider(): ...

        @pytest.mark.skipif("'OPENAI_API_KEY' not in os.environ", reason="it costs money")
        def test_of_a_text(): ...

        @pytest.fixture
        def client():
            from agent import connect
            return connect()

        def test_of_a_fixture(client): ...
    """
    written.makepyfile(test_real=skipped)
    result = run(written, "--continue-on-collection-errors")
    result.assert_outcomes(errors=2, skipped=2)


def test_an_agent_that_needs_another_key_fails_with_its_own_words(
    written: pytest.Pytester,
) -> None:
    written.makepyfile(client="raise RuntimeError('OPENAI_API_KEY is missing, and a database')")
    result = run(written)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["E*RuntimeError: OPENAI_API_KEY is missing, and a database"])
