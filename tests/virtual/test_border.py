"""The border: a simulation gets its own clock, dates, randomness and threads, and no other."""
# ruff: noqa: DTZ001 - what people write is what is tested
# ruff: noqa: PLW0108 - a lambda looks the name up when it is asked

import asyncio
import contextlib
import copy
import datetime as dt
import importlib
import os
import pickle
import random
import sys
import tempfile
import threading
import time
import types
import uuid
from collections.abc import Callable
from datetime import date, datetime
from time import sleep
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
import pydantic
import pytest

from simloop.errors import ScenarioError
from simloop.virtual.border import answers, exchange, refusals
from simloop.virtual.border import seal as sealed_module
from simloop.virtual.border.seal import sealed
from simloop.virtual.clock.instants import EPOCH_NS
from simloop.virtual.clock.loop import VirtualLoop
from simloop.virtual.seeds import Seeds
from simloop.virtual.simulate import run_virtual, simulate

MADE = datetime(2026, 1, 1)
T = TypeVar("T")


def running() -> VirtualLoop:
    return cast("VirtualLoop", asyncio.get_running_loop())


def in_seal(ask: Callable[[], T], seed: int = 1) -> T:
    """What `ask` answers after 90.5 seconds of a sealed simulation."""

    async def main() -> T:
        await asyncio.sleep(90.5)
        return ask()

    return simulate(main(), seed=seed)


def originals() -> list[object]:
    functions = [time.time, sleep, os.urandom, uuid.uuid1, random.seed, random.random]
    methods = [datetime.__dict__["now"], date.__dict__["today"], threading.Thread.start]
    return [*functions, *methods, random.Random.seed, random.getstate]


def test_the_originals_are_back_after_the_seal_even_if_it_ended_with_an_error() -> None:
    random.random()  # away from where the seal of an earlier test may have left it
    before, state = originals(), random.getstate()
    with contextlib.suppress(KeyError), sealed(VirtualLoop(), Seeds(1)):
        inside = originals()
        raise KeyError
    assert all(a is not b for a, b in zip(before, inside, strict=True))
    assert all(a is b for a, b in zip(before, originals(), strict=True))
    assert random.getstate() == state


def test_a_blocking_sleep_moves_virtual_time() -> None:
    async def main() -> tuple[float, float]:
        await asyncio.to_thread(time.sleep, 3600)
        sleep(0.5)  # noqa: ASYNC251 - what blocks is tested
        with pytest.raises(ValueError, match="non-negative"):
            await asyncio.to_thread(time.sleep, -1)
        return running().time(), time.monotonic()

    assert simulate(main()) == (3600.5, 3600.5)


def test_a_generator_with_its_own_seed_is_left_alone() -> None:
    assert in_seal(lambda: random.Random(5).random()) == random.Random(5).random()
    assert in_seal(lambda: (random.seed(5), random.random())) == (None, random.Random(5).random())


def test_an_identifier_made_from_the_clock_tells_virtual_time() -> None:
    made = in_seal(lambda: uuid.uuid1())
    first, second = in_seal(lambda: (uuid.uuid1(1, 2), uuid.uuid1(1, 2)))
    assert second.time == first.time + 1
    assert (made.version, made.variant) == (1, uuid.RFC_4122)
    assert (made.time - 0x01B21DD213814000) * 100 == EPOCH_NS + 90_500_000_000


@pytest.mark.parametrize("version", [6, 7])
def test_the_newest_uuid_of_an_earlier_run_decides_nothing(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module draws less for an identifier of the same millisecond, or of an earlier one."""
    newest = f"_last_timestamp_v{version}"
    monkeypatch.setattr(uuid, newest, 10**15, raising=False)
    assert in_seal(lambda: getattr(uuid, newest)) is None


def test_the_names_of_temporary_files_are_those_of_the_run_alone() -> None:
    async def main() -> list[str]:
        names = []
        for _ in range(2):
            with tempfile.TemporaryDirectory() as name:
                names.append(name)
        return names

    first, second = simulate(main()), simulate(main())
    with tempfile.TemporaryDirectory() as outside:
        assert first == second
        assert outside not in first


def test_dates_made_before_inside_and_after_are_of_one_type() -> None:
    inside, made, kind = in_seal(lambda: (datetime.now(dt.UTC), datetime(1, 1, 1), datetime))
    assert kind is datetime is type(inside) is type(made) is type(MADE)
    assert in_seal(lambda: (isinstance(MADE, datetime), type(MADE) is datetime)) == (True, True)
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


def test_an_escape_is_the_cause_of_what_failed_after_it() -> None:
    async def main() -> None:
        try:
            asyncio.get_running_loop().stop()
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


class Hostile(types.ModuleType):
    """A module that raises whatever is asked of it."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"asked for {name}")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")


class Pretender:
    """As cffi's `Lib`: `isinstance` says ModuleType, but it has no weak references."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return types.ModuleType

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        raise RuntimeError("asked for __dict__")


class OddValue:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")


def test_the_border_is_entered_whole_whatever_stands_among_the_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holder: Any = Hostile("holder")
    namespace = exchange._namespace_of(holder)
    namespace |= {"clock": time.time, "odd": OddValue(), 5: time.time, "__spec__": OddValue()}
    present: dict[object, object] = {
        "holder": holder,
        "pretender": Pretender(),
        "value": OddValue(),
        5: types.ModuleType("five"),
        "bare": types.ModuleType.__new__(types.ModuleType),
    }
    for name, module in present.items():
        monkeypatch.setitem(cast("dict[object, object]", sys.modules), name, module)
    assert in_seal(lambda: (namespace["clock"](), time.time())) == (1767225690.5, 1767225690.5)
    assert namespace["clock"] is time.time
    assert time.time() > 1767225690.5


STEPS = {
    "the audit hook": (refusals, "watch_reaches"),
    "the scan": (sealed_module._Border, "_scan"),
    "the seed": (answers.SharedDraws, "begin"),
    "the method cache": (exchange.NameExchange, "_forget_cached_methods"),
    "the exchange": (exchange._Holders, "exchange"),
    "the first holder": (exchange, "_replace"),
}


def each_holder_looks_at_its_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    simulate(asyncio.sleep(0))  # it scans: a name that is replaced before is none of the border's
    monkeypatch.setattr(time, "ctime", float)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("after", [False, True])
def test_a_ctrl_c_while_entering_surfaces_and_leaves_everything_as_it_was(
    step: str, after: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, state = originals(), random.getstate()
    owner, name = STEPS[step]
    real = getattr(owner, name)
    calls = 0

    def fails_once(*args: Any, **back: Any) -> Any:
        nonlocal calls
        if back:  # everything is put back
            return real(*args, **back)
        calls += 1
        done = real(*args) if after or calls > 1 else None
        if calls == 1:
            raise KeyboardInterrupt
        return done

    ran = False

    async def main() -> None:
        nonlocal ran
        ran = True

    fresh = copy.copy(sealed_module._border)
    fresh.modules = []  # it has not scanned
    monkeypatch.setattr(sealed_module, "_border", fresh)
    if step == "the first holder":
        each_holder_looks_at_its_own_names(monkeypatch)
    monkeypatch.setattr(owner, name, fails_once)
    with pytest.raises(KeyboardInterrupt):
        simulate(main())
    assert calls >= 1
    assert not ran
    assert all(a is b for a, b in zip(before, originals(), strict=True))
    assert random.getstate() == state
    assert in_seal(lambda: time.time()) == 1767225690.5
    assert all(a is b for a, b in zip(before, originals(), strict=True))


@pytest.mark.parametrize("step", ["the scan", "the method cache"])
def test_a_fault_while_leaving_surfaces_and_still_puts_everything_back(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, state = originals(), random.getstate()
    owner, name = STEPS[step]
    real = getattr(owner, name)

    def fails_once(*args: Any) -> Any:
        monkeypatch.undo()
        raise KeyboardInterrupt

    async def main() -> None:
        monkeypatch.setattr(owner, name, fails_once)
        monkeypatch.setitem(sys.modules, "one_more", types.ModuleType("one_more"))

    with pytest.raises(KeyboardInterrupt):
        simulate(main())
    assert getattr(owner, name) is real
    assert all(a is b for a, b in zip(before, originals(), strict=True))
    assert random.getstate() == state


@pytest.mark.parametrize("value", [None, OddValue()], ids=["deleted", "not comparable"])
def test_a_name_that_a_program_deletes_or_binds_anew_stays_so_and_the_others_are_exchanged(
    value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = types.ModuleType("holder")
    namespace = vars(holder)
    namespace |= {"time": time.time, "monotonic": time.monotonic}
    monkeypatch.setitem(sys.modules, "holder", holder)
    in_seal(lambda: namespace.pop("time") if value is None else namespace.update(time=value))
    assert in_seal(lambda: namespace["monotonic"]()) == 90.5
    assert namespace["monotonic"] is time.monotonic
    assert namespace.get("time") is value


def test_a_module_that_a_program_takes_away_gets_its_originals_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    holder: Any = types.ModuleType("holder")
    holder.clock = time.time
    monkeypatch.setitem(sys.modules, "holder", holder)
    assert in_seal(lambda: (holder.clock(), sys.modules.pop("holder"))[0]) == 1767225690.5
    assert holder.clock is time.time


def test_a_kept_border_leaves_the_stand_ins_between_simulations_and_the_originals_after() -> None:
    before, state = originals(), random.getstate()
    with sealed_module.kept_border():
        assert all(a is b for a, b in zip(before, originals(), strict=True))
        for _ in range(3):
            first = in_seal(lambda: (time.time(), random.random()))
            between = originals()
            assert all(a is not b for a, b in zip(before, between, strict=True))
            assert time.time() > 1767225690.5
            assert in_seal(lambda: (time.time(), random.random())) == first
    assert all(a is b for a, b in zip(before, originals(), strict=True))
    assert random.getstate() == state


def test_a_kept_border_lets_code_between_simulations_go_on_with_its_own_random_numbers() -> None:
    random.seed(5)
    expected = [random.random() for _ in range(3)]
    random.seed(5)
    drawn = []
    with sealed_module.kept_border():
        for _ in range(2):
            in_seal(lambda: random.random())
            drawn.append(random.random())
    drawn.append(random.random())
    assert drawn == expected


def test_a_kept_border_covers_what_is_imported_between_and_inside_its_simulations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = time.time

    def holder(name: str) -> Any:
        module: Any = types.ModuleType(name)
        module.clock = time.time
        monkeypatch.setitem(sys.modules, name, module)
        return module

    with sealed_module.kept_border():
        inside = in_seal(lambda: holder("inside"))
        between = holder("between")
        gone = in_seal(lambda: holder("gone"))
        del sys.modules["gone"]
        for module in (inside, between):
            assert in_seal(lambda module=module: module.clock()) == 1767225690.5  # type: ignore[misc]
    assert inside.clock is between.clock is gone.clock is real


def test_borders_may_be_kept_one_inside_another_and_inside_a_simulation() -> None:
    real = time.time

    def keep() -> bool:
        with sealed_module.kept_border():
            return time.time is not real

    with sealed_module.kept_border():
        with sealed_module.kept_border():
            assert in_seal(keep)
        assert time.time is not real
    assert time.time is real


def test_a_kept_border_is_put_back_after_a_fault_while_entering_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, state = originals(), random.getstate()

    def fails(_: object) -> None:
        raise KeyboardInterrupt

    with sealed_module.kept_border():
        in_seal(lambda: None)
        with monkeypatch.context() as patch:
            patch.setattr(exchange._Holders, "are_exchanged", fails)
            with pytest.raises(KeyboardInterrupt):
                simulate(asyncio.sleep(0))
        assert all(a is b for a, b in zip(before, originals(), strict=True))
        assert in_seal(lambda: time.time()) == 1767225690.5
    assert all(a is b for a, b in zip(before, originals(), strict=True))
    assert random.getstate() == state


def test_a_clock_that_a_test_has_replaced_stays_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = float
    monkeypatch.setattr(time, "time", mine)
    assert in_seal(lambda: (time.time(), time.monotonic())) == (0.0, 90.5)
    assert time.time is mine


def test_a_module_that_takes_the_place_of_another_is_sealed_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for _ in range(2):  # the number of modules stays the same
        holder = types.ModuleType("holder")
        holder.__dict__["clock"] = time.time
        monkeypatch.setitem(sys.modules, "holder", holder)
        assert in_seal(holder.__dict__["clock"]) != 1767225690.5
        assert in_seal(lambda holder=holder: holder.clock()) == 1767225690.5  # type: ignore[misc]
