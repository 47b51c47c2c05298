import random
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from simloop.virtual.border.exchange import _addresses as addresses
from simloop.virtual.border.randomness import Memory
from simloop.virtual.simulate import simulate

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


class Incomparable:
    def __eq__(self, other: object) -> bool:
        raise AssertionError

    __hash__ = None  # type: ignore[assignment]


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_addresses_are_equal_for_the_same_objects_in_the_same_order_and_ask_none_of_them(
    one: list[int], other: list[int]
) -> None:
    objects = [Incomparable() for _ in range(4)]
    first, second = (tuple([objects[place] for place in places]) for places in (one, other))
    assert (addresses(first) == addresses(second)) == (one == other)
