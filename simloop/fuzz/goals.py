"""Goals: rare situations that a search must reach sometimes; a search that does not proves little.

A goal is a generator function, like an invariant: it receives the entries of a run of the kinds in
`sees`, and returns when the run has reached it. The goals themselves are in goal_list.py.

The rule to keep: a goal reads entries alone, so it works for any loop. A goal that needs a feature
that a loop lacks is left out for that loop, and is not reported as never reached.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, get_args

from simloop.fuzz.settings import Abilities
from simloop.kernel.machine import Feature
from simloop.trace.entries import AnyEntry, Boundary

GoalWatch: TypeAlias = Generator[None, Any, None]
"""A generator that receives entries by `send`, and returns when the goal is reached."""

_AT_BOUNDARY = frozenset(get_args(Boundary))


class Goal(NamedTuple):
    """A situation that a search must reach sometimes. `needs` are features of the loop."""

    name: str
    sentence: str
    sees: tuple[type[AnyEntry], ...]
    needs: frozenset[Feature]
    watch: Callable[[], GoalWatch]

    def can_be_reached(self, abilities: Abilities) -> bool:
        """Return whether runs of a loop may reach this goal."""
        if self.needs.intersection(abilities.lacks):
            return False
        return abilities.has_engine or _AT_BOUNDARY.issuperset(self.sees)


def goal(
    sentence: str, *, sees: Iterable[type[AnyEntry]], needs: Iterable[Feature] = ()
) -> Callable[[Callable[[], GoalWatch]], Goal]:
    """Make a goal from a generator function, under the function's name with hyphens."""

    def make(watch: Callable[[], GoalWatch]) -> Goal:
        name = watch.__name__.replace("_", "-")
        return Goal(name, sentence, tuple(sees), frozenset(needs), watch)

    return make


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
        """Count the goals that a run has reached."""
        self.looked_at += 1
        sends: list[Callable[[Any], object] | None] = [None] * len(self._goals)
        for entry in record:
            for place in self._seeing.get(type(entry), ()):
                send = sends[place]
                if send is None:
                    watch = self._goals[place].watch()
                    next(watch)
                    send = sends[place] = watch.send
                try:
                    send(entry)
                except StopIteration:
                    sends[place] = _ignore
                    self.counts[self._goals[place].name] += 1

    @property
    def never(self) -> tuple[str, ...]:
        """Return the names of the goals that no run has reached."""
        return tuple(name for name, count in self.counts.items() if not count)


def _ignore(_: object) -> None:
    """Ignore an entry after the goal was reached."""
