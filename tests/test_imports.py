import subprocess
import sys
from functools import cache

import pytest

import simloop

HEAVY = ("pytest", "hypothesis", "textual", "httpx", "pydantic", "asyncio", "yaml", "msgspec")


@cache
def modules_after(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.splitlines())


@pytest.mark.parametrize("name", HEAVY)
def test_importing_simloop_does_not_import(name: str) -> None:
    assert name not in modules_after("import simloop")


def test_the_command_imports_nothing_before_it_can_handle_ctrl_c() -> None:
    imported = modules_after("import simloop.__main__") - modules_after("import os, _signal")
    assert imported == {"simloop", "simloop.__main__"}


@pytest.mark.parametrize("name", HEAVY)
def test_importing_the_command_line_does_not_import(name: str) -> None:
    assert name not in modules_after("import simloop.cli")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pytest", "hypothesis", "textual", "httpx", "rich"])
def test_running_a_scenario_does_not_import(name: str) -> None:
    run = (
        "import simloop\nsimloop.run(simloop.Scenario(prompt='x', model=[simloop.Reply(say='y')]))"
    )
    assert name not in modules_after(run)


@pytest.mark.slow
def test_every_public_name_can_be_imported() -> None:
    statement = "import simloop\nfor name in simloop.__all__: getattr(simloop, name)"
    assert "simloop.runs.run" in modules_after(statement)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        getattr(simloop, "runn")  # noqa: B009 - a type checker would refuse the plain form


def test_the_version_is_cheap_to_ask_for() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "simloop", "--version"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert "click" in imported
    assert not imported & {*HEAVY, "json", "shutil"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "simloop.cli.compare",
        "simloop.prove.explore",
        "simloop.runs.isolation",
        "simloop.runs.program",
        "simloop.scenario.writing",
    ],
)
def test_the_verb_run_does_not_import(name: str) -> None:
    assert name not in modules_after("import simloop.cli.run")


@pytest.mark.slow
def test_the_verb_run_reads_no_source_and_builds_no_model_twice() -> None:
    after = (
        "import simloop.cli.run, linecache\n"
        "from simloop.scenario.expect import Expect\n"
        "from simloop.scenario.replies import Reply\n"
        "from simloop.scenario.schema import Scenario\n"
        "assert not linecache.cache\n"
        "assert Scenario.__pydantic_complete__  # it has the others in it\n"
        "assert not Reply.__pydantic_complete__ and not Expect.__pydantic_complete__\n"
        "fields = [f for m in (Expect, Reply, Scenario) for f in m.model_fields.values()]\n"
        "assert not [f for f in fields if f.default_factory is list]  # see `no_items`"
    )
    assert "simloop.cli.run" in modules_after(after)
