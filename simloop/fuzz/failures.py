"""The failures of a search, grouped so that one fault gives one finding.

Not here: making a scenario smaller (shrink.py) and writing it. The rules to keep: the group of a
failure is its rule and the shape of its text, without the numbers and names that differ from run to
run; and a group keeps its smallest scenario.
"""

import re
from collections.abc import Iterator, Sized
from dataclasses import dataclass

from simloop.fuzz.play import Breach
from simloop.scenario.schema import Scenario

# A quote behind a letter is an apostrophe.
_QUOTED = re.compile(r"(?<!\w)'.*?'(?!\w)|\"[^\"]*\"|`[^`]*`")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SHAPE_CHARS = 160


def shape_of(text: str) -> str:
    """Return the first line of a text without what differs from run to run."""
    line = text.partition("\n")[0]
    return _NUMBER.sub("0", _QUOTED.sub("''", line))[:_SHAPE_CHARS]


@dataclass(slots=True)
class Finding:
    """One way in which the loop fails, with its smallest world so far.

    `run` is the number of the run that found it, after `cpu_s` seconds of computing. `count` is the
    number of runs that failed so. `reproduced` is false if a run of the scenario alone does not
    fail: then the loop keeps something from one run for the next. `seed` is that of the search, if
    the report is of several.
    """

    breach: Breach
    scenario: Scenario
    run: int
    cpu_s: float
    count: int = 1
    reproduced: bool = True
    seed: int | None = None

    @property
    def name(self) -> str:
        """Return the name of the rule that is broken."""
        return self.breach.name


def size_of(scenario: Scenario) -> int:
    """Return how much there is in a scenario, roughly."""
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


class Findings:
    """The findings of a search, in the order in which they were found."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], Finding] = {}

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, breach: Breach, scenario: Scenario, run: int, cpu_s: float) -> Finding | None:
        """Add a breach; return its finding if it is the first of its group."""
        key = breach.name, shape_of(breach.text)
        known = self._groups.get(key)
        if known is None:
            finding = self._groups[key] = Finding(breach, scenario, run, cpu_s)
            return finding
        known.count += 1
        if size_of(scenario) < size_of(known.scenario):
            known.breach, known.scenario = breach, scenario
        return None
