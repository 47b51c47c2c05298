"""Swarms: the variants that a family of worlds enables, with their weights.

If all faults were equally probable, a cluster of a few faults would be rare. So a family disables
some variants completely, and gives the others very different weights: the size of the
subset is uniform, and the weights are 1 to 100, as in TigerBeetle's simulator.

Not here: the variants (replies.py, settings.py). The rule to keep: the first variant of a list is
the benign one, and is always enabled.
"""

from collections.abc import Sequence
from enum import StrEnum

from simloop.fuzz.choices import Choices

_HEAVIEST = 100


class Arm(StrEnum):
    """A search method; each one adds to the one before it."""

    UNIFORM = "uniform"  # all variants have equal weights; the loop has its own settings
    SWARM = "swarm"  # some variants are enabled, with different weights
    LIMITS = "limits"  # limits, policies and other settings are drawn, too
    STEERED = "steered"  # worlds that increase the coverage are varied and played again


def weights_of(choices: Choices, variants: int, arm: Arm, *, most: int | None = None) -> list[int]:
    """Return the weight of each variant in a family; 0 disables a variant.

    At most `most` variants are enabled besides the first one.
    """
    if arm is Arm.UNIFORM:
        return [1] * variants
    weights = [0] * variants
    others = list(range(1, variants))
    size = choices.integer(0, min(len(others), len(others) if most is None else most))
    for _ in range(size):
        chosen = others.pop(choices.integer(0, len(others) - 1))
        weights[chosen] = choices.integer(1, _HEAVIEST)
    weights[0] = choices.integer(1, _HEAVIEST)
    return weights


def features_on(choices: Choices, features: Sequence[str], arm: Arm) -> frozenset[str]:
    """Return the enabled features of a family: all, or a subset of any size."""
    if arm is Arm.UNIFORM:
        return frozenset(features)
    left = list(features)
    size = choices.integer(0, len(left))
    return frozenset(left.pop(choices.integer(0, len(left) - 1)) for _ in range(size))
