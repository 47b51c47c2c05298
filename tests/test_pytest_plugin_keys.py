"""Modules of tests that need the key of a provider when they are imported."""

import pytest

ADVICE = 'write os.environ.setdefault("OPENAI_API_KEY", "simulated") at the top of conftest.py'
AGENT = """
import os
from types import SimpleNamespace

if "OPENAI_API_KEY" not in os.environ:
    raise RuntimeError("Missing credentials. Set the `OPENAI_API_KEY` environment variable.")
client = SimpleNamespace(key=os.environ["OPENAI_API_KEY"])
"""
TEST = """
import pytest
from agent import client

@pytest.mark.simloop
async def test_it(sim):
    assert client.key == "simulated"
"""


@pytest.fixture
def written(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project on a machine without keys, with an agent that needs one to be imported."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    project.makepyfile(agent=AGENT, test_it=TEST)
    return project


def run(project: pytest.Pytester, *args: str) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", "no:syrupy", *args)


def test_an_import_without_a_key_fails_with_the_line_that_mends_it(
    written: pytest.Pytester,
) -> None:
    result = run(written)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"OPENAI_API_KEY is not set when the tests *: {ADVICE}"])
    assert result.stdout.str().count("setdefault") == 1


def test_that_line_mends_it(written: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")  # so that it is as before after this test
    monkeypatch.delenv("OPENAI_API_KEY")
    written.makeconftest(f"import os\n{ADVICE.removeprefix('write ').partition(' at ')[0]}")
    run(written).assert_outcomes(passed=1)


@pytest.mark.slow
def test_a_project_whose_tests_are_all_simulated_gets_the_advice_too(
    written: pytest.Pytester,
) -> None:
    written.makepyfile(test_it="from agent import client")
    assert ADVICE in run(written, "-o", "simloop_auto=true").stdout.str()


def test_tests_of_others_get_no_advice_and_no_key(written: pytest.Pytester) -> None:
    written.makepyfile(test_it="import agent")
    skipped = """
        import os, pytest

        @pytest.mark.skipif("OPENAI_API_KEY" not in os.environ, reason="it costs money")
        def test_simloop_with_the_real_provider(): ...
    """
    written.makepyfile(test_real=skipped)
    result = run(written, "--continue-on-collection-errors")
    result.assert_outcomes(errors=1, skipped=1)
    assert "setdefault" not in result.stdout.str()


@pytest.mark.slow
def test_an_import_that_fails_for_another_reason_gets_no_advice(written: pytest.Pytester) -> None:
    written.makepyfile(agent="""raise RuntimeError("no network")  # with OPENAI_API_KEY""")
    result = run(written)
    result.assert_outcomes(errors=1)
    assert "setdefault" not in result.stdout.str()
