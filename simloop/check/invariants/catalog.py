"""The catalogue of the invariants: simloop's own, and those of the user.

It lists the modules below in their order, and then the entry points by name, so that a report does
not depend on the order of imports.
"""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from simloop.check.invariants import (
    agents,
    compaction,
    decisions,
    limits,
    requests,
    retry,
    tools,
    user,
)
from simloop.check.invariants.invariant import Invariant
from simloop.errors import ScenarioError
from simloop.runs.loop import isolated, loaded

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_MODULES: tuple[ModuleType, ...] = (
    requests,
    agents,
    tools,
    user,
    decisions,
    limits,
    retry,
    compaction,
)

ENTRY_POINTS = "simloop.invariants"
"""The group of entry points; each names an invariant, or a module of invariants."""


def in_module(module: object) -> tuple[Invariant, ...]:
    """Return the invariants of a module, in the order of their definitions."""
    given = getattr(module, "__dict__", {})
    return tuple(value for value in given.values() if isinstance(value, Invariant))


_added: dict[str, tuple[Invariant, ...]] = {}


def add_invariants(*names: str) -> Callable[[], None]:
    """Judge the invariants that each `module` or `module:name` names in every run from now on.

    They come after those of simloop and of the entry points. The function that is returned takes
    them away again. Raises ScenarioError for a name that names none.
    """
    new = {name: own_invariants(name) for name in names if name not in _added}
    _added.update(new)
    all_invariants.cache_clear()

    def take_away() -> None:
        for name in new:
            _added.pop(name, None)
        all_invariants.cache_clear()

    return take_away


def added_names() -> tuple[str, ...]:
    """Return the names that were added, for a process that is to judge alike."""
    return tuple(_added)


@cache
def all_invariants() -> tuple[Invariant, ...]:
    """Return all invariants. Raises ScenarioError for an entry point that names none."""
    found = [each for module in _MODULES for each in in_module(module)]
    for point in _entry_points():
        with isolated(
            f"the entry point `{point.name}` of {ENTRY_POINTS} fails", _HINT, point.value
        ):
            loaded = point.load()
        own = (loaded,) if isinstance(loaded, Invariant) else in_module(loaded)
        if not own:
            raise ScenarioError(
                f"the entry point `{point.name}` of {ENTRY_POINTS} has no invariant",
                key=point.value,
                hint=_HINT,
            )
        found += own
    added = dict.fromkeys(each for given in _added.values() for each in given)
    return (*found, *added)


def _entry_points() -> "list[EntryPoint]":
    # Importing this takes a tenth of the time of `simloop run`, and hardly anybody has one.
    if not any(map(_may_have_some, sys.path)):
        return []
    from importlib.metadata import entry_points  # noqa: PLC0415

    return sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name)


def _may_have_some(path: str) -> bool:
    """Return whether a distribution at this place of the module path may have such entry points."""
    folder = Path(path)
    if not folder.is_dir():
        return folder.exists()  # an archive: somebody else has to look inside
    files = (
        each / "entry_points.txt" for each in folder.iterdir() if each.suffix.endswith("-info")
    )
    return any(
        ENTRY_POINTS in each.read_text("utf-8", "replace") for each in files if each.is_file()
    )


_HINT = "name an invariant, or a module that has some"


def own_invariants(name: str) -> tuple[Invariant, ...]:
    """Return the invariants that `module:name` names: one, or all of a module or another object.

    Raises ScenarioError if it names none.
    """
    found = loaded(name, "invariant", _WRITTEN, "--invariants")
    own = (found,) if isinstance(found, Invariant) else in_module(found)
    if not own:
        raise ScenarioError(f"`{name}` is no invariant", key="--invariants", hint=_WRITTEN)
    return own


_WRITTEN = (
    "write module:name for a function with the decorator `simloop.invariant`; the module is looked "
    "up in the current folder and among the installed packages"
)
