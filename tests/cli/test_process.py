"""The import of a verb's module, each time in a Python of its own."""

import subprocess
import sys

import pytest


def printed(script: str) -> list[str]:
    """Run a script that begins with `load` imported; return the words that it prints."""
    begin = "import gc, os, sys\nfrom simloop.cli.process import load\n"
    command = [sys.executable, "-c", begin + script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.slow
def test_the_models_are_built_without_a_search_for_plugins_of_pydantic() -> None:
    script = (
        "load('simloop.cli.run')\n"
        "from pydantic.plugin import _loader\n"
        "print(_loader._plugins, 'PYDANTIC_DISABLE_PLUGINS' in os.environ)\n"
    )
    assert printed(script) == ["None", "False"]


@pytest.mark.slow
def test_a_model_of_the_users_own_has_its_plugins() -> None:
    script = (
        "load('simloop.cli.run')\n"
        "import pydantic\n"
        "from pydantic.plugin import _loader\n"
        "class Own(pydantic.BaseModel): pass\n"
        "print(_loader._plugins is not None)\n"
    )
    assert printed(script) == ["True"]


@pytest.mark.slow
def test_what_the_user_says_about_plugins_stays() -> None:
    script = (
        "os.environ['PYDANTIC_DISABLE_PLUGINS'] = 'one'\n"
        "load('simloop.cli.run')\n"
        "print(os.environ['PYDANTIC_DISABLE_PLUGINS'])\n"
    )
    assert printed(script) == ["one"]


@pytest.mark.slow
def test_no_collection_runs_during_the_import_and_none_looks_at_the_modules_again() -> None:
    script = (
        "before = [each['collections'] for each in gc.get_stats()]\n"
        "load('simloop.cli.run')\n"
        "print(before == [each['collections'] for each in gc.get_stats()])\n"
        "print(gc.isenabled(), gc.get_freeze_count() > 50_000)\n"
    )
    assert printed(script) == ["True", "True", "True"]


def test_an_import_that_fails_leaves_the_collector_as_it_was() -> None:
    script = (
        "gc.disable()\n"
        "try: load('simloop.cli.nothing')\n"
        "except ImportError: print(gc.isenabled(), 'PYDANTIC_DISABLE_PLUGINS' in os.environ)\n"
    )
    assert printed(script) == ["False", "False"]
