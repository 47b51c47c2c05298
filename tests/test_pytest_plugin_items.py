"""Scenario files are test items like any other."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from projects import session as play

GREETING = """\
prompt: Say hello.
model:
  - http: {status: 429}
  - say: Hello.
expect: {text: Hello., backoffs: [2s]}
"""
WRONG = GREETING.replace("text: Hello.", "text: Goodbye.")
OWN = """
import simloop
from simloop.trace.entries import Request

@simloop.invariant("A run makes one request.", "a budget", sees=[Request])
def one_request(subject):
    yield
    yield
    return "a second request was sent"
"""
BAD = "prompt: Say hello.\nmodel:\n  - htpp: {status: 429}\n"


@pytest.fixture
def project(project: pytest.Pytester) -> pytest.Pytester:
    write(project, "scenarios/retry/greeting", GREETING)
    write(project, "scenarios/retry/other", GREETING)
    write(project, "scenarios/tools/third", GREETING)
    return project


def write(project: pytest.Pytester, name: str, text: str) -> None:
    path = project.path / f"{name}.simloop.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def failure(result: pytest.RunResult) -> list[str]:
    """What stands under the title of the only failure."""
    lines = result.outlines
    start = next(index for index, line in enumerate(lines) if line.startswith("____"))
    end = next(index for index, line in enumerate(lines) if "short test summary info" in line)
    return lines[start + 1 : end]


def test_a_scenario_file_is_an_item_named_by_its_stem(project: pytest.Pytester) -> None:
    result = play(project, "--collect-only", "-q")
    assert result.outlines[:3] == [
        "scenarios/retry/greeting.simloop.yaml::greeting",
        "scenarios/retry/other.simloop.yaml::other",
        "scenarios/tools/third.simloop.yaml::third",
    ]


def test_scenarios_that_do_as_they_expect_pass(project: pytest.Pytester) -> None:
    play(project).assert_outcomes(passed=3)


@pytest.mark.parametrize(("words", "passed"), [("greeting", 1), ("retry", 2), ("not retry", 1)])
def test_k_chooses_by_the_name_and_by_the_folder(
    project: pytest.Pytester, words: str, passed: int
) -> None:
    play(project, "-k", words).assert_outcomes(passed=passed, deselected=3 - passed)


def test_a_conftest_marks_scenarios_as_it_marks_tests(project: pytest.Pytester) -> None:
    project.makeconftest("""
        def pytest_configure(config):
            config.addinivalue_line("markers", "slow: takes long")

        def pytest_collection_modifyitems(items):
            for item in items:
                if item.path.parent.name == "tools":
                    item.add_marker("slow")
    """)
    play(project, "-m", "slow").assert_outcomes(passed=1, deselected=2)
    play(project, "-m", "not slow").assert_outcomes(passed=2, deselected=1)


def test_the_marker_of_the_plugin_works_on_scenario_files(project: pytest.Pytester) -> None:
    write(project, "other", WRONG)
    project.makeconftest("""
        import pytest

        def pytest_collection_modifyitems(items):
            items[-1].add_marker(pytest.mark.simloop(seed=4))
    """)
    assert failure(play(project, "other.simloop.yaml"))[-2].endswith(" --seed 4")


def test_the_marker_is_known_and_described(project: pytest.Pytester) -> None:
    takes = (
        "seed=, loop=, judge_as=, loop_options=, unscripted=, services=, seeds=,"
        " shuffle_ties=, max_transitions="
    )
    play(project, "--markers").stdout.fnmatch_lines([f"@pytest.mark.simloop({takes})*"])


def test_the_project_gives_its_own_tools_to_scenario_files(project: pytest.Pytester) -> None:
    project.makeconftest("""
        import functools
        import pytest

        def lookup(word: str) -> str:
            return word.upper()

        @pytest.fixture
        def simloop_run(simloop_run):
            return functools.partial(simloop_run, tools=[lookup])
    """)
    text = (
        "prompt: x\nmodel: [{call: {lookup: {word: a}}}, {say: A.}]\nexpect: {tools_run: [lookup]}"
    )
    write(project, "own", text)
    play(project, "own.simloop.yaml").assert_outcomes(passed=1)


def test_an_expectation_that_fails_shows_our_lines_and_nothing_else(
    project: pytest.Pytester,
) -> None:
    write(project, "scenarios/retry/other", WRONG)
    result = play(project, "-k", "other")
    first, *run, command = failure(result)[:-1]
    assert first == "expect.text: expected 'Goodbye.', got 'Hello.'"
    assert run[1] == "the end of the run:"
    assert run[-3].split() == ["2.000s", "completed", "Hello."]
    assert command == "reproduce: simloop run scenarios/retry/other.simloop.yaml --seed 0"
    assert not [line for line in run if ".py" in line]


def test_a_bad_file_is_one_failed_item_with_its_place(project: pytest.Pytester) -> None:
    write(project, "scenarios/retry/other", BAD)
    result = play(project)
    result.assert_outcomes(passed=2, failed=1)
    (line, *_) = failure(result)
    assert line == (
        "scenarios/retry/other.simloop.yaml:3:5: model.0.htpp: unknown key (did you mean `http`?)"
    )


def test_the_place_is_whole_when_pytest_runs_elsewhere(
    project: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write(project, "other", BAD)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    project.makeconftest(f"""
        import pytest

        @pytest.fixture(autouse=True)
        def chdir(monkeypatch):
            monkeypatch.chdir({str(elsewhere)!r})
    """)
    result = play(project, "other.simloop.yaml")
    assert failure(result)[0].startswith(f"{project.path / 'other.simloop.yaml'}:3:5: ")


def test_a_junit_file_holds_the_item_its_numbers_and_its_failure(project: pytest.Pytester) -> None:
    write(project, "scenarios/tools/third", WRONG)
    play(project, "--junit-xml=report.xml", "scenarios/retry/greeting.simloop.yaml")
    (case,) = ET.parse(project.path / "report.xml").iter("testcase")
    assert case.attrib["name"] == "greeting"
    properties = {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
    assert properties["simloop_runs"] == "1"
    assert properties["simloop_virtual_ns"] == "2000000000"
    play(project, "--junit-xml=report.xml", "scenarios/tools")
    (failed,) = ET.parse(project.path / "report.xml").iter("failure")
    assert failed.attrib["message"] == "expect.text: expected 'Goodbye.', got 'Hello.'"


def test_the_invariants_of_the_project_judge_each_run(project: pytest.Pytester) -> None:
    project.makepyfile(ours=OWN)
    call = ("-p", "no:cacheprovider", "--override-ini=pythonpath=.", "scenarios/tools")
    assert play(project, *call).ret == 0
    result = play(project, *call, "--override-ini=simloop_invariants=ours:one_request")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines("*invariant one-request: a second request was sent (entry *")


@pytest.mark.slow
def test_our_own_scenarios_are_collected_and_pass(project: pytest.Pytester) -> None:
    scenarios = Path(__file__).resolve().parent.parent / "scenarios"
    count = len(list(scenarios.rglob("*.simloop.yaml")))
    # The settings are those of our repository, whose `addopts` do not name the plugin.
    play(project, "-p", "simloop", str(scenarios), "--rootdir", str(project.path)).assert_outcomes(
        passed=count
    )
