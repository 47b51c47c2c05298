from collections import Counter
from collections.abc import Callable
from functools import partial

from simloop.fuzz.choices import Choices, RecordedChoices, SeededChoices
from simloop.fuzz.swarm import features_on, weights_of


def _value(_: Choices, value: int) -> int:
    return value


NUMBERED: dict[str, Callable[[Choices], int]] = {
    name: partial(_value, value=number) for number, name in enumerate("abcde")
}
"""Five features, each with its number as its value."""


def test_a_swarm_switches_variants_off_and_weighs_the_others_very_differently() -> None:
    choices = SeededChoices(1)
    drawn = [weights_of(choices, 10) for _ in range(300)]
    sizes = {sum(weight > 0 for weight in weights) for weights in drawn}
    assert sizes == set(range(1, 11)), "the size of the subset is uniform"
    assert all(weights[0] for weights in drawn), "the benign variant is always on"
    assert {weight for weights in drawn for weight in weights} == set(range(101))


def test_a_swarm_keeps_to_the_most_variants_that_may_be_on() -> None:
    choices = SeededChoices(1)
    drawn = [weights_of(choices, 10, 3) for _ in range(100)]
    assert max(sum(weight > 0 for weight in weights) for weights in drawn) == 4


def test_the_benign_family_has_nothing_but_the_first_variant() -> None:
    assert weights_of(RecordedChoices([]), 3) == [1, 0, 0]
    assert features_on(RecordedChoices([]), NUMBERED) == {}


def test_all_sizes_of_a_subset_are_equally_probable_and_so_are_the_features() -> None:
    choices = SeededChoices(1)
    drawn = [features_on(choices, NUMBERED) for _ in range(6_000)]
    sizes = Counter(len(on) for on in drawn)
    assert all(900 < sizes[size] < 1_100 for size in range(6))
    each = Counter(feature for on in drawn for feature in on)
    assert all(2_850 < each[feature] < 3_150 for feature in NUMBERED)


def test_the_value_of_a_feature_comes_directly_after_the_choice_that_it_is_on() -> None:
    draws = dict.fromkeys("abc", lambda choices: choices.integer(0, 9))
    assert features_on(RecordedChoices([1, 5, 0, 1, 7]), draws) == {"a": 5, "c": 7}
    assert features_on(RecordedChoices([0, 0, 1, 7]), draws) == {"c": 7}
