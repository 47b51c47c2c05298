"""Any change of a program's state is seen, wherever the state is; an unknown state is a doubt."""
# ruff: noqa: ASYNC110 - programs that poll are what is tested

import array
import asyncio
import collections
import contextvars
import functools
import hashlib
import random
import sqlite3
import types
import zlib
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from simloop import simulate
from simloop.virtual.standstill import Standstill

ROUNDS = 2_000
Step = Callable[[], bool]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Standstill, "stride", 100)


async def repeat(goes_on: Step) -> None:
    while goes_on():
        await asyncio.sleep(0)


class Holder:
    shared = 0
    n: Any = 0


class Slots:
    __slots__ = ("n",)
    n: Any


class Failed(Exception):  # noqa: N818 - a name for a test
    n: Any = 0


class Numbers(list[Any]):
    pass


def made_by_exec(**names: Any) -> types.ModuleType:
    module = types.ModuleType("made_by_exec")
    module.__dict__.update(names)
    exec("def count():\n global n\n n += 1\n return n < 2_000", module.__dict__)
    return module


total = 0
noted = contextvars.ContextVar("noted", default=0)


def counts_in(box: Any) -> Step:
    """Return a step that counts in the attribute `n` of the object."""
    box.n = 0

    def step() -> bool:
        box.n += 1
        return bool(box.n < ROUNDS)

    return step


def grows(change: Callable[[Any, int], object], box: Any) -> Step:
    """Return a step that changes the object and knows its end by the object's size alone."""

    def step() -> bool:
        change(box, len(box))
        return len(box) < ROUNDS

    return step


def shrinks(change: Callable[[Any], object], box: Any) -> Step:
    def step() -> bool:
        change(box)
        return len(box) > 0

    return step


def in_a_global() -> Step:
    def step() -> bool:
        global total  # noqa: PLW0603 - as programs do
        total += 1
        return total % ROUNDS != 0

    return step


def in_a_class() -> Step:
    def step() -> bool:
        Holder.shared += 1
        return Holder.shared % ROUNDS != 0

    return step


def in_a_closure() -> Step:
    n = 0

    def step() -> bool:
        nonlocal n
        n += 1
        return n < ROUNDS

    return step


def in_a_default() -> Step:
    def step(seen: list[None] = []) -> bool:  # noqa: B006 - as programs do
        seen.append(None)
        return len(seen) < ROUNDS

    return step


def in_a_bound_method() -> Step:
    box: list[int] = []
    add, size = box.append, box.__len__

    def step() -> bool:
        add(0)
        return size() < ROUNDS

    return step


def in_a_context_variable() -> Step:
    def step() -> bool:
        noted.set(noted.get() + 1)
        return noted.get() < ROUNDS

    return step


def in_the_only_member_of_a_set() -> Step:
    holder = Holder()
    holder.n = 0
    members = {holder}

    def step() -> bool:
        for member in members:
            member.n += 1
        return all(member.n < ROUNDS for member in members)

    del holder
    return step


def in_the_members_of_a_set() -> Step:
    members = {Holder(), Holder()}

    def step() -> bool:
        for member in members:
            member.n += 1
        return all(member.n < ROUNDS for member in members)

    return step


def in_bytes() -> Step:
    data = bytearray(2)

    def step() -> bool:
        data[1] = (data[1] + 1) % 256
        data[0] += data[1] == 0
        return data != b"\x07\xff"

    return step


def in_an_array() -> Step:
    data = array.array("i", [0])

    def step() -> bool:
        data[0] += 1
        return data[0] < ROUNDS

    return step


def in_a_digest() -> Step:
    digest = hashlib.sha256()

    def step() -> bool:
        digest.update(b"more")
        return not digest.hexdigest().startswith("000")

    return step


def in_a_compressor() -> Step:
    compressor = zlib.compressobj()

    def step() -> bool:
        return not compressor.compress(random.randbytes(20))

    return step


def in_a_database() -> Step:
    connection = sqlite3.connect(":memory:")
    cursor = connection.cursor()
    cursor.execute("create table rounds (n)")

    def step() -> bool:
        cursor.execute("insert into rounds values (1)")
        goes_on = cursor.execute("select count(*) from rounds").fetchone()[0] < ROUNDS
        if not goes_on:
            connection.close()  # otherwise Python 3.13 warns, in whatever test collects it
        return bool(goes_on)

    return step


def in_the_order_of_a_dict() -> Step:
    names = collections.OrderedDict.fromkeys(map(str, range(ROUNDS)))

    def step() -> bool:
        names.move_to_end(next(iter(names)))
        return next(iter(names)) != "0"

    return step


def in_a_number(first: Any) -> Callable[[], Step]:
    def make() -> Step:
        value = first

        def step() -> bool:
            nonlocal value
            value += 1
            return bool(value < ROUNDS)

        return step

    return make


def by_two_names_of_an_object() -> Step:
    one = object()
    return grows(lambda box, _: box.append(one), [])


def in_a_partial() -> Step:
    return functools.partial(lambda box: box.append(0) or len(box) < ROUNDS, [])


def in_the_function() -> Step:
    def step() -> bool:
        step.n += 1  # type: ignore[attr-defined]
        return bool(step.n < ROUNDS)  # type: ignore[attr-defined]

    step.n = 0  # type: ignore[attr-defined]
    return step


def in_a_text() -> Step:
    holder = Holder()
    holder.n = ""

    def step() -> bool:
        holder.n += "x"
        return len(holder.n) < ROUNDS

    return step


STEPS: dict[str, Callable[[], Step]] = {
    "an attribute": lambda: counts_in(Holder()),
    "a slot": lambda: counts_in(Slots()),
    "an exception": lambda: counts_in(Failed()),
    "a namespace": lambda: counts_in(types.SimpleNamespace()),
    "a module without a file": lambda: counts_in(types.ModuleType("without_file")),
    "a function of a module without a file": lambda: made_by_exec(n=0).count,
    "a global": in_a_global,
    "a class": in_a_class,
    "a closure": in_a_closure,
    "a default argument": in_a_default,
    "a function": in_the_function,
    "a partial": in_a_partial,
    "a bound method": in_a_bound_method,
    "a context variable": in_a_context_variable,
    "a set with one object": in_the_only_member_of_a_set,
    "a set of objects": in_the_members_of_a_set,
    "bytes": in_bytes,
    "an array": in_an_array,
    "a digest": in_a_digest,
    "a compressor": in_a_compressor,
    "a database": in_a_database,
    "the order of a dict": in_the_order_of_a_dict,
    "a decimal": in_a_number(Decimal(0)),
    "a fraction": in_a_number(Fraction(0)),
    "a list": lambda: grows(list.append, []),
    "a list of one object": by_two_names_of_an_object,
    "a subclass of list": lambda: grows(Numbers.append, Numbers()),
    "a set": lambda: grows(set.add, set()),
    "a dict": lambda: grows(lambda box, n: box.setdefault(n, None), {}),
    "a deque": lambda: shrinks(collections.deque.pop, collections.deque([None] * ROUNDS)),
    "a list that shrinks": lambda: shrinks(list.pop, [None] * ROUNDS),
    "a text": in_a_text,
}


@pytest.mark.parametrize("where", STEPS)
def test_a_change_is_seen_in(where: str) -> None:
    simulate(repeat(STEPS[where]()))
