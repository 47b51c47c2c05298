"""Simulations in several threads: each draws the numbers of its own seed, or is an error."""
# ruff: noqa: PLW0108 - a lambda looks the name up when it is asked

import asyncio
import concurrent.futures
import importlib
import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simloop import ScenarioError, simulate
from simloop.virtual.border.answers import Memory


def take_real_time(sleep: Callable[[float], None] = time.sleep) -> None:
    sleep(0.0001)  # held, so it stays real


def draws_of(seed: int, draw: Callable[[], float]) -> list[float]:
    async def main() -> list[float]:
        numbers = []
        for _ in range(20):
            numbers.append(draw())
            await asyncio.sleep(1)
            take_real_time()  # another thread may go on
        return numbers

    return simulate(main(), seed=seed)


def in_threads(draw: Callable[[], float]) -> list[list[float] | ScenarioError]:
    barrier = threading.Barrier(4)

    def run(seed: int) -> list[float] | ScenarioError:
        barrier.wait()
        try:
            return draws_of(seed, draw)
        except ScenarioError as error:
            return error

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(run, range(4)))


@pytest.mark.parametrize(
    "draw", [lambda: random.random(), lambda: random.gauss(0, 1)], ids=["random", "gauss"]
)
def test_each_of_several_threads_draws_the_numbers_of_its_own_seed(
    draw: Callable[[], float],
) -> None:
    alone = [draws_of(seed, draw) for seed in range(4)]
    assert in_threads(draw) == alone


DRAWING_MODULE = """
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
    (tmp_path / "drawing_module.py").write_text(DRAWING_MODULE)
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


SEEDS = st.integers(0, 2**64)
DRAWS = st.lists(
    st.sampled_from([lambda g: g.random(), lambda g: g.gauss(0, 1), lambda g: g.getrandbits(7)]),
    max_size=5,
)
# A module global would be exchanged for a stand-in.
HELD = (random.random, random.gauss)


def drawn_from(generator: random.Random, draws: list[Callable[[random.Random], float]]) -> None:
    for draw in draws:
        draw(generator)


@given(SEEDS, DRAWS, SEEDS, DRAWS)
def test_a_state_that_is_written_is_the_state_that_was_read(
    seed: int,
    draws: list[Callable[[random.Random], float]],
    other_seed: int,
    other_draws: list[Callable[[random.Random], float]],
) -> None:
    one, other = random.Random(seed), random.Random(other_seed)
    drawn_from(one, draws)
    drawn_from(other, other_draws)
    state, wanted = Memory(one).read(), one.getstate()
    Memory(other).write(state)
    assert other.getstate() == wanted
    assert one.getstate() == wanted
    assert Memory(other).read() == state


def test_a_simulation_gives_the_random_state_back_with_the_half_of_a_pair_that_gauss_keeps() -> (
    None
):
    async def draws() -> tuple[float, float]:
        return HELD[1](0, 1), HELD[0]()

    random.seed(5)
    random.gauss(0, 1)
    before = random.getstate()
    simulate(draws(), seed=1)
    assert random.getstate() == before


def test_a_held_generator_draws_by_the_seed_whatever_the_simulation_before_had() -> None:
    async def draws() -> list[float]:
        return [HELD[0](), HELD[1](0, 1)]

    found = {seed: simulate(draws(), seed=seed) for seed in (1, 2)}
    assert found[1] != found[2]
    for seed in (1, 1, 2, 2, 1):
        assert simulate(draws(), seed=seed) == found[seed]
