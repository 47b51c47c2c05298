"""Iterators and held objects in a program's state; a state that cannot be known is a doubt."""

import asyncio
import collections
import csv
import enum
import hashlib
import io
import itertools
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_program_state import ROUNDS, Failed, Holder, made_by_exec, repeat

from simloop import RunawayRun, simulate
from simloop.virtual.standstill import Standstill


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Standstill, "stride", 100)


async def go_through(iterator: Iterator[Any]) -> None:
    for _ in iterator:
        await asyncio.sleep(0)


def numbers() -> Iterator[int]:
    n = 0
    while n < ROUNDS:
        n += 1
        yield n


class Countdown:
    left = ROUNDS

    def __iter__(self) -> Iterator[None]:
        return self

    def __next__(self) -> None:
        self.left -= 1
        if not self.left:
            raise StopIteration


MANY = [None] * ROUNDS


TEXT = "a" * ROUNDS


ITERATORS: dict[str, Callable[[], Iterator[Any]]] = {
    "range": lambda: iter(range(ROUNDS)),
    "list": lambda: iter(MANY),
    "reversed": lambda: reversed(MANY),
    "str": lambda: iter(TEXT),
    "bytes": lambda: iter(TEXT.encode()),
    "dict": lambda: iter(dict.fromkeys(range(ROUNDS))),
    "set": lambda: iter(set(range(ROUNDS))),
    "deque": lambda: iter(collections.deque(MANY)),
    "enumerate": lambda: enumerate(MANY),
    "zip": lambda: zip(MANY, MANY, strict=True),
    "map": lambda: map(str, MANY),
    "filter": lambda: filter(str, MANY),
    "repeat": lambda: itertools.repeat(None, ROUNDS),
    "islice": lambda: itertools.islice(itertools.cycle("ab"), ROUNDS),
    "chain": lambda: itertools.chain(MANY, MANY),
    "product": lambda: itertools.product("ab", repeat=11),
    "combinations": lambda: itertools.combinations(range(14), 5),
    "groupby": lambda: itertools.groupby("ab" * ROUNDS),
    "tee": lambda: itertools.tee(MANY)[0],
    "takewhile": lambda: itertools.takewhile(lambda n: n < ROUNDS, itertools.count()),
    "iter with a sentinel": lambda: iter(iter([*MANY, 1]).__next__, 1),
    "finditer": lambda: re.finditer("a", TEXT),
    "csv": lambda: csv.reader(["a"] * ROUNDS),
    "lines": lambda: iter(io.StringIO("a\n" * ROUNDS)),
    "a generator": numbers,
    "an expression": lambda: (n for n in MANY),
    "an object": Countdown,
}


@pytest.mark.parametrize("kind", ITERATORS)
def test_an_iterator_makes_progress(kind: str) -> None:
    simulate(go_through(ITERATORS[kind]()))


def test_a_file_makes_progress() -> None:
    with Path(sys.executable).open("rb") as file:
        simulate(repeat(lambda: bool(file.read(1)) and file.tell() < ROUNDS))


async def spin_with(held: Any) -> None:
    while True:
        await asyncio.sleep(0)
        assert held is not None


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


HELD: dict[str, Callable[[], Any]] = {
    "a match": lambda: re.match("a", "a"),
    "a set of constants": lambda: {Colour.RED, Colour.BLUE},
    "a set of classes": lambda: {int, str},
    "a set of references": lambda: weakref.WeakSet([Holder]),
    "no number": lambda: [1.5, float("nan")],
    "infinity": lambda: float("inf"),
    "a large number": lambda: 10**400,
    "bytes": lambda: bytearray(5),
    "functions and classes": lambda: (numbers, Holder, Holder()),
    "an exception": lambda: Failed("text"),
    "a module": lambda: made_by_exec(n=0),
    "an endless iterator": lambda: itertools.repeat(1),
    "an iterator": lambda: iter([1]),
}


@pytest.mark.parametrize("what", HELD)
def test_a_program_is_stuck_that_only_holds(what: str) -> None:
    with pytest.raises(RunawayRun, match=r"^no progress: nothing changed"):
        simulate(spin_with(HELD[what]()))


class Guarded:
    """No comparison of states may run code of the program."""

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)

    def __eq__(self, other: object) -> bool:
        raise AssertionError

    def __hash__(self) -> int:
        raise AssertionError

    def __repr__(self) -> str:
        raise AssertionError

    def __len__(self) -> int:
        raise AssertionError

    def __length_hint__(self) -> int:
        raise AssertionError


def test_taking_a_state_runs_no_code_of_the_program() -> None:
    with pytest.raises(RunawayRun, match=r"^no progress: nothing changed"):
        simulate(spin_with([Guarded(), Guarded()]))


def test_taking_a_state_keeps_nothing_of_the_program_alive() -> None:
    gone: list[int] = []

    class Held:
        def __del__(self) -> None:
            gone.append(1)

    async def main() -> None:
        held = Held()
        for _ in range(400):
            await asyncio.sleep(0)
        del held
        assert gone == [1]

    simulate(main())


@pytest.mark.parametrize(
    "held",
    [
        [[number] for number in range(30_000)],
        set(range(30_000)),
        hashlib.sha256(),
        {Holder(), Holder()},
    ],
    ids=["many objects", "a large set", "an object written in C", "objects in no order"],
)
def test_a_state_that_cannot_be_known_counts_as_progress(held: Any) -> None:
    with pytest.raises(RunawayRun, match="more than max_callbacks"):
        simulate(spins_for_long(held))


async def spins_for_long(held: Any) -> None:
    loop: Any = asyncio.get_running_loop()
    loop._most_callbacks = 3_000
    await spin_with(held)
