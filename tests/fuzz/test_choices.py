from collections import Counter
from collections.abc import Callable
from functools import partial

from searching import RecordedChoices

from simloop.fuzz.choices import Choices, SeededChoices, features_on, weights_of


def draw(choices: Choices) -> list[tuple[bool, int, int]]:
    return [
        (choices.boolean(0.5), choices.integer(3, 9), choices.weighted([0, 5, 0, 1]))
        for _ in range(50)
    ]


def test_a_seed_gives_the_same_choices_each_time() -> None:
    assert draw(SeededChoices(7)) == draw(SeededChoices(7))
    assert draw(SeededChoices(7)) != draw(SeededChoices(8))


def test_choices_stay_in_their_range_and_reach_all_of_it() -> None:
    booleans, integers, indexes = zip(*draw(SeededChoices(1)), strict=True)
    assert set(booleans) == {True, False}
    assert set(integers) == set(range(3, 10))
    assert set(indexes) == {1, 3}


def test_all_lengths_of_a_list_are_equally_probable() -> None:
    choices = SeededChoices(1)
    lengths = Counter(len(choices.several(4, lambda n: n)) for _ in range(5_000))
    assert all(900 < lengths[length] < 1_100 for length in range(5))


def test_one_element_of_a_list_goes_with_its_own_choices() -> None:
    def draw_list(drawn: list[int]) -> list[int]:
        choices = RecordedChoices(drawn)
        return choices.several(3, lambda _: choices.integer(0, 9))

    assert draw_list([1, 5, 1, 6, 1, 7]) == [5, 6, 7]
    assert draw_list([1, 5, 1, 7]) == [5, 7]
    assert draw_list([1, 5, 0, 6, 1, 7]) == [5]


def test_a_value_that_may_be_there_takes_its_choices_with_it() -> None:
    def draw_two(drawn: list[int]) -> tuple[int | None, int]:
        choices = RecordedChoices(drawn)
        return choices.maybe(0.5, lambda own: own.integer(0, 9)), choices.integer(0, 9)

    assert draw_two([1, 5, 7]) == (5, 7)
    assert draw_two([0, 7]) == (None, 7)


def test_a_list_that_is_used_up_gives_the_benign_choice() -> None:
    choices = RecordedChoices([])
    assert not choices.boolean(0.9)
    assert choices.integer(3, 9) == 3
    assert choices.weighted([1, 5]) == 0
    assert choices.maybe(0.9, lambda _: 1) is None
    assert choices.several(3, lambda n: n) == []


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
