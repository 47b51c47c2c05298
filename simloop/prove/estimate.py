"""An estimate of the states of an exploration, computed from explorations under small limits.

Not here: exploring (explore.py). The rule to keep: the estimate is computed and never timed, so
that it is equal on every machine, and it is low rather than high: an exploration that is possible
must not be refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from simloop.kernel.limits import Limits
from simloop.kernel.machine import Machine
from simloop.prove.explore import MAX_NODES, count_states

_SMALL = {"max_steps": 2, "max_error_count": 2, "max_compaction_attempts": 1}
_MOST = 50_000
"""A machine of more states under small limits is not one that grows with them."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """About how many `states` there are.

    If an exploration would give up, `limit` is the one to lower, and `fitting` about the highest
    value of it with which all states can be visited; 0 if there is none.
    """

    states: int
    limit: str = ""
    fitting: int = 0


def estimate(make: Callable[[Limits], Machine], limits: Limits) -> Estimate:
    """Estimate the states of the machine that `make` makes for `limits`.

    A counter adds as many states with each of its values, once it has a few. So the states are
    counted under small limits, and with each of them raised by one, and several of them: the count
    is a polynomial that is linear in each limit.
    """
    values: dict[str, int] = {name: getattr(limits, name) for name in _SMALL}
    small = {name: min(value, _SMALL[name]) for name, value in values.items()}
    raised = [name for name in values if values[name] > small[name]]
    counts: dict[frozenset[str], int] = {}
    for chosen in product((False, True), repeat=len(raised)):
        names = frozenset(name for name, one in zip(raised, chosen, strict=True) if one)
        given = {name: value + (name in names) for name, value in small.items()}
        # Replies of many steps only spread a run over more values of a counter that it has anyway.
        fewer = replace(limits, max_steps_per_round=1, **given)
        count = count_states(make(fewer), fewer, _MOST)
        if count is None:
            return Estimate(0)
        counts[names] = count
    states = _at(counts, small, values)
    if states <= MAX_NODES:
        return Estimate(states)
    with_less = {name: _at(counts, small, {**values, name: values[name] - 1}) for name in raised}
    limit = max(raised, key=lambda one: (states - with_less[one]) * (values[one] - small[one]))
    each = max(states - with_less[limit], 1)
    return Estimate(states, limit, max(values[limit] + (MAX_NODES - states) // each, 0))


def _at(
    counts: Mapping[frozenset[str], int], small: Mapping[str, int], values: Mapping[str, int]
) -> int:
    """Return the value of the polynomial through `counts`, taken at `small` and one above."""
    return sum(
        count
        * prod(
            values[name] - small[name] if name in names else 1 - (values[name] - small[name])
            for name in frozenset().union(*counts)
        )
        for names, count in counts.items()
    )
