"""Every clock and every source of randomness answers from virtual time and the seed."""
# ruff: noqa: DTZ001, DTZ002, DTZ003, DTZ005, DTZ006, DTZ011, DTZ012 - what people write is what is tested
# ruff: noqa: PLW0108 - a lambda looks the name up when it is asked

import asyncio
import concurrent.futures
import datetime as dt
import importlib
import logging
import os
import random
import secrets
import ssl
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path
from time import monotonic, perf_counter_ns
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from incases import in_cases

from simloop import ScenarioError, simulate
from simloop.virtual.border.answers import SharedDraws
from simloop.virtual.clock.instants import EPOCH_NS

T = TypeVar("T")
EPOCH_S = 1_767_225_600
FIELDS = (2026, 1, 1, 0, 1, 30, 3, 1, 0)
NOW = "Thu Jan  1 00:01:30 2026"


@pytest.fixture(params=["UTC", "America/Los_Angeles"])
def time_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


def after_a_while(ask: Callable[[], T], seed: int = 0) -> T:
    async def main() -> T:
        await asyncio.sleep(90.5)
        return ask()

    return simulate(main(), seed=seed)


def logged() -> str:
    record = logging.LogRecord("a", 20, "a.py", 1, "Hello.", None, None)
    return logging.Formatter("%(asctime)s").format(record)


MOMENT = dt.datetime(2026, 1, 1, 0, 1, 30, 500_000)
ROME = dt.timezone(dt.timedelta(hours=1))


class Stamped(dt.datetime):
    pass


CLOCKS: dict[str, tuple[Callable[[], object], object]] = {
    "time": (lambda: time.time(), 1767225690.5),
    "time_ns": (lambda: time.time_ns(), EPOCH_NS + 90_500_000_000),
    "monotonic": (lambda: time.monotonic(), 90.5),
    "monotonic_ns": (lambda: time.monotonic_ns(), 90_500_000_000),
    "perf_counter": (lambda: time.perf_counter(), 90.5),
    "perf_counter_ns": (lambda: time.perf_counter_ns(), 90_500_000_000),
    "imported monotonic": (lambda: monotonic(), 90.5),
    "imported perf_counter_ns": (lambda: perf_counter_ns(), 90_500_000_000),
    "now": (lambda: dt.datetime.now(), MOMENT),
    "imported now": (lambda: datetime.now(), MOMENT),
    "utcnow": (lambda: datetime.utcnow(), MOMENT),
    "today": (lambda: datetime.today(), MOMENT),
    "date": (lambda: date.today(), MOMENT.date()),
    "aware": (lambda: datetime.now(dt.UTC), MOMENT.replace(tzinfo=dt.UTC)),
    "zone": (lambda: datetime.now(tz=ROME).isoformat(), "2026-01-01T01:01:30.500000+01:00"),
    "subclass": (lambda: repr(Stamped.today()), "Stamped(2026, 1, 1, 0, 1, 30, 500000)"),
    "localtime": (lambda: tuple(time.localtime()), FIELDS),
    "localtime of": (lambda: tuple(time.localtime(EPOCH_S + 90)), FIELDS),
    "gmtime": (lambda: tuple(time.gmtime()), FIELDS),
    "ctime": (lambda: time.ctime(), NOW),
    "ctime of": (lambda: time.ctime(EPOCH_S + 90), NOW),
    "asctime": (lambda: time.asctime(), NOW),
    "asctime of": (lambda: time.asctime(FIELDS), NOW),
    "strftime": (lambda: time.strftime("%Y-%m-%d %H:%M:%S"), "2026-01-01 00:01:30"),
    "strftime of": (lambda: time.strftime("%H", (2000, 1, 1, 5, 0, 0, 0, 0, 0)), "05"),
    "mktime": (lambda: time.mktime(FIELDS), EPOCH_S + 90.0),
    "clock_gettime": (lambda: time.clock_gettime(time.CLOCK_REALTIME), EPOCH_S + 90.5),
    "clock_gettime_ns": (lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC), 90_500_000_000),
    "process_time": (lambda: time.process_time(), 90.5),
    "process_time_ns": (lambda: time.process_time_ns(), 90_500_000_000),
    "thread_time": (lambda: time.thread_time(), 90.5),
    "thread_time_ns": (lambda: time.thread_time_ns(), 90_500_000_000),
    "fromtimestamp": (lambda: dt.datetime.fromtimestamp(0), dt.datetime(1970, 1, 1)),
    "fromtimestamp in a zone": (
        lambda: dt.datetime.fromtimestamp(0, tz=dt.UTC),
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    ),
    "date fromtimestamp": (lambda: dt.date.fromtimestamp(0), dt.date(1970, 1, 1)),
    "timestamp": (lambda: dt.datetime.now().timestamp(), EPOCH_S + 90.5),
    "astimezone": (lambda: dt.datetime(2026, 1, 1).astimezone().isoformat()[-6:], "+00:00"),
    "the time in a log": (logged, "2026-01-01 00:01:30,500"),
}


@pytest.mark.usefixtures("time_zone")
@in_cases(CLOCKS)
@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
def test_a_clock_shows_virtual_time_in_utc_whatever_the_time_zone(name: str) -> None:
    ask, answer = CLOCKS[name]
    before = time.localtime(0)
    assert after_a_while(ask) == answer
    assert time.localtime(0) == before


@pytest.mark.parametrize("name", ["time", "imported monotonic", "imported now", "date"])
def test_a_clock_is_real_before_a_simulation_and_after_it(name: str) -> None:
    ask, answer = CLOCKS[name]
    assert ask() != answer
    assert after_a_while(ask) == answer
    assert ask() != answer


DRAWS: dict[str, Callable[[], object]] = {
    "getrandom": lambda: os.getrandom(8),
    "RAND_bytes": lambda: ssl.RAND_bytes(8),
    "choice": lambda: random.choices(range(1000), k=5),
    "random": lambda: random.random(),
    "generator without seed": lambda: random.Random().random(),
    "seed from nowhere": lambda: (random.seed(), random.random()),
    "system": lambda: random.SystemRandom().random(),
    "urandom": lambda: os.urandom(8),
    "secrets": lambda: secrets.token_hex(8),
    "uuid4": lambda: uuid.uuid4(),
    "uuid1": lambda: uuid.uuid1(),
}


@pytest.mark.parametrize("name", DRAWS)
def test_randomness_answers_from_the_seed(name: str) -> None:
    draw = DRAWS[name]
    first, second = both = after_a_while(lambda: (draw(), draw()))
    assert both == after_a_while(lambda: (draw(), draw()))
    assert first != second
    assert first != after_a_while(draw, seed=2)
    assert draw() != first


def test_a_negative_number_of_random_bytes_is_refused_as_python_does() -> None:
    with pytest.raises(ValueError, match="negative argument"):
        after_a_while(lambda: os.urandom(-1))


def test_a_blocking_sleep_that_rounds_to_nothing_moves_time() -> None:
    async def main() -> float:
        while time.monotonic() < 0.1 + 0.2:
            time.sleep(0.1 + 0.2 - time.monotonic())  # noqa: ASYNC251 - what blocks is tested
        return time.monotonic()

    assert simulate(main()) == 0.300000001


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
DRAW_LISTS = st.lists(
    st.sampled_from([lambda g: g.random(), lambda g: g.gauss(0, 1), lambda g: g.getrandbits(7)]),
    max_size=5,
)
# A module global would be exchanged for a stand-in.
HELD = (random.random, random.gauss)


def drawn_from(generator: random.Random, draws: list[Callable[[random.Random], float]]) -> None:
    for draw in draws:
        draw(generator)


@given(SEEDS, DRAW_LISTS, SEEDS, DRAW_LISTS)
def test_a_state_that_is_written_is_the_state_that_was_read(
    seed: int,
    draws: list[Callable[[random.Random], float]],
    other_seed: int,
    other_draws: list[Callable[[random.Random], float]],
) -> None:
    one, other = random.Random(seed), random.Random(other_seed)
    drawn_from(one, draws)
    drawn_from(other, other_draws)
    state, wanted = SharedDraws(one).read(), one.getstate()
    SharedDraws(other).write(state)
    assert other.getstate() == wanted
    assert one.getstate() == wanted
    assert SharedDraws(other).read() == state


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
