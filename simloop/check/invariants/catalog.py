"""The catalogue of the invariants: simloop's own, and those of the user.

The rule to keep: the order of the catalogue is the order of the modules below, then that of the
names of entry points, so that a report does not depend on the order of imports.
"""

from functools import cache
from importlib.metadata import entry_points
from types import ModuleType

from simloop.check.invariants import (
    agents,
    compaction,
    conservation,
    context,
    counters,
    decisions,
    grammar,
    hook_changes,
    hooks,
    limits,
    machine,
    model_calls,
    outcome,
    requests,
    retry,
    stop,
    tool_runs,
    user,
)
from simloop.check.invariants.invariant import Invariant
from simloop.errors import ScenarioError

_MODULES: tuple[ModuleType, ...] = (
    requests,
    context,
    model_calls,
    agents,
    tool_runs,
    user,
    stop,
    outcome,
    grammar,
    machine,
    conservation,
    decisions,
    counters,
    limits,
    retry,
    compaction,
    hooks,
    hook_changes,
)

ENTRY_POINTS = "simloop.invariants"
"""The group of entry points; each names an invariant, or a module of invariants."""


def in_module(module: object) -> tuple[Invariant, ...]:
    """Return the invariants of a module, in the order of their definitions."""
    return tuple(value for value in vars(module).values() if isinstance(value, Invariant))


@cache
def all_invariants() -> tuple[Invariant, ...]:
    """Return all invariants. Raises ScenarioError for an entry point that names none."""
    found = [each for module in _MODULES for each in in_module(module)]
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        loaded = point.load()
        own = (loaded,) if isinstance(loaded, Invariant) else in_module(loaded)
        if not own:
            raise ScenarioError(
                f"the entry point `{point.name}` of {ENTRY_POINTS} has no invariant",
                key=point.value,
                hint="name an invariant, or a module that has some",
            )
        found += own
    return tuple(found)
