"""Each pass alone, on data that need not be a scenario."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simloop.fuzz.reductions import PASSES, Pass, Tree, cost, parts, removed, repetitions, values

trees = st.recursive(
    st.booleans() | st.integers(0, 50) | st.sampled_from(["5s", "a b c", "word", "", "1m"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "nth", "model", "then"]), inner, max_size=4)
    ),
    max_leaves=12,
)
scenarios = st.fixed_dictionaries(
    {"prompt": st.just("Do it.")},
    optional={
        "then": st.lists(st.sampled_from(["One.", "Two."]), max_size=3),
        "model": st.lists(st.dictionaries(st.sampled_from(["say", "call"]), trees), max_size=6),
        "queue": st.lists(st.fixed_dictionaries({"nth": st.integers(1, 9)}), max_size=3),
        "limits": st.dictionaries(st.sampled_from(["a", "b"]), trees),
    },
)


def driven(steps: Pass, fails: Callable[[Tree], bool]) -> Tree:
    """What a pass leaves of a tree."""
    try:
        candidate = next(steps)
        while True:
            candidate = steps.send(fails(candidate))
    except StopIteration as end:
        return end.value


def test_all_goes_in_one_step_if_nothing_is_needed() -> None:
    tried: list[Tree] = []

    def anything(tree: Tree) -> bool:
        tried.append(tree)
        return True

    assert driven(removed({"model": [1, 2, 3, 4]}, ("model",)), anything) == {"model": []}
    assert len(tried) == 1


@pytest.mark.parametrize(
    ("said", "left"),
    [(["Hi."], "Hi."), ([{"repeat": "a ", "chars": 9_000}], [{"repeat": "a ", "chars": 9_000}])],
)
def test_the_one_item_of_a_list_takes_its_place_unless_it_would_be_streamed_by_word(
    said: Tree, left: Tree
) -> None:
    text = str(left).strip("[]")
    tree = driven(parts({"model": [{"say": said}]}, ("model",)), lambda tree: text in str(tree))
    assert tree == {"model": {"say": left}}


@pytest.mark.parametrize("needed", [{0}, {7}, {3, 4}, {0, 7}, {1, 4, 6}])
def test_only_what_is_needed_is_left_wherever_it_stands(needed: set[int]) -> None:
    left = driven(removed(list(range(8)), ()), lambda tree: needed <= set(tree))
    assert set(left) == needed


@pytest.mark.parametrize(
    ("value", "least", "found"),
    [
        (900, lambda value: value >= 37, 37),
        (900, lambda value: value >= 0, 0),
        ("47m", lambda value: value not in ("0s", "1s", "2s", "5s"), "1m"),
        ("one two three four", lambda value: "two" in value, "one two"),
        ("x" * 90 + "!" + "y" * 90, lambda value: "!" in value, "x" * 90 + "!"),
        (True, lambda _: True, True),
        (0.25, lambda _: True, 0.25),
    ],
)
def test_a_value_becomes_the_smallest_that_still_fails(
    value: Any, least: Callable[[Any], bool], found: Any
) -> None:
    assert driven(values({"a": value}), lambda tree: least(tree["a"])) in (
        {"a": found},
        {"a": "1m"},
    )


@given(scenarios, st.integers(0, 2**16))
def test_no_pass_gives_what_was_not_accepted_and_each_comes_to_an_end(
    tree: Tree, verdicts: int
) -> None:
    """The verdicts are arbitrary: what a scenario needs may be unlike anything."""
    for each in PASSES:
        best, tried = tree, 0

        def smaller(candidate: Tree) -> bool:
            nonlocal best, tried
            tried += 1
            fits = cost(json.dumps(candidate)) < cost(json.dumps(best))
            if fits and verdicts >> tried % 16 & 1:
                best = candidate
                return True
            return False

        assert driven(each(tree), smaller) == best
        assert tried < 2_000
        assert "prompt" in best
        tree = best


@pytest.mark.parametrize(
    ("model", "left"),
    [
        ([{"a": 1}, {"a": 1}, {"a": 1}], [{"a": 1, "times": 3}]),
        ([{"a": 1, "times": 4}, {"a": 1}, {"b": 2}], [{"b": 2, "times": 6}]),
        ([{"b": 1}, {"a": 1}, {"a": 1}], [{"a": 1, "times": 3}]),
        ([{"a": 1, "times": "always"}, {"a": 1}], [{"a": 1, "times": "always"}, {"a": 1}]),
    ],
)
def test_neighbours_are_merged_if_the_number_of_replies_matters(
    model: list[Any], left: list[Any]
) -> None:
    def often(replies: list[Any]) -> list[Any]:
        times = [each.get("times", 1) for each in replies]
        return sorted(times, key=str) if "always" in times else [sum(times)]

    def fails(tree: Tree) -> bool:
        same = often(tree["model"]) == often(model)
        return same and ("b" in str(tree["model"][-1])) == ("b" in str(model[-1]))

    assert driven(repetitions({"model": model}), fails) == {"model": left}


def test_one_reply_stands_for_all_if_their_number_does_not_matter() -> None:
    tree = {"model": [{"a": 1}, {"a": 2}, {"a": 3}]}
    left = driven(repetitions(tree), lambda _: True)
    assert left == {"model": [{"a": 1, "times": "always"}]}
