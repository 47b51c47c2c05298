"""An interval by ranks covers the median of any distribution, as often as it says."""

import random
from fractions import Fraction
from math import comb

import pytest

from simloop.bench.intervals import CONFIDENCE, Interval, median_interval


def skewed(noise: random.Random) -> float:
    """Return a sample whose median is 0; one in ten is far too large, as on a busy machine."""
    sample = noise.expovariate(1) - 0.6931471805599453
    return sample + 1_000 if sample > 0 and noise.random() < 0.2 else sample


def rank_by_coins(size: int) -> int:
    """Return the rank of the lower bound: the last one of which both sides together miss enough.

    The number of samples below the median is that of heads among so many fair coins.
    """
    chances = [Fraction(1)]  # of 0, 1, ... heads, coin by coin
    for _ in range(size):
        chances = [
            (before + after) / 2
            for before, after in zip([Fraction(0), *chances], [*chances, Fraction(0)], strict=True)
        ]
    missed = Fraction(1) - Fraction(CONFIDENCE)
    return max(rank for rank in range(size // 2) if 2 * sum(chances[: rank + 1]) <= missed)


@pytest.mark.parametrize("size", [15, 16, 21, 50, 101])
def test_the_bounds_are_the_samples_at_the_ranks_of_the_binomial(size: int) -> None:
    samples = [float(number) for number in range(size)]
    random.Random(size).shuffle(samples)
    found = median_interval(samples)
    rank = rank_by_coins(size)
    assert found == Interval(rank, (size - 1) / 2, size - 1 - rank)


@pytest.mark.parametrize("size", [21, 101])
def test_the_interval_covers_the_median_of_skewed_noise(size: int) -> None:
    noise = random.Random(7)
    trials = 2_000
    covered = sum(
        median_interval([skewed(noise) for _ in range(size)]).has_zero for _ in range(trials)
    )
    assert covered / trials >= 0.999


def test_the_interval_is_no_wider_than_it_must_be() -> None:
    """The next ranks inwards would cover too little."""
    for size in (21, 101):
        inner = rank_by_coins(size) + 1
        covered = 1 - 2 * sum(comb(size, rank) for rank in range(inner + 1)) / 2**size
        assert covered < CONFIDENCE


def test_a_few_samples_that_are_far_too_large_do_not_move_the_interval() -> None:
    samples = [float(number) for number in range(101)]
    disturbed = [*samples[:-10], *(1e12 for _ in range(10))]
    assert median_interval(disturbed) == median_interval(samples)


def test_fewer_than_fifteen_samples_have_no_interval() -> None:
    with pytest.raises(AssertionError, match="14 samples are too few"):
        median_interval([1.0] * 14)


def test_the_median_of_an_even_number_is_between_the_two_in_the_middle() -> None:
    assert median_interval([1.0] * 8 + [2.0] * 8).median == 1.5


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        (Interval(-1, 0, 1), True),
        (Interval(0, 1, 2), True),
        (Interval(-2, -1, 0), True),
        (Interval(1, 2, 3), False),
        (Interval(-3, -2, -1), False),
    ],
)
def test_zero_is_in_an_interval_that_holds_it(interval: Interval, *, expected: bool) -> None:
    assert interval.has_zero is expected


def test_a_wider_interval_keeps_its_median() -> None:
    assert Interval(1, 2, 4).widened(1) == Interval(0, 2, 5)


def test_a_quotient_has_all_three_divided() -> None:
    assert Interval(2, 4, 8).over(2) == Interval(1, 2, 4)
