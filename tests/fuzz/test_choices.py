from collections import Counter

from simloop.fuzz.choices import Choices, RecordedChoices, Recording, SeededChoices


def draw(choices: Choices) -> list[tuple[bool, int, int]]:
    return [
        (choices.boolean(0.5), choices.integer(3, 9), choices.weighted([0, 5, 0, 1]))
        for _ in range(50)
    ]


def draw_lists(choices: Choices) -> list[tuple[int | None, list[int]]]:
    return [
        (choices.maybe(0.5, lambda own: own.integer(0, 9)), choices.several(4, lambda n: n))
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


def test_recorded_choices_repeat_what_was_drawn() -> None:
    recording = Recording(SeededChoices(7))
    drawn = draw(recording), draw_lists(recording)
    again = RecordedChoices(recording.drawn)
    assert (draw(again), draw_lists(again)) == drawn


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


def test_a_recorded_number_out_of_range_is_the_nearest_that_fits() -> None:
    choices = RecordedChoices([99, -4, 99, 1])
    assert choices.integer(3, 9) == 9
    assert choices.integer(3, 9) == 3
    assert choices.weighted([1, 5, 2]) == 2
    assert choices.weighted([1, 0, 2]) == 0, "an index of weight 0 is never returned"


def test_a_probability_of_0_or_1_leaves_no_choice() -> None:
    assert not RecordedChoices([1]).boolean(0)
    assert RecordedChoices([0]).boolean(1)
