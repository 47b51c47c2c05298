"""Choices: the one interface through which worlds are drawn, its back ends, and swarms.

0 is always the benign choice (no fault, no latency, the default). A world has no count in front of
a list and no pick from the rest of a list: a shrinker could not take one element away alone.
"""

import _random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Protocol, TypeVar

from simloop.virtual.seeds import Seeds

T = TypeVar("T")
_HEAVIEST = 100


class Choices(Protocol):
    """A source of choices.

    A back end that marks the choices of one value has its own `maybe` and `several`.
    """

    __slots__ = ()

    def boolean(self, p: float) -> bool:
        """Return whether something of probability `p` happens."""

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`; `low` is the benign choice."""

    def weighted(self, weights: Sequence[int]) -> int:
        """Return an index with a probability proportional to its weight; 0 is the benign choice."""

    def maybe(self, p: float, make: Callable[["Choices"], T]) -> T | None:
        """Return the value that `make` draws, with the probability `p`, or None."""
        return make(self) if self.boolean(p) else None

    def several(self, most: int, make: Callable[[int], T]) -> list[T]:
        """Return up to `most` values that `make` draws by index; any length is as likely."""
        drawn: list[T] = []
        while (left := most - len(drawn)) and self.boolean(left / (left + 1)):
            drawn.append(make(len(drawn)))
        return drawn


def one_of(choices: Choices, values: Sequence[Any]) -> Any:
    """Return one of the values; the first is the benign choice."""
    return values[choices.integer(0, len(values) - 1)]


class SeededChoices(Choices):
    """Choices drawn from a seed, by a generator of their own."""

    __slots__ = ("_draw",)

    def __init__(self, seed: int, stream: str = "fuzz") -> None:
        # The base class of `random.Random` draws equal numbers with fewer calls.
        self._draw = _random.Random(Seeds(seed).number(stream)).random

    def boolean(self, p: float) -> bool:
        return self._draw() < p

    def integer(self, low: int, high: int) -> int:
        return low + int(self._draw() * (high - low + 1))

    def weighted(self, weights: Sequence[int]) -> int:
        bounds = list(accumulate(weights))
        index = bisect_right(bounds, self._draw() * bounds[-1])
        return index if index < len(bounds) else 0


def weights_of(choices: Choices, variants: int, most: int | None = None) -> list[int]:
    """Return the weight of each variant in a family; at most `most` besides the first are not 0.

    If all faults were equally probable, a cluster of a few would be rare. So the size of the subset
    is uniform, and the weights are 1 to 100, as in the simulator of TigerBeetle. Only a search
    draws weights: a shrinker could not change one choice alone.
    """
    weights = [0] * variants
    others = list(range(1, variants))
    for _ in range(choices.integer(0, min(len(others), len(others) if most is None else most))):
        chosen = others.pop(choices.integer(0, len(others) - 1))
        weights[chosen] = choices.integer(1, _HEAVIEST)
    weights[0] = choices.integer(1, _HEAVIEST)
    return weights


def features_on(choices: Choices, features: Mapping[str, Callable[[Choices], T]]) -> dict[str, T]:
    """Return the enabled features of a family, a subset of any size, with their drawn values."""
    on: dict[str, T] = {}
    for number, (feature, draw) in enumerate(features.items()):
        # With these probabilities, as in the urn of Polya, all sizes of the subset are equally
        # probable, and no choice of the size comes first.
        if (value := choices.maybe((len(on) + 1) / (number + 2), draw)) is not None:
            on[feature] = value
    return on


def switch(_: Choices) -> bool:
    """Return the value of a feature that has none of its own."""
    return True
