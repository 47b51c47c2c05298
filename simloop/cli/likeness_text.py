"""The comparison of two machines as text and as JSON.

Not here: comparing (prove/likeness.py). The rule to keep: the text and the JSON state the same
facts, and the JSON always has every key.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from simloop.check.counterexamples import scenario_of_difference
from simloop.cli.jsonformat import FORMAT_VERSION, status_for
from simloop.cli.proof_text import EXPLORED, step_lines, steps_json
from simloop.cli.terminal import out_exactly, out_lines, plain
from simloop.kernel.limits import Limits
from simloop.prove.likeness import Difference, Likeness
from simloop.scenario.designs import LoopOptions
from simloop.scenario.schema import Scenario


class Both(NamedTuple):
    """Two loops, and the options and limits of their comparison."""

    loop: str
    against: str
    limits: Limits
    options: LoopOptions

    def scenarios(self, likeness: Likeness) -> Iterator[tuple[str, Callable[[], Scenario]]]:
        """Yield the name of the scenario of each difference, and a function that makes it."""
        for number, difference in enumerate(likeness.differences, start=1):
            yield f"differs-{number}", partial(self._scenario, difference)

    def _scenario(self, difference: Difference) -> Scenario:
        return scenario_of_difference(
            difference,
            loop=self.loop,
            against=self.against,
            limits=self.limits,
            options=self.options,
        )


def print_likeness(likeness: Likeness, both: Both, *, as_json: bool) -> None:
    """Print the comparison."""
    if as_json:
        out_exactly(_json(likeness, both))
    else:
        out_lines(plain(line) for line in _lines(likeness, both))


def _lines(likeness: Likeness, both: Both) -> Iterator[str]:
    """Yield the lines: the result, its limits, and each difference with the shortest path to it."""
    number = len(likeness.differences) + len(likeness.policies)
    found = "alike" if likeness.alike else f"{number} difference{'s' * (number != 1)}"
    visited = f"{likeness.pairs:,} pairs of states and {likeness.transitions:,} transitions visited"
    yield f"{both.loop} against {both.against}: {found} ({visited})"
    yield f"limits       {', '.join(f'{name} {getattr(both.limits, name)}' for name in EXPLORED)}"
    for reason in likeness.left_out:
        yield f"left out     {reason}"
    for policy in likeness.policies:
        yield f"POLICY       {policy}"
    for difference in likeness.differences:
        yield f"DIFFERS      {difference.what}"
        yield from step_lines(difference.steps)
        if difference.others and difference.steps:
            *_, last = step_lines(difference.others)
            yield f"{last}, the other"


def _json(likeness: Likeness, both: Both) -> str:
    document = {
        "format_version": FORMAT_VERSION,
        "status": status_for(0 if likeness.alike else 1),
        "loop": both.loop,
        "against": both.against,
        "limits": {name: getattr(both.limits, name) for name in EXPLORED},
        "alike": likeness.alike,
        "pairs": likeness.pairs,
        "transitions": likeness.transitions,
        "left_out": list(likeness.left_out),
        "policies": list(likeness.policies),
        "differences": [
            {
                "what": difference.what,
                "example": steps_json(difference.steps),
                "example_against": steps_json(difference.others),
            }
            for difference in likeness.differences
        ],
    }
    return json.dumps(document, indent=2)
