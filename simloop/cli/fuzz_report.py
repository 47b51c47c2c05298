"""The report of a search: as lines, and as JSON.

Not here: the search (fuzz/search.py). The rule to keep: only the last line has times, so that the
other lines are equal for two searches with the same seed and number of runs.
"""

from collections.abc import Iterator, Mapping

from simloop.cli.terminal import json_text, plain
from simloop.fuzz.failures import Group
from simloop.fuzz.ranges import RangeResult, SearchFinding, SearchSettings

NOT_REPRODUCED = "alone, in a new process, it does not fail: the loop keeps state between runs"
_S_PER_H, _NS_PER_S = 3_600, 1_000_000_000


class Sums:
    """The sums over the results of a search. `failures` has the first failure of each group."""

    def __init__(self, settings: SearchSettings) -> None:
        self.settings = settings
        self.runs = self.virtual_ns = self.looked_at = 0
        self.cpu_s = 0.0
        self.goals = dict(settings.search().goals.counts)
        self.counts: dict[Group, int] = {}
        self.failures: dict[Group, SearchFinding] = {}

    def add(self, result: RangeResult) -> SearchFinding | None:
        """Add the next result; return its failure if that is the first of its group."""
        self.runs += result.runs
        self.cpu_s += result.cpu_s
        self.virtual_ns += result.virtual_ns
        self.looked_at += result.looked_at
        for name, runs in result.goals.items():
            self.goals[name] += runs
        for group, runs in result.counts:
            self.counts[group] = self.counts.get(group, 0) + runs
        if result.finding is None:
            return None
        group = Group.of(result.finding.name, result.finding.text)
        is_new = group not in self.failures
        return self.failures.setdefault(group, result.finding) if is_new else None

    @property
    def virtual_h(self) -> float:
        """Return the hours of virtual time."""
        return self.virtual_ns / _NS_PER_S / _S_PER_H


def progress_line(sums: Sums) -> str:
    """Return the progress of a search, on one line."""
    pace = sums.runs / sums.cpu_s if sums.cpu_s else 0
    goals = sum(count > 0 for count in sums.goals.values())
    return (
        f"{sums.runs:,} runs, {pace:,.0f} a second, {sums.virtual_h:,.0f} h of virtual time, "
        f"{goals} of {len(sums.goals)} goals, {len(sums.failures)} failures"
    )


def report_lines(sums: Sums, written: Mapping[int, str]) -> Iterator[str]:
    """Yield the lines of a report; `written` maps the runs of failures to their files."""
    for group, finding in sums.failures.items():
        yield from _failure(finding, sums.counts[group], written.get(finding.run))
    yield ""
    yield from _goals(sums)
    count = len(sums.failures)
    failures = f"{count or 'no'} failure{'s' * (count != 1)}"
    yield f"{sums.runs:,} runs of {plain(sums.settings.loop)}: {failures}"
    yield f"{sums.cpu_s:.1f} s of processor time, {sums.virtual_h:,.0f} h of virtual time"


def _failure(finding: SearchFinding, count: int, file: str | None) -> Iterator[str]:
    yield ""
    yield f"{finding.name}: {plain(finding.sentence)}"
    yield f"  {plain(finding.text)}"
    runs = "1 run" if count == 1 else f"{count} runs"
    yield f"  first in run {finding.run}; {runs} in total"
    if finding.reproduced is False:
        yield f"  {NOT_REPRODUCED}"
    yield from (f"  {plain(line)}" for line in finding.printed)
    if file is not None:
        yield f"  written to {plain(file)}"


def _goals(sums: Sums) -> Iterator[str]:
    """Yield the number of goals that were reached, and the names of the others."""
    never = [name for name, count in sums.goals.items() if not count]
    yield (
        f"{len(sums.goals) - len(never)} of {len(sums.goals)} goals reached, "
        f"counted in {sums.looked_at:,} of the runs"
    )
    if never:
        yield f"not reached: {', '.join(never)}"


def report_json(sums: Sums, written: Mapping[int, str]) -> str:
    """Return a report as JSON."""
    return json_text(
        {
            "loop": sums.settings.loop,
            "seed": sums.settings.seed,
            "runs": sums.runs,
            "cpu_s": sums.cpu_s,
            "virtual_s": sums.virtual_ns / _NS_PER_S,
            "goals": sums.goals,
            "runs_looked_at": sums.looked_at,
            "failures": [
                {
                    "name": finding.name,
                    "sentence": finding.sentence,
                    "text": plain(finding.text),
                    "printed": list(finding.printed),
                    "run": finding.run,
                    "count": sums.counts[group],
                    "reproduced": finding.reproduced,
                    "file": written.get(finding.run),
                }
                for group, finding in sums.failures.items()
            ],
        }
    )
