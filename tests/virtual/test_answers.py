"""Every clock and every source of randomness answers from virtual time and the seed."""
# ruff: noqa: DTZ001, DTZ002, DTZ003, DTZ005, DTZ006, DTZ011, DTZ012 - what people write is what is tested
# ruff: noqa: PLW0108 - a lambda looks the name up when it is asked

import asyncio
import datetime as dt
import logging
import os
import random
import secrets
import ssl
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import date, datetime
from time import monotonic, perf_counter_ns
from typing import TypeVar

import pytest
from incases import in_cases

from simloop import simulate
from simloop.virtual.clock.instants import EPOCH_NS

T = TypeVar("T")
EPOCH_S = 1_767_225_600
FIELDS = (2026, 1, 1, 0, 1, 30, 3, 1, 0)
NOW = "Thu Jan  1 00:01:30 2026"


@pytest.fixture(params=["UTC", "America/Los_Angeles"], autouse=True)
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
