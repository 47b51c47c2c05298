"""Agents as loops in somebody's tests: the marker, the fixture, scenario files, snapshots."""

from pathlib import Path

import pytest
import syrupy
from projects import module as play

AGENT = """
from simloop.messages import UserMessage


async def agent(prompt, world):
    return (await world.model.reply([UserMessage(prompt)])).message.text


class Counting:
    def __init__(self):
        self.prompts = 0

    async def __call__(self, prompt, world):
        self.prompts += 1
        return f"{self.prompts} {await agent(prompt, world)}"


async def raises(prompt):
    raise ValueError("oops")
"""
GREETING = "prompt: Say hello.\nmodel: [{say: Hello.}]\nexpect: {text: Hello.}\n"
CONFTEST = """
import pytest
from simloop.snapshots import TraceSnapshotExtension

@pytest.fixture
def snapshot(snapshot):
    return snapshot.use_extension(TraceSnapshotExtension)
"""


@pytest.fixture
def project(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    (project.path / "greeting.simloop.yaml").write_text(GREETING)
    project.makepyfile(mine=AGENT)
    monkeypatch.syspath_prepend(str(project.path))
    return project


def test_the_marker_and_the_call_take_an_agent_in_every_form(project: pytest.Pytester) -> None:
    source = """
        import mine
        import pytest

        @pytest.mark.simloop(loop=mine.agent)
        def test_a_function(simloop_run):
            assert simloop_run("greeting.simloop.yaml").text == "Hello."

        @pytest.mark.simloop(loop="mine:agent")
        def test_a_name(simloop_run):
            assert simloop_run("greeting.simloop.yaml").counters is None

        @pytest.mark.simloop(loop=mine.Counting)
        def test_a_class_is_made_for_each_run(simloop_run):
            for _ in range(2):
                result = simloop_run("greeting.simloop.yaml", check=False)
                assert result.text == "1 Hello."

        def test_a_call(simloop_run):
            assert simloop_run("greeting.simloop.yaml", loop=mine.agent).text == "Hello."
    """
    play(project, source).assert_outcomes(passed=4)


def test_a_scenario_file_that_names_an_agent_is_a_test(project: pytest.Pytester) -> None:
    (project.path / "own.simloop.yaml").write_text(f"loop: mine:agent\n{GREETING}")
    (project.path / "wrong.simloop.yaml").write_text(f"loop: mine:Counting\n{GREETING}")
    result = project.runpytest_inprocess()
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*expect.text: expected 'Hello.', got '1 Hello.'*"])


@pytest.mark.slow
def test_the_run_of_an_agent_is_a_snapshot(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makeconftest(CONFTEST)
    project.makepyfile(
        test_module="""
        import mine

        def test_it(snapshot, simloop_run):
            assert simloop_run("greeting.simloop.yaml", loop=mine.Counting, check=False) == snapshot
        """
    )
    monkeypatch.setenv("PYTEST_PLUGINS", "syrupy")
    # Sessions in this process replace what syrupy keeps of ours.
    monkeypatch.setattr(syrupy, "_syrupy", syrupy._syrupy)
    project.runpytest_inprocess("--snapshot-update", "test_module.py").assert_outcomes(passed=1)
    stored = project.path / "__snapshots__" / "test_module" / "test_it.trace.jsonl"
    assert '"loop":"mine:Counting"' in stored.read_text("utf-8")
    project.runpytest_inprocess("test_module.py").assert_outcomes(passed=1)
    edited = Path(project.path / "mine.py")
    edited.write_text(edited.read_text().replace("UserMessage(prompt)]", 'UserMessage("Hm?")]'))
    result = project.runpytest_inprocess("test_module.py")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*look at the snapshot: simloop show *"])
