"""Swarms: the variants that a family of worlds enables, with their weights.

If all faults were equally probable, a cluster of a few faults would be rare. So a family disables
some variants completely, and gives the others very different weights: the size of the
subset is uniform, and the weights are 1 to 100, as in TigerBeetle's simulator.

Not here: the variants (replies.py, settings.py). The rule to keep: the first variant of a list is
the benign one, and is always enabled.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from simloop.fuzz.choices import Choices

T = TypeVar("T")
_HEAVIEST = 100


def weights_of(choices: Choices, variants: int, most: int | None = None) -> list[int]:
    """Return the weight of each variant in a family; 0 disables a variant.

    At most `most` variants are enabled besides the first one. Only a search draws weights: its
    choices are a count and picks, which are few, but a shrinker could not change one alone.
    """
    weights = [0] * variants
    others = list(range(1, variants))
    size = choices.integer(0, min(len(others), len(others) if most is None else most))
    for _ in range(size):
        chosen = others.pop(choices.integer(0, len(others) - 1))
        weights[chosen] = choices.integer(1, _HEAVIEST)
    weights[0] = choices.integer(1, _HEAVIEST)
    return weights


def features_on(choices: Choices, features: Mapping[str, Callable[[Choices], T]]) -> dict[str, T]:
    """Return the enabled features of a family: a subset of any size.

    Each of them has the value that its function draws, which is not None.
    """
    on: dict[str, T] = {}
    for number, (feature, draw) in enumerate(features.items()):
        # With these probabilities, as in the urn of Polya, all sizes of the subset are equally
        # probable, and no choice of the size comes first.
        p = (len(on) + 1) / (number + 2)
        value = choices.maybe(p, draw)
        if value is not None:
            on[feature] = value
    return on


def switch(_: Choices) -> bool:
    """Return the value of a feature that has none of its own."""
    return True
