"""The page `scenarios/README.md`: what ships with simloop, at a glance.

Not here: finding scenarios by name (catalog.py). The rule to keep: the page is a function of the
scenario files alone, of what they expect and not of a run, so that it is current when they are.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from simloop.runs.loop import machine_for
from simloop.runs.plan import reasons_against
from simloop.scenario.catalog import Listed, bundled
from simloop.scenario.designs import DESIGNS
from simloop.scenario.expect import Expect
from simloop.scenario.loader import load_scenario
from simloop.scenario.schema import Scenario

_INTRO = """\
# Scenarios

{count} runs in {themes} themes. Each is one file that can be read in a minute, and must end as its
table says:

    simloop run retry/rate-limit

Each runs on every loop design and version: `simloop run retry/rate-limit --loop pi@0.87.1`. The
column *elsewhere* says how a run on another loop ends, or why that loop cannot express the
scenario. A loop that it does not name ends the run as the scenario's own loop does, and a version
as its design does; the files say what else differs.

The numbers under *bugs* are rows of [BUGS.md](BUGS.md), a list of real bugs of real agent loops.

This page is generated: `python tests/regenerate.py`.
"""
_COLUMNS = ("name", "what must hold", "loop", "outcome", "elsewhere", "bugs")
# Whatever Markdown or a table would take for more than a character.
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~])")


def catalogue_text() -> str:
    """The whole page. Raises ScenarioError if a bundled scenario cannot be read."""
    listed = list(bundled())
    themes = [(theme, list(group)) for theme, group in groupby(listed, key=_theme)]
    parts = [_INTRO.format(count=len(listed), themes=len(themes))]
    for theme, group in themes:
        parts.append(f"## {escaped(theme)}\n\n{_table(_rows(group))}")
    return "\n".join(parts)


def escaped(text: str) -> str:
    """The text on one line, with nothing in it that Markdown takes for markup."""
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


def _theme(listed: Listed) -> str:
    return listed.name.partition("/")[0]


def _rows(group: Iterable[Listed]) -> Iterable[Sequence[str]]:
    for listed in group:
        scenario = load_scenario(listed.path)
        stem = listed.path.relative_to(listed.path.parent.parent).as_posix()
        yield (
            f"[{escaped(listed.name.rpartition('/')[2])}]({stem})",
            escaped(listed.title),
            escaped(listed.loop),
            _ending(scenario.expect),
            escaped("; ".join(_elsewhere(scenario))),
            " ".join(f"[{row}](BUGS.md#{row.lower()})" for row in scenario.bugs),
        )


def _ending(expect: Expect) -> str:
    """How it ends, in a word for each prompt."""
    if expect.outcomes is not None:
        return ", ".join(expect.outcomes)
    return expect.outcome or expect.error or ""


def _elsewhere(scenario: Scenario) -> Iterator[str]:
    """The ends on the other loops that are expected to differ, and why a loop cannot express it.

    A version that ends as its design does is left out.
    """
    for loop, expect in scenario.expect_on.items():
        design, at, _ = loop.partition("@")
        if not at or _ending(expect) != _ending(scenario.expected_of(design)):
            yield f"{loop} {_ending(expect)}"
    for loop in DESIGNS:
        reasons = reasons_against(machine_for(loop, scenario.limits).unsupported, scenario, {})
        if reasons and loop != scenario.loop:
            yield f"{loop} cannot: {', '.join(reasons)}"


def _table(rows: Iterable[Sequence[str]]) -> str:
    lines = (_COLUMNS, ("---",) * len(_COLUMNS), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
