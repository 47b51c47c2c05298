"""The failures of a search, in groups that probably have one cause.

Not here: making a scenario smaller (shrink.py) and writing it. The rules to keep: the name of the
failure and the shape of its text, without the numbers and names that differ between runs, define a
group; and a group keeps its smallest scenario.
"""

import re
from collections.abc import Iterator, Sized
from dataclasses import dataclass

from simloop.fuzz.play import Failure
from simloop.scenario.schema import Scenario

# A quote behind a letter is an apostrophe.
_QUOTED = re.compile(r"(?<!\w)'.*?'(?!\w)|\"[^\"]*\"|`[^`]*`")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SHAPE_CHARS = 160


def shape_of(text: str) -> str:
    """Return the first line of a text without its numbers and quoted names."""
    line = text.partition("\n")[0]
    return _NUMBER.sub("0", _QUOTED.sub("''", line))[:_SHAPE_CHARS]


@dataclass(slots=True)
class FoundFailure:
    """A group of equal failures, with its smallest scenario so far.

    `run` is the number of the first failing run, and `cpu_s` the processor time until then. `count`
    is the number of failing runs. `reproduced` is false if a single run of the scenario does not
    fail: the loop then keeps state between runs. `seed` is the seed of the search, in a report on
    several searches.
    """

    failure: Failure
    scenario: Scenario
    run: int
    cpu_s: float
    count: int = 1
    reproduced: bool = True
    seed: int | None = None

    @property
    def name(self) -> str:
        """Return the name of the violated invariant, or of the error."""
        return self.failure.name


def size_of(scenario: Scenario) -> int:
    """Return the approximate size of a scenario, as a number of elements."""
    parts: tuple[Sized, ...] = (
        scenario.model,
        scenario.summaries,
        scenario.queue,
        scenario.then,
        scenario.hooks,
        scenario.history,
        scenario.tools,
    )
    return sum(map(len, parts)) + (scenario.abort is not None) + scenario.shuffle_ties


class FoundFailures:
    """The failures of a search, in the order in which they were found."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], FoundFailure] = {}

    def __iter__(self) -> Iterator[FoundFailure]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def add(
        self, failure: Failure, scenario: Scenario, run: int, cpu_s: float
    ) -> FoundFailure | None:
        """Add a failure; return its group if the group is new."""
        key = failure.name, shape_of(failure.text)
        known = self._groups.get(key)
        if known is None:
            found = self._groups[key] = FoundFailure(failure, scenario, run, cpu_s)
            return found
        known.count += 1
        if size_of(scenario) < size_of(known.scenario):
            known.failure, known.scenario = failure, scenario
        return None
