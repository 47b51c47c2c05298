"""The goals of a search: rare situations in which loops have failed, mostly two events at once."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, get_args

from simloop.fuzz.alphabet import Abilities
from simloop.kernel.errorclass import ErrorClass
from simloop.kernel.machine import Feature
from simloop.trace import entries
from simloop.trace.entries import AnyEntry
from simloop.trace.kinds import NAME

_Step: TypeAlias = Callable[[Any], bool]
_AT_BOUNDARY = frozenset(get_args(entries.Boundary))


class Goal(NamedTuple):
    """A situation that a search must reach sometimes, which its name says."""

    name: str
    steps: tuple[_Step, ...]  # each matches an entry; they match entries in a row
    sees: tuple[type[AnyEntry], ...]  # of these, and of those that may not come between
    needs: tuple[Feature, ...] = ()  # of the loop

    def can_be_reached(self, abilities: Abilities) -> bool:
        reachable = abilities.has_engine or _AT_BOUNDARY.issuperset(self.sees)
        return reachable and not set(self.needs) & set(abilities.lacks)

    def is_reached(self, seen: Sequence[Any]) -> bool:
        size = len(self.steps)
        return any(
            all(step(entry) for step, entry in zip(self.steps, seen[at : at + size], strict=True))
            for at in range(len(seen) - size + 1) if self.steps[0](seen[at])
        )  # fmt: skip


class Goals:
    """Counts the runs that reached each goal. `looked_at` is the number of runs that were read."""

    def __init__(self, goals: Sequence[Goal], abilities: Abilities) -> None:
        self._goals = [each for each in goals if each.can_be_reached(abilities)]
        self._seeing: dict[type, list[int]] = {}
        for place, each in enumerate(self._goals):
            for kind in each.sees:
                self._seeing.setdefault(kind, []).append(place)
        self.counts = dict.fromkeys((each.name for each in self._goals), 0)
        self.looked_at = 0

    def add(self, record: Iterable[AnyEntry]) -> None:
        self.looked_at += 1
        seen: list[list[AnyEntry]] = [[] for _ in self._goals]
        for entry in record:
            for place in self._seeing.get(type(entry), ()):
                seen[place].append(entry)
        for goal, found in zip(self._goals, seen, strict=True):
            self.counts[goal.name] += goal.is_reached(found)


_DATA: Any = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
_KINDS: Mapping[str, Any] = {name: kind for kind, name in NAME.items()}


def _a(kind: str, **values: object) -> _Step:
    own = _KINDS[kind]
    return lambda entry: (
        type(entry) is own and all(getattr(entry, name) == each for name, each in values.items())
    )


_STEPS: Mapping[str, _Step] = {
    **{name: _a(**given) for name, given in _DATA["steps"].items()},
    "end of a reply": lambda e: type(e) in (entries.Finish, entries.Error, entries.StreamCut),
    "hook fails or hangs":
        lambda e: type(e) is entries.Hook and e.result in ("failed", "timed-out"),
    "late reply": lambda e: e.error_class is ErrorClass.TIMEOUT and e.fault is not None,
    "late tool": lambda e: type(e) is entries.ToolResult and e.is_error and "timed out" in e.text,
    "several steps": lambda e: e.steps > 1,
    "shortened": lambda e: type(e) is entries.Compaction and bool(e.strategy),
    "step limit after compactions":
        lambda e: e.limit == "max_steps" and e.counters and e.counters.compaction_attempts > 1,
}  # fmt: skip
GOALS: tuple[Goal, ...] = tuple(
    Goal(
        name, tuple(_STEPS[each] for each in given["steps"]),
        tuple(_KINDS[each] for each in given["sees"]), tuple(map(Feature, given.get("needs", ()))),
    )
    for name, given in _DATA["goals"].items()
)  # fmt: skip
