"""Traces of runs on disk, the summary line, and what the plugin costs who does not use it."""

import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from projects import session as play

from simloop.trace.codec import read_trace

GREETING = (
    "prompt: Say hello.\nmodel: [{http: {status: 429}}, {say: Hello.}]\nexpect: {text: Hello.}\n"
)
WRONG = GREETING.replace("{text: Hello.}", "{text: Goodbye.}")
EXHAUSTED = "prompt: Say hello.\nmodel: [{http: {status: 429}}]\n"
HANGING = """\
prompt: Wait.
tools: {wait: {hangs: true}}
model: [{call: {wait: {}}}]
"""


def write(project: pytest.Pytester, **texts: str) -> None:
    for name, text in texts.items():
        (project.path / f"{name}.simloop.yaml").write_text(text)


def written(project: pytest.Pytester) -> set[str]:
    folder = project.path / "test-results"
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def test_on_writes_every_trace(project: pytest.Pytester) -> None:
    write(project, good=GREETING, wrong=WRONG)
    play(project, "--simloop-trace=on").assert_outcomes(passed=1, failed=1)
    assert written(project) == {"good.trace.jsonl", "wrong.trace.jsonl"}


def test_retain_on_failure_writes_those_of_failed_tests_and_says_how_to_look(
    project: pytest.Pytester,
) -> None:
    write(project, good=GREETING, wrong=WRONG)
    result = play(project, "--simloop-trace=retain-on-failure")
    assert written(project) == {"wrong.trace.jsonl"}
    result.stdout.fnmatch_lines(
        ["*- simloop traces -*", "simloop show test-results/wrong.trace.jsonl"], consecutive=True
    )
    trace = read_trace(project.path / "test-results" / "wrong.trace.jsonl")
    assert trace.footer is not None
    assert trace.ends[-1].text == "Hello."


@pytest.mark.parametrize("text", [EXHAUSTED, HANGING], ids=["script exhausted", "deadlock"])
def test_the_trace_of_a_run_that_raised_is_there_as_far_as_it_went(
    project: pytest.Pytester, text: str
) -> None:
    write(project, broken=text)
    play(project, "--simloop-trace=retain-on-failure").assert_outcomes(failed=1)
    trace = read_trace(project.path / "test-results" / "broken.trace.jsonl")
    assert trace.footer is None
    assert len(trace.entries) > 5


BODY = """
    import pytest
    from pathlib import Path

    @pytest.mark.parametrize("word", ["plain", "a/b c", "a/b_c"])
    def test_body(simloop_run, word):
        simloop_run(Path("good.simloop.yaml"))
        simloop_run(Path("good.simloop.yaml"), seed=1)
        assert word == ""

    @pytest.fixture
    def result(simloop_run):
        return simloop_run("good.simloop.yaml")

    @pytest.fixture
    def fails_before(result):
        assert result.text == ""

    @pytest.fixture
    def fails_after(result):
        yield
        assert result.text == ""

    def test_setup(fails_before): pass
    def test_teardown(fails_after): pass
    def test_bad_file(simloop_run): simloop_run("nowhere.simloop.yaml")
"""


def test_a_test_that_fails_before_or_after_its_runs_keeps_their_traces(
    project: pytest.Pytester,
) -> None:
    write(project, good=GREETING)
    project.makepyfile(test_it=BODY)
    result = play(project, "--simloop-trace=retain-on-failure", "test_it.py")
    result.assert_outcomes(failed=4, passed=1, errors=2)
    names = written(project)
    assert names >= {
        "test_it.py.test_body[plain].trace.jsonl",
        "test_it.py.test_body[plain].2.trace.jsonl",
        "test_it.py.test_setup.trace.jsonl",
        "test_it.py.test_teardown.trace.jsonl",
    }
    odd = sorted(name for name in names if name.startswith("test_it.py.test_body[a.b_c]"))
    assert len(odd) == 4, "no test overwrites the trace of another"


def test_names_are_short_and_stay_inside_the_folder(project: pytest.Pytester) -> None:
    write(project, good=GREETING)
    project.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.parametrize("word", ["x" * 1000, "ä" * 200, "../../up"])
        def test_it(simloop_run, word):
            simloop_run("good.simloop.yaml")
    """
    )
    result = play(project, "--simloop-trace=on", "test_it.py", "--rootdir=.")
    result.assert_outcomes(passed=3)
    assert len(written(project)) == 3
    assert all(len(name.encode()) < 200 for name in written(project))


def test_the_summary_counts_runs_and_adds_up_virtual_time(project: pytest.Pytester) -> None:
    write(project, one=GREETING, other=GREETING)
    (line,) = [line for line in play(project).outlines if line.startswith("simloop: ")]
    assert line.startswith("simloop: 2 runs, 4.000s of virtual time in 0.0")
    (line,) = [line for line in play(project, "-k", "one").outlines if line.startswith("simloop: ")]
    assert line.startswith("simloop: 1 run, 2.000s of virtual time in 0.0")


@pytest.mark.slow
def test_under_xdist_everything_is_as_without(project: pytest.Pytester) -> None:
    write(project, good=GREETING, wrong=WRONG, bad="prompt: [", exhausted=EXHAUSTED)
    project.makepyfile("def test_it(simloop_run): assert simloop_run('good.simloop.yaml').ok")
    result = project.runpytest_subprocess(
        *("-p", "xdist", "-n2"),
        "--simloop-trace=retain-on-failure",
        "--simloop-seed=3",
        "--junit-xml=report.xml",
    )
    result.assert_outcomes(passed=2, failed=3)
    assert written(project) == {"wrong.trace.jsonl", "exhausted.trace.jsonl"}
    result.stdout.fnmatch_lines_random(
        [
            "expect.text: expected 'Goodbye.', got 'Hello.'",
            "reproduce: simloop run wrong.simloop.yaml --seed 3",
            "simloop show test-results/wrong.trace.jsonl",
            "bad.simloop.yaml:1:*",
            "FAILED wrong.simloop.yaml::wrong - expect.text: *",
            "simloop: 4 runs, 8.000s of virtual time in *",
        ]
    )
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")
    cases = ET.parse(project.path / "report.xml").iter("testcase")
    assert {case.attrib["name"] for case in cases} == {
        "good",
        "wrong",
        "bad",
        "exhausted",
        "test_it",
    }


def test_importing_the_plugin_imports_nothing_but_itself_and_the_name_of_a_folder() -> None:
    script = (
        "import sys, pytest\nbefore = set(sys.modules)\nimport simloop.pytest_plugin\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    modules = ["async_tests", "reports", "settings"]
    assert run.stdout.split() == [
        "simloop",
        "simloop.pytest_plugin",
        *(f"simloop.pytest_plugin.{name}" for name in modules),
        "simloop.trace",
    ]


@pytest.mark.slow
def test_a_session_that_runs_no_scenario_imports_nothing(project: pytest.Pytester) -> None:
    write(project, good=GREETING)
    project.makepyfile("""
        import sys

        def test_it():
            names = ("asyncio", "pydantic", "msgspec", "yaml", "jsonschema_rs", "simloop.errors")
            assert [name for name in names if name in sys.modules] == []
    """)
    result = project.runpytest_subprocess("-k", "test_it")
    result.assert_outcomes(passed=1, deselected=1)


@pytest.mark.slow
def test_the_plugin_is_found_and_can_be_turned_off(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    project.makepyprojecttoml("")
    write(project, wrong=WRONG)
    project.runpytest_subprocess().assert_outcomes(failed=1)
    project.makepyfile("import sys\ndef test_it(): assert 'simloop' not in sys.modules")
    project.runpytest_subprocess("-p", "no:simloop").assert_outcomes(passed=1)
