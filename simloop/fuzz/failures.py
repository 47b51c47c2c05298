"""The failures of a search, in groups that probably have one cause.

The name of the failure and the shape of its text, without the numbers and names that differ between
runs, define a group. The first failure of a group stands for it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from simloop.check.trial import Failure
from simloop.scenario.schema import Scenario

# A quote behind a letter is an apostrophe.
_QUOTED = re.compile(r"(?<!\w)'.*?'(?!\w)|\"[^\"]*\"|`[^`]*`")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SHAPE_CHARS = 160


def shape_of(text: str) -> str:
    """Return the first line of a text without its numbers and quoted names."""
    line = text.partition("\n")[0]
    return _NUMBER.sub("0", _QUOTED.sub("''", line))[:_SHAPE_CHARS]


class Group(NamedTuple):
    """The name of the failures of a group, and the shape of their texts."""

    name: str
    shape: str

    @classmethod
    def of(cls, name: str, text: str) -> "Group":
        """Return the group of a failure."""
        return cls(name, shape_of(text))


@dataclass(slots=True)
class FoundFailure:
    """A group of equal failures, with the scenario of the first one.

    `run` is the number of the first failing run, and `cpu_s` the processor time until then. `count`
    is the number of failing runs. `reproduced` says whether the scenario fails in a new process as
    well, or is None if that was not tried. If it does not, the loop keeps state between runs.
    """

    failure: Failure
    scenario: Scenario
    run: int
    cpu_s: float
    count: int = 1
    reproduced: bool | None = None

    @property
    def name(self) -> str:
        """Return the name of the violated invariant, or of the error."""
        return self.failure.name


class FoundFailures:
    """The failures of a search, in the order in which they were found.

    Failures of the groups in `known` are counted only. `counts` are the failing runs by group.
    """

    def __init__(self, known: Iterable[Group] = ()) -> None:
        self._known = frozenset(known)
        self._groups: dict[Group, FoundFailure] = {}
        self.counts: dict[Group, int] = {}

    def __iter__(self) -> Iterator[FoundFailure]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def add(
        self, failure: Failure, scenario: Scenario, run: int, cpu_s: float
    ) -> FoundFailure | None:
        """Add a failure; return its group if the group is new."""
        group = Group.of(failure.name, failure.text)
        self.counts[group] = self.counts.get(group, 0) + 1
        if group in self._groups:
            self._groups[group].count += 1
            return None
        if group in self._known:
            return None
        found = self._groups[group] = FoundFailure(failure, scenario, run, cpu_s)
        return found
