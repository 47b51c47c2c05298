"""Seeds: one number, many independent streams, and the order of timers of one instant."""

import asyncio
import os
import subprocess
import sys

import pytest

from simloop.errors import ScenarioError
from simloop.virtual.seeds import Seeds
from simloop.virtual.simulate import run_virtual

FIRST_DRAW = (
    'from simloop.virtual.seeds import Seeds; print(Seeds(7).stream("ties").getrandbits(64))'
)


def test_a_stream_goes_on_where_it_was_and_depends_on_no_other_stream() -> None:
    one, other = Seeds(7), Seeds(7)
    other.stream("faults").random()
    assert one.stream("ties") is one.stream("ties")
    assert [one.stream("ties").random() for _ in range(2)] == [
        other.stream("ties").random() for _ in range(2)
    ]


def test_streams_of_different_names_and_of_different_seeds_differ() -> None:
    draws = {Seeds(seed).stream(name).getrandbits(64) for seed in range(50) for name in "abcd"}
    assert len(draws) == 200
    assert Seeds(1).stream("1:a").random() != Seeds(11).stream(":a").random()
    assert Seeds(0).stream("\ud800").random() != Seeds(0).stream("").random()


def test_a_stream_is_the_same_in_every_process() -> None:
    command = [sys.executable, "-c", FIRST_DRAW]
    environment = {"PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    assert int(told.stdout) == Seeds(7).stream("ties").getrandbits(64) == 15342459653961957412


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, "1", True, None])
def test_another_value_is_the_authors_error(seed: int) -> None:
    with pytest.raises(ScenarioError, match=r"^seed: the seed is .*\(give an integer from 0 to"):
        Seeds(seed)


async def order(*, timers: bool) -> list[int]:
    called: list[int] = []
    loop = asyncio.get_running_loop()
    for number in range(12):
        if timers:
            loop.call_later(1, called.append, number)
        else:
            loop.call_soon(called.append, number)
    await asyncio.sleep(2)
    return called


def test_a_seed_shuffles_timers_of_one_instant_and_the_same_seed_shuffles_them_the_same() -> None:
    orders = [run_virtual(order(timers=True), shuffle_seed=seed) for seed in range(5)]
    assert orders == [run_virtual(order(timers=True), shuffle_seed=seed) for seed in range(5)]
    assert all(sorted(numbers) == list(range(12)) for numbers in orders)
    assert len({tuple(numbers) for numbers in orders}) == 5
    assert list(range(12)) not in orders


def test_a_seed_does_not_shuffle_what_is_called_soon() -> None:
    assert run_virtual(order(timers=False), shuffle_seed=3) == list(range(12))


@pytest.mark.parametrize("seed", [0, 1, 7, 2**63 - 1])
def test_a_number_is_the_first_of_its_stream_and_takes_it_from_none(seed: int) -> None:
    seeds = Seeds(seed)
    assert seeds.number("global-random") == seeds.stream("global-random").getrandbits(64)
