"""Every example of the README and of the pages that it names runs; .ci/run runs the set-up.

The examples with a file's name need SDKs: tests/wire/test_page_examples.py.
"""

import re
import runpy

import click
import pytest
from hypothesis import settings
from regenerate import FAILING_TEST, PAGES, PROGRAMS, TOP

import simloop
from simloop.cli import main

TEXTS = {page.relative_to(TOP).as_posix(): page.read_text("utf-8") for page in PAGES}
README = TEXTS["README.md"]


EXAMPLES = "\n".join(page.read_text("utf-8") for page in PROGRAMS)


def blocks(language: str, text: str = EXAMPLES) -> list[str]:
    """The code blocks in that language, of all pages with whole programs or of one page."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """The commands of a page: lines of console blocks, and inline code that begins with simloop."""
    lines = [line for block in blocks("console", text) for line in block.splitlines()]
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    return [*lines, *(code for code in inline if code.startswith("simloop "))]


TEST = re.compile(r"^(?:(?:async )?def test_|Test\w+ = )", re.MULTILINE)


@pytest.mark.slow
def test_the_python_blocks_run(project: pytest.Pytester) -> None:
    """Those with tests in pytest, and the others as programs."""
    python = blocks("python")
    (project.path / "retry.simloop.yaml").write_text("prompt: Hi\nmodel: [{say: Hello.}]\n")
    tests = {f"test_{number}": block for number, block in enumerate(python) if TEST.search(block)}
    # Few examples show that a property of a page runs.
    profile = settings.get_current_profile_name()
    settings.register_profile("pages", max_examples=5, deadline=None)
    settings.load_profile("pages")
    for block in python:
        if block not in tests.values():
            runpy.run_path(str(project.makepyfile(program=block)))
    project.makepyfile(**tests)
    files = [f"{name}.py" for name in tests]
    options = ("-p", "benchmark", "--benchmark-disable", "-p", "syrupy", "--snapshot-update")
    run = project.runpytest(*options, *files)
    settings.load_profile(profile)
    run.assert_outcomes(passed=sum(len(TEST.findall(block)) for block in tests.values()))


@pytest.mark.parametrize("block", blocks("yaml"))
def test_a_scenario_passes(block: str) -> None:
    simloop.run(simloop.parse_scenario(block)).check()


def test_the_line_of_a_mistake_is_the_one_that_the_reader_prints() -> None:
    page = TEXTS["docs/scenarios.md"]
    first = blocks("yaml", page)[0]
    with pytest.raises(simloop.ScenarioError) as raised:
        simloop.parse_scenario(first.replace("think:", "thinc:"), "my-first.simloop.yaml")
    assert f"```\n{raised.value}\n```" in page


def test_one_command_installs_and_runs_and_one_installs_and_tests() -> None:
    install, run, tests = [line for line in commands(README) if not line.startswith("simloop ")]
    assert install == "pip install .", "nothing is published, so it is installed from a clone"
    assert run.startswith("python3 -m venv .venv && ")
    assert run.endswith(".venv/bin/simloop run quickstart")
    assert tests.startswith("python3 -m venv .venv-test && ")
    assert tests.endswith(".venv-test/bin/python -m pytest -q")


def test_the_readme_begins_with_an_unchanged_agent_and_the_report_of_its_failing_test() -> None:
    agent = README.index(f"```python {FAILING_TEST}")
    assert README.index("pip install .") < agent < README.index("failure: generated")
    assert README[: README.index("failure: end")].count("\n## ") == 1
    assert README[:agent].count("\n") < 25
    assert len(README.splitlines()) <= 150


def test_the_outcomes_of_the_table_are_all_outcomes() -> None:
    lines = TEXTS["docs/python.md"].splitlines()
    (row,) = [line for line in lines if line.startswith("| `result.outcome` |")]
    assert re.findall(r"`([a-z-]+)`", row.partition("|")[2].partition("|")[2]) == [
        str(outcome) for outcome in simloop.Outcome
    ]


@pytest.mark.parametrize("page", TEXTS)
def test_each_link_to_a_file_leads_somewhere(page: str) -> None:
    prose = re.sub(r"^```.*?^```$", "", TEXTS[page], flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", prose):
        name, _, anchor = target.partition("#")
        path = (TOP / page).parent / name if name else TOP / page
        assert path.is_file(), target
        if anchor:
            assert anchor in anchors(path.read_text("utf-8")), target


def anchors(text: str) -> list[str]:
    """The anchors of the headings of a page."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]


@pytest.mark.parametrize("page", TEXTS)
def test_each_command_and_option_of_a_page_exists(page: str) -> None:
    used = [line.split() for line in commands(TEXTS[page]) if line.startswith("simloop ")]
    for _, name, *rest in used:
        command = main.get_command(click.Context(main), name) or main
        if isinstance(command, click.Group) and command is not main and rest:
            command = command.get_command(click.Context(command), rest.pop(0)) or command
        assert command is not main or name in ("--help", "COMMAND"), name
        known = {flag for parameter in command.params for flag in parameter.opts}
        flags = {word.partition("=")[0] for word in rest if word.startswith("-")}
        assert flags <= known | {"--help"}, " ".join((name, *rest))
