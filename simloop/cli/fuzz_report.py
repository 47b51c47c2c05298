"""The report of a search: as lines, and as JSON.

Not here: the search (fuzz/search.py). The rule to keep: only the last line has times, so that the
other lines are equal for two searches with the same seed and number of runs.
"""

from collections.abc import Iterator, Mapping

from simloop.cli.terminal import json_text, plain
from simloop.fuzz.failures import FoundFailure
from simloop.fuzz.search import FuzzReport

_S_PER_H = 3_600


def progress_line(report: FuzzReport) -> str:
    """Return the progress of a search, on one line."""
    pace = report.runs / report.cpu_s if report.cpu_s else 0
    goals = sum(count > 0 for count in report.goals.values())
    return (
        f"{report.runs:,} runs, {pace:,.0f} a second, {report.virtual_s / _S_PER_H:,.0f} h of "
        f"virtual time, {report.edges} edges, {report.reached} situations, "
        f"{goals} of {len(report.goals)} goals, {len(report.failures)} failures"
    )


def report_lines(report: FuzzReport, written: Mapping[int, str]) -> Iterator[str]:
    """Yield the lines of a report; `written` maps the numbers of failures to their files."""
    for number, found in enumerate(report.failures):
        yield from _found_failure(found, written.get(number))
    yield ""
    yield from _goals(report)
    count = len(report.failures)
    failures = f"{count or 'no'} failure{'s' * (count != 1)}"
    yield (
        f"{report.runs:,} runs of {plain(report.loop)}, {report.edges} edges, "
        f"{report.reached} situations: {failures}"
    )
    hours = f"{report.virtual_s / _S_PER_H:,.0f} h of virtual time"
    yield f"{report.cpu_s:.1f} s of processor time, {hours}"


def _found_failure(found: FoundFailure, file: str | None) -> Iterator[str]:
    yield ""
    yield f"{found.name}: {plain(found.failure.sentence)}"
    yield f"  {plain(found.failure.text)}"
    runs = "1 run" if found.count == 1 else f"{found.count} runs"
    seed = "" if found.seed is None else f" of seed {found.seed}"
    yield f"  first in run {found.run}{seed}; {runs} in total"
    if not found.reproduced:
        yield "  a single run does not reproduce it: the loop keeps state between runs"
    if file is not None:
        yield f"  written to {plain(file)}"


def _goals(report: FuzzReport) -> Iterator[str]:
    """Yield the number of goals that were reached, and the names of the others."""
    never = [name for name, count in report.goals.items() if not count]
    yield (
        f"{len(report.goals) - len(never)} of {len(report.goals)} goals reached, "
        f"counted in {report.looked_at:,} of the runs"
    )
    if never:
        yield f"not reached: {', '.join(never)}"


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
                    "name": found.name,
                    "sentence": found.failure.sentence,
                    "text": plain(found.failure.text),
                    "run": found.run,
                    "count": found.count,
                    "reproduced": found.reproduced,
                    "file": written.get(number),
                }
                for number, found in enumerate(report.failures)
            ],
        }
    )
