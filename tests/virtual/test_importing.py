"""What a module draws as it is imported changes nothing of the run that imports it."""

import importlib
import os
import random
import sys
import uuid
from pathlib import Path

import pytest

from simloop import simulate

DRAWS = """
import os, random, threading, uuid
DRAWN = (random.random(), random.Random().random(), os.urandom(4), uuid.uuid4(), uuid.uuid1(node=1))
"""


def numbers() -> tuple[object, ...]:
    return random.random(), random.Random().random(), os.urandom(4), uuid.uuid4()


async def imports_and_draws() -> tuple[object, ...]:
    module = importlib.import_module("drawing_module")
    return *numbers(), type(module.DRAWN)


@pytest.fixture
def drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "drawing_module", raising=False)
    (tmp_path / "drawing_module.py").write_text(DRAWS)
    return tmp_path


@pytest.mark.usefixtures("drawing")
def test_the_first_run_that_imports_a_module_draws_the_numbers_of_every_run() -> None:
    assert simulate(imports_and_draws()) == simulate(imports_and_draws())
    del sys.modules["drawing_module"]


@pytest.mark.usefixtures("drawing")
def test_a_module_that_is_imported_draws_the_numbers_of_the_seed() -> None:
    async def drawn() -> object:
        return importlib.import_module("drawing_module").DRAWN

    found = []
    for seed in (1, 1, 2):
        found.append(simulate(drawn(), seed=seed))
        del sys.modules["drawing_module"]
    assert found[0] == found[1] != found[2]


def test_a_run_that_a_module_starts_as_it_is_imported_is_a_run_like_any_other(
    drawing: Path,
) -> None:
    source = """
import random
from simloop import simulate
async def main(): return random.random()
DRAWN = simulate(main())
"""
    (drawing / "drawing_module.py").write_text(source)

    async def main() -> float:
        return random.random()

    assert simulate(main()) == importlib.import_module("drawing_module").DRAWN
    del sys.modules["drawing_module"]
