"""The report of a search: as lines, and as JSON.

Not here: the search (fuzz/search.py). The rule to keep: only the last line has times, so that two
searches with one seed and one number of runs differ in nothing else.
"""

from collections.abc import Iterator, Mapping

from simloop.cli.terminal import json_text, plain
from simloop.fuzz.failures import Finding
from simloop.fuzz.search import FuzzReport

_S_PER_H = 3_600


def progress_line(report: FuzzReport) -> str:
    """Return what has been done so far, on one line."""
    pace = report.runs / report.cpu_s if report.cpu_s else 0
    goals = sum(count > 0 for count in report.goals.values())
    return (
        f"{report.runs:,} runs, {pace:,.0f} a second, {report.virtual_s / _S_PER_H:,.0f} h of "
        f"virtual time, {report.edges} edges, {report.reached} situations, "
        f"{goals} of {len(report.goals)} goals, {len(report.findings)} failures"
    )


def report_lines(report: FuzzReport, written: Mapping[int, str]) -> Iterator[str]:
    """Yield the lines of a report; `written` has the files of its findings by their numbers."""
    for number, finding in enumerate(report.findings):
        yield from _finding(finding, written.get(number))
    yield ""
    yield from _goals(report)
    found = len(report.findings)
    yield (
        f"{report.runs:,} runs of {plain(report.loop)}, {report.edges} edges, "
        f"{report.reached} situations: {found or 'no'} failure{'s' * (found != 1)}"
    )
    yield f"{report.cpu_s:.1f} s of computing, {report.virtual_s / _S_PER_H:,.0f} h of virtual time"


def _finding(finding: Finding, file: str | None) -> Iterator[str]:
    yield ""
    yield f"{finding.name}: {plain(finding.breach.sentence)}"
    yield f"  {plain(finding.breach.text)}"
    runs = "1 run" if finding.count == 1 else f"{finding.count} runs"
    seed = "" if finding.seed is None else f" of seed {finding.seed}"
    yield f"  in run {finding.run}{seed}, in {runs} in all"
    if not finding.reproduced:
        yield "  a run of the scenario alone does not fail: the loop keeps something for it"
    if file is not None:
        yield f"  written to {plain(file)}"


def _goals(report: FuzzReport) -> Iterator[str]:
    """Yield how many rare situations were reached, and the names of those that were not."""
    never = [name for name, count in report.goals.items() if not count]
    yield (
        f"{len(report.goals) - len(never)} of {len(report.goals)} goals reached, "
        f"in the {report.looked_at:,} runs that were looked at"
    )
    if never:
        yield f"never reached: {', '.join(never)}"


def report_json(report: FuzzReport, written: Mapping[int, str]) -> str:
    """Return a report as JSON."""
    return json_text(
        {
            "loop": report.loop,
            "seed": report.seed,
            "arm": report.arm,
            "runs": report.runs,
            "cpu_s": report.cpu_s,
            "virtual_s": report.virtual_s,
            "edges": report.edges,
            "situations": report.reached,
            "goals": dict(report.goals),
            "runs_looked_at": report.looked_at,
            "failures": [
                {
                    "rule": finding.name,
                    "sentence": finding.breach.sentence,
                    "text": plain(finding.breach.text),
                    "run": finding.run,
                    "count": finding.count,
                    "reproduced": finding.reproduced,
                    "file": written.get(number),
                }
                for number, finding in enumerate(report.findings)
            ],
        }
    )
