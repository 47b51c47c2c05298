from simloop.fuzz.choices import RecordedChoices, SeededChoices
from simloop.fuzz.swarm import Arm, features_on, weights_of


def test_a_swarm_switches_variants_off_and_weighs_the_others_very_differently() -> None:
    choices = SeededChoices(1)
    drawn = [weights_of(choices, 10, Arm.SWARM) for _ in range(300)]
    sizes = {sum(weight > 0 for weight in weights) for weights in drawn}
    assert sizes == set(range(1, 11)), "the size of the subset is uniform"
    assert all(weights[0] for weights in drawn), "the benign variant is always on"
    assert {weight for weights in drawn for weight in weights} == set(range(101))


def test_a_swarm_keeps_to_the_most_variants_that_may_be_on() -> None:
    choices = SeededChoices(1)
    drawn = [weights_of(choices, 10, Arm.SWARM, most=3) for _ in range(100)]
    assert max(sum(weight > 0 for weight in weights) for weights in drawn) == 4


def test_in_the_uniform_arm_everything_is_on_and_equally_probable() -> None:
    assert weights_of(SeededChoices(1), 4, Arm.UNIFORM) == [1, 1, 1, 1]
    assert features_on(SeededChoices(1), ["a", "b"], Arm.UNIFORM) == {"a", "b"}


def test_the_benign_family_has_nothing_but_the_first_variant() -> None:
    assert weights_of(RecordedChoices([]), 3, Arm.SWARM) == [1, 0, 0]
    assert features_on(RecordedChoices([]), ["a", "b"], Arm.LIMITS) == frozenset()
