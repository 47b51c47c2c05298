"""Long runs: worlds whose runs have many rounds, changed in the last rounds.

Most runs are short, so faults, messages and aborts are drawn for the first rounds. The last round
before a limit would have few of them, and there a loop must also answer every call and deliver
every message. Not here: the other changes of a world (families.py). The rule to keep: the newest
long runs are kept, and not the longest ones alone, because a limit may end each of them.
"""

from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

from simloop.fuzz import scripts
from simloop.fuzz.choices import Choices, one_of
from simloop.fuzz.families import Family, with_reply_at
from simloop.fuzz.settings import Abilities
from simloop.kernel.machine import Feature
from simloop.scenario.schema import Scenario
from simloop.trace.entries import AnyEntry, Ended, Finish, Prompt, Request, ToolResult, ToolStarted

_LONG, _LONGEST, _OF_MACHINE = 8, 45, 15
"""The fewest and the most requests of a long run, and the most for a machine.

A long run takes the time of many others, and a machine has small limits in most worlds.
"""
_KEPT = 16
_MESSAGES = 3
"""The most messages of a changed world."""
_POINTS: dict[str, type[AnyEntry]] = {
    "finish": Finish, "tool-result": ToolResult, "request": Request, "tool-started": ToolStarted,
}  # fmt: skip
"""The entries of a round after which an action of the user comes."""
_ACTIONS, _ROUNDS_BACK = (4, 2, 3), (4, 2, 1)
"""The weights of a message, an abort and a reply; and of the last round and those before it."""


class _LongRun(NamedTuple):
    """A world, the requests of its longest run, and the entries of a kind until its end."""

    family: Family
    world: Scenario
    rounds: int
    seen: Counter[object]


class LongRuns:
    """The newest worlds with long runs of a loop with these abilities."""

    def __init__(self, abilities: Abilities) -> None:
        self._aborts = Feature.ABORT not in abilities.lacks
        self._longest = _OF_MACHINE if abilities.has_engine else _LONGEST
        self._kept: deque[_LongRun] = deque(maxlen=_KEPT)

    def add(self, family: Family, world: Scenario, record: Sequence[AnyEntry]) -> None:
        """Keep a world if its longest run has many requests."""
        if [type(entry) for entry in record].count(Request) < _LONG:
            return
        rounds, seen = _longest(record)
        if _LONG <= rounds <= self._longest:
            self._kept.append(_LongRun(family, world, rounds, seen))

    def changed(self, choices: Choices) -> tuple[Family, Scenario] | None:
        """Return a world with a message, an abort or a reply in the last rounds of its long run."""
        if not self._kept:
            return None
        last = len(self._kept) - 1
        drawn = [self._kept[choices.integer(0, last)] for _ in range(2)]
        run = max(drawn, key=lambda each: each.rounds)
        world = self._changed(choices, run)
        return run.family, world

    def _changed(self, choices: Choices, run: _LongRun) -> Scenario:
        world, weights = run.world, run.family.weights
        action, back = choices.weighted(_ACTIONS), choices.weighted(_ROUNDS_BACK)
        if action == len(_ACTIONS) - 1:
            place = max(run.seen["main"] - 1 - back, 0)
            return with_reply_at(world, place, scripts.reply_for(choices, weights, place))
        after = one_of(choices, tuple(_POINTS))
        nth = max(run.seen[_POINTS[after]] - back, 1)
        if action and self._aborts:
            return world.model_copy(update={"abort": scripts.trigger_of(0, after, nth)})
        queue = world.queue[: _MESSAGES - 1]
        late = choices.boolean(0.3)
        queue = [*queue, scripts.queued_of(0, after, nth, len(queue), late)]
        return world.model_copy(update={"queue": queue})


def _longest(record: Sequence[AnyEntry]) -> tuple[int, Counter[object]]:
    """Return the requests of the longest run, and the number of entries of each kind at its end."""
    seen: Counter[object] = Counter()
    at_start = most = 0
    at_end = seen
    for entry in record:
        seen[type(entry)] += 1
        if isinstance(entry, Request):
            seen["main"] += entry.purpose == "main"
        elif isinstance(entry, Prompt):
            at_start = seen["main"]
        elif isinstance(entry, Ended) and seen["main"] - at_start > most:
            most, at_end = seen["main"] - at_start, seen.copy()
    return most, at_end
