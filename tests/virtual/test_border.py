"""The border: a simulation gets its own clock, dates, randomness and threads, and no other."""
# ruff: noqa: DTZ001, DTZ002, DTZ003, DTZ005, DTZ011 - what people write is what is tested
# ruff: noqa: PLW0108 - a lambda looks the name up when it is asked

import asyncio
import contextlib
import copy
import datetime as dt
import importlib
import os
import pickle
import random
import secrets
import signal
import sys
import threading
import time
import types
import uuid
from collections.abc import Awaitable, Callable
from datetime import date, datetime
from time import monotonic, perf_counter_ns, sleep
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
import pydantic
import pytest

from simloop.errors import ScenarioError
from simloop.virtual.border.exchange import sealed
from simloop.virtual.clock.instants import EPOCH_NS
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.seeds import Seeds
from simloop.virtual.simulate import run_virtual, simulate

SECOND = 1_000_000_000
T = TypeVar("T")


def running() -> VirtualLoop:
    return cast("VirtualLoop", asyncio.get_running_loop())


def in_seal(ask: Callable[[], T], seed: int = 1) -> T:
    """What `ask` answers after 90.5 seconds of a sealed simulation."""

    async def main() -> T:
        await asyncio.sleep(90.5)
        return ask()

    loop = VirtualLoop()
    with sealed(loop, Seeds(seed)):
        return loop.run(main())


NOW = dt.datetime(2026, 1, 1, 0, 1, 30, 500_000)


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
    "now": (lambda: dt.datetime.now(), NOW),
    "imported now": (lambda: datetime.now(), NOW),
    "utcnow": (lambda: datetime.utcnow(), NOW),
    "today": (lambda: datetime.today(), NOW),
    "date": (lambda: date.today(), NOW.date()),
    "aware": (lambda: datetime.now(dt.UTC), NOW.replace(tzinfo=dt.UTC)),
    "zone": (lambda: datetime.now(tz=ROME).isoformat(), "2026-01-01T01:01:30.500000+01:00"),
    "subclass": (lambda: repr(Stamped.today()), "Stamped(2026, 1, 1, 0, 1, 30, 500000)"),
}


@pytest.mark.parametrize("name", CLOCKS)
@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")
def test_clocks_and_dates_answer_from_virtual_time_inside_and_are_real_before_and_after(
    name: str,
) -> None:
    ask, answer = CLOCKS[name]
    assert ask() != answer
    assert in_seal(ask) == answer
    assert ask() != answer


def test_the_originals_are_back_after_the_seal_even_if_it_ended_with_an_error() -> None:
    def originals() -> list[object]:
        functions = [time.time, sleep, os.urandom, uuid.uuid1, random.seed, random._urandom]  # type: ignore[attr-defined]
        methods = [datetime.__dict__["now"], date.__dict__["today"], threading.Thread.start]
        return [*functions, *methods, random.Random.seed, random.getstate()]

    random.random()  # away from where the seal of an earlier test may have left it
    before = originals()
    loop = VirtualLoop()
    with contextlib.suppress(KeyError), sealed(loop, Seeds(1)):
        inside = originals()
        raise KeyError
    assert all(a is not b for a, b in zip(before, inside, strict=True))
    after = originals()
    assert all(a is b for a, b in zip(before[:-1], after[:-1], strict=True))
    assert before[-1] == after[-1]


def test_a_blocking_sleep_moves_virtual_time() -> None:
    async def main() -> tuple[float, float]:
        await asyncio.to_thread(time.sleep, 3600)
        sleep(0.5)  # noqa: ASYNC251 - what blocks is tested
        with pytest.raises(ValueError, match="non-negative"):
            await asyncio.to_thread(time.sleep, -1)
        return running().time(), time.monotonic()

    loop = VirtualLoop()
    with sealed(loop, Seeds(1)):
        assert loop.run(main()) == (3600.5, 3600.5)


DRAWS: dict[str, Callable[[], object]] = {
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

    def twice() -> tuple[object, object]:
        return draw(), draw()

    first, second = in_seal(twice)
    assert (first, second) == in_seal(twice)
    assert first != second
    assert first != in_seal(draw, seed=2)
    assert draw() != first


def test_a_generator_with_its_own_seed_is_left_alone() -> None:
    assert in_seal(lambda: random.Random(5).random()) == random.Random(5).random()
    assert in_seal(lambda: (random.seed(5), random.random())) == (None, random.Random(5).random())


def test_an_identifier_made_from_the_clock_tells_virtual_time() -> None:
    made = in_seal(lambda: uuid.uuid1())
    first, second = in_seal(lambda: (uuid.uuid1(1, 2), uuid.uuid1(1, 2)))
    assert second.time == first.time + 1
    assert (made.version, made.variant) == (1, uuid.RFC_4122)
    assert (made.time - 0x01B21DD213814000) * 100 == EPOCH_NS + 90_500_000_000


def test_dates_made_before_inside_and_after_are_of_one_type() -> None:
    inside, made, kind = in_seal(lambda: (datetime.now(dt.UTC), datetime(1, 1, 1), datetime))
    assert kind is datetime is type(inside) is type(made) is type(NOW)
    assert in_seal(lambda: (isinstance(NOW, datetime), issubclass(Stamped, dt.date))) == (
        True,
        True,
    )
    assert pickle.loads(pickle.dumps(inside)) == copy.copy(inside) == inside
    assert f"{inside:%H:%M} {inside.isoformat()}" == "00:01 2026-01-01T00:01:30.500000+00:00"


def test_a_pydantic_model_with_a_date_can_be_built_inside() -> None:
    def build() -> Any:
        return pydantic.create_model("Reply", at=(datetime, ...))(at="2026-01-01T00:00:00Z")

    assert in_seal(build).at == datetime(2026, 1, 1, tzinfo=dt.UTC)


def test_another_thread_keeps_the_originals_while_a_loop_is_sealed() -> None:
    asked, answered = threading.Event(), threading.Lock()
    answered.acquire()  # a lock from outside is waited for in real time
    seen: list[float] = []

    def look() -> None:
        asked.wait(10)
        seen.extend((time.time(), datetime.now(dt.UTC).timestamp()))
        answered.release()

    def ask() -> None:
        asked.set()
        assert answered.acquire(timeout=10)

    thread = threading.Thread(target=look)
    thread.start()
    before = time.time()
    in_seal(ask)
    thread.join()
    assert before <= min(seen) <= max(seen) <= time.time()


def test_only_the_sealed_loop_gets_the_simulation() -> None:
    async def ask() -> float:
        return time.monotonic()

    loop = VirtualLoop()
    with sealed(loop, Seeds(1)):
        assert time.monotonic() > 0
        assert asyncio.run(ask()) > 0
        assert VirtualLoop().run(ask()) > 0
        assert loop.run(ask()) == 0


def test_a_module_imported_inside_gets_the_originals_back_too(tmp_path: Any) -> None:
    (tmp_path / "imported_inside.py").write_text("from time import time\nNOW = time()\n")
    sys.path.insert(0, str(tmp_path))
    try:
        module = in_seal(lambda: importlib.import_module("imported_inside"))
    finally:
        sys.path.remove(str(tmp_path))
    assert module.NOW == 1767225690.5
    assert module.time is time.time
    assert in_seal(lambda: module.time()) == 1767225690.5


def test_the_scan_survives_what_people_put_among_the_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holder = types.ModuleType("holder")
    holder.__dict__["clock"] = time.time
    for name, module in {"nothing": None, "odd": 5, "holder": holder}.items():
        monkeypatch.setitem(cast("dict[str, object]", sys.modules), name, module)
    assert in_seal(lambda: holder.clock()) == 1767225690.5
    assert holder.clock is time.time


def test_anyio_sleeps_in_virtual_time_and_its_worker_threads_are_simulated() -> None:
    async def main() -> tuple[float, bool]:
        await anyio.sleep(60)
        with anyio.move_on_after(30):
            await anyio.sleep(3600)
        await anyio.to_thread.run_sync(time.sleep, 5)
        there = await anyio.to_thread.run_sync(threading.get_ident)
        return running().time(), there == threading.get_ident()

    assert simulate(main()) == (95.0, False)


def test_a_cancelled_scope_of_anyio_does_not_start_its_worker_thread() -> None:
    async def main() -> list[int]:
        started: list[int] = []
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.to_thread.run_sync(started.append, 1)
        return started

    assert simulate(main()) == []


def test_anyio_worker_threads_stay_real_on_other_loops() -> None:
    run_virtual(asyncio.sleep(0))

    async def main() -> bool:
        return await anyio.to_thread.run_sync(threading.get_ident) != threading.get_ident()

    assert anyio.run(main)


def test_what_a_function_in_a_thread_raises_arrives_at_the_await() -> None:
    async def main(error: BaseException) -> None:
        def fail() -> None:
            raise error

        await asyncio.to_thread(fail)

    with pytest.raises(KeyError, match="lost"):
        simulate(main(KeyError("lost")))


def test_a_call_from_another_thread_is_refused() -> None:
    def call(loop: VirtualLoop) -> None:
        with pytest.raises(ScenarioError, match="another thread"):
            loop.call_soon_threadsafe(print)

    async def main() -> None:
        running().call_soon_threadsafe(int)
        thread = threading.Thread(target=call, args=(running(),))
        thread.start()
        thread.join()

    with pytest.raises(ScenarioError, match=r"another thread .* start the thread inside"):
        run_virtual(main())


REACHES: dict[str, Callable[[], Awaitable[object]]] = {
    "loop.create_connection": lambda: asyncio.open_connection("localhost", 80),
    "loop.create_server": lambda: asyncio.start_server(print, "localhost", 80),
    "loop.subprocess_exec of 'true'": lambda: asyncio.create_subprocess_exec("true"),
    "loop.subprocess_shell of 'true'": lambda: asyncio.create_subprocess_shell("true"),
    "loop.getaddrinfo": lambda: running().getaddrinfo("localhost", 80),
    "loop.sock_recv": lambda: running().sock_recv(cast("Any", None), 1),
    "loop.add_signal_handler": lambda: soon(running().add_signal_handler, signal.SIGINT, print),
    "loop.add_reader": lambda: soon(running().add_reader, 0, print),
    "loop.stop": lambda: soon(running().stop),
}


async def soon(function: Callable[..., object], *args: object) -> None:
    function(*args)


@pytest.mark.parametrize("what", REACHES)
def test_reaching_for_the_real_world_is_an_error_with_advice_even_if_swallowed(what: str) -> None:
    async def main() -> None:
        with pytest.raises(ScenarioError) as caught:
            await REACHES[what]()
        assert running().escapes == [caught.value]

    with pytest.raises(ScenarioError, match=rf"^{what} is not available in a simulation: \w+"):
        run_virtual(main())


def test_an_escape_is_the_cause_of_what_failed_after_it() -> None:
    async def main() -> None:
        try:
            await asyncio.open_connection("localhost", 80)
        except ScenarioError:
            raise ConnectionError from None

    with pytest.raises(ScenarioError) as caught:
        run_virtual(main())
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_a_simulation_inside_a_running_loop_is_refused() -> None:
    async def main() -> None:
        run_virtual(asyncio.sleep(0))

    with pytest.raises(ScenarioError, match=r"already running .*await the coroutine instead"):
        run_virtual(main())
    with pytest.raises(ScenarioError, match="already running"):
        asyncio.run(main())
