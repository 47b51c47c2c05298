"""`simloop fuzz`: search generated worlds for failures of a loop, and report them.

With `--runs` and `--seed` the output is equal on every machine and with any `--jobs`, except for
the times in the last line.
"""

import os
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import click
from msgspec.structs import asdict

from simloop.check.invariants.judge import added_names
from simloop.cli import options
from simloop.cli.process import signals_to_stop
from simloop.cli.terminal import StatusLine, json_text, note, out, out_lines, plain
from simloop.fuzz import executor
from simloop.fuzz.search import Group
from simloop.runs.isolation import can_isolate
from simloop.runs.loop import check_loop_exists
from simloop.scenario.loader import load_declared, parse_scenario
from simloop.scenario.writing import create_schema, free_path, scenario_text
from simloop.trace.storage import create_folder, write_file

_NOT_REPRODUCED = "alone, in a new process, it does not fail: the loop keeps state between runs"
_S_PER_H, _NS_PER_S = 3_600, 1_000_000_000
_OF_FILE = ("scenario", "shown")  # the parts of a finding that only its file has
_USUAL_BUDGET_NS = 30 * _NS_PER_S


@click.command("fuzz")
@options.invariants_of_ones_own
@options.loop_option("--loop",
    help="The loop to test: a design, a version of one, or module:attribute for your own; by "
    "default that of the first --from, or the design `reference`.")  # fmt: skip
@options.program_option
@click.option("--budget", "budget_ns", callback=options.duration, metavar="DURATION",
              help="Search for this much time of the processor; by default 30s.")  # fmt: skip
@click.option("--runs", type=click.IntRange(1),
              help="Make this many runs, instead of searching for a time.")  # fmt: skip
@click.option("--provider", type=click.Choice(["strict", "any"]),
              help="The provider of your own agent: one that keeps the contract of its API, by "
              "default, or also one that breaks it, by equal ids or missing finish reasons.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**63, max_open=True), default=0, show_default=True,
              help="The seed of the search.")  # fmt: skip
@click.option("--from", "sources", multiple=True, metavar="PATH|NAME",
              shell_complete=options.scenarios_and_files,
              help="Search variations of this scenario, such as one with your agent's tools; may "
              "be repeated.")  # fmt: skip
@click.option("--declare", "declared", metavar="FILE",
              type=click.Path(path_type=Path, dir_okay=False, exists=True),
              help="A file of what your agent is meant to do, as `declares` of a scenario: limits, "
              "retry, mutating, deviations.")  # fmt: skip
@click.option("--out", "folder", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
              help="Shrink each failure, and write it to FOLDER as a scenario file when it is "
              "found.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1),
              help="The number of processes that search; by default 1, and one for each core if "
              "the runs of your own agent are slow.")  # fmt: skip
@click.option("--isolate/--no-isolate", default=None,
              help="Make each run in a process of its own; by default if your own agent keeps "
              "something from one run for the next.")  # fmt: skip
@options.formats
def command(
    *, loop: str | None, program: str, budget_ns: int | None, provider: str, declared: Path | None,
    runs: int | None, seed: int, sources: tuple[str, ...], folder: Path | None, jobs: int | None,
    isolate: bool | None, output_format: str,
) -> int:  # fmt: skip
    """Search generated worlds for failures of a loop.

    A run fails if it violates an invariant (see `simloop invariants`), raises an error, or does not
    end although the model answers every request without a fault. The exit code is 1 if one fails.
    """
    bases = [each.scenario() for each in options.targets_of(sources)]
    of_bases = next((each.loop for each in bases), "reference")
    loop = options.loop_of_program(program, loop) if program else loop or of_bases
    check_loop_exists(loop)
    scenarios = tuple(map(scenario_text, bases))
    stated = load_declared(declared) if declared else None
    declares = stated.model_dump_json(exclude_defaults=True, by_alias=True) if stated else ""
    settings = executor.SearchSettings(loop, seed, scenarios, added_names(), isolate,
                                       breaches=provider == "any", declares=declares)  # fmt: skip
    budget_ns = _USUAL_BUDGET_NS if budget_ns is None and runs is None else budget_ns
    before, sums = _written_here(), Sums(settings)
    words = [("--from", each) for each in sources] + [("--declare", declared)] * bool(declared)
    flags = "".join(f" {name} {shlex.quote(str(value))}" for name, value in words)
    files = _Files(folder, settings, flags) if folder else None
    warm = jobs is None and can_isolate() and sums.is_slow
    jobs = jobs or ((os.cpu_count() or 1) if warm else 1)
    here = jobs == 1
    ranges = executor.Ranges(
        runs, None if budget_ns is None else budget_ns / _NS_PER_S,
        most=sys.maxsize if here else executor.MOST_OF_WORKER, shrinks=files is not None,
    )  # fmt: skip
    with (
        StatusLine(sys.stderr) as status,
        signals_to_stop(partial(_stop, ranges, here=here)) as came,
        suppress(KeyboardInterrupt),
        executor.workers(jobs, forked=warm) as pool,
    ):
        for result in executor.results_of(pool, jobs, settings, ranges):
            for each in sums.add(result):
                if output_format == "text":
                    first = plain(each.text.partition("\n")[0])
                    out(f"FAILED {each.name} in run {each.run}: {first}")
                if files:
                    files.write(each)
            status.say(progress_line(sums))
    if came:
        note("interrupted: the report covers the runs so far")
    is_inside = folder and folder.samefile(".")
    if changed := [] if is_inside else sorted(name for name, _ in _written_here() - before):
        note(plain(f"the working folder has changed: {', '.join(changed)}; each run finds what the "
                   "others have left there: let the agent write to simloop.folder()"))  # fmt: skip
    written = files.written if files else {}
    is_json = output_format == "json"
    out_lines([report_json(sums, written)] if is_json else report_lines(sums, written))
    return 128 + came[0] if came else int(bool(sums.failures))


def _written_here() -> set[tuple[str, int]]:
    """Return the files of the working folder, but its own output, with the times of writing."""
    with suppress(OSError):  # one may be gone in the meantime
        own = {os.fstat(each).st_ino for each in (1, 2)}
        files = [each for each in os.scandir() if each.is_file() and each.inode() not in own]
        return {(each.name, each.stat().st_mtime_ns) for each in files}
    return set()


def _stop(ranges: executor.Ranges, *, here: bool) -> None:
    ranges.stopped = True
    if here:  # workers finish their ranges
        raise KeyboardInterrupt


class _Files:
    """The files of failures in a folder; `written` has their names by the texts of scenarios."""

    def __init__(self, folder: Path, settings: executor.SearchSettings, flags: str) -> None:
        create_folder(folder)
        self._folder, self._settings, self._flags = folder, settings, flags
        self.written: dict[str, Path] = {}

    def write(self, finding: executor.SearchFinding) -> None:
        """Write the file of a failure."""
        if not finding.scenario:
            note(f"no file can hold the scenario of {finding.name} in run {finding.run}")
            return
        if finding.scenario not in self.written:  # equal scenarios share one file
            known = {*self.written.values()}
            path = free_path(self._folder, finding.name.lower(), known.__contains__)
            self.written[finding.scenario] = path
            settings = self._settings
            command = f"simloop fuzz --loop {shlex.quote(settings.loop)} --seed {settings.seed}"
            command += " --provider any" * settings.breaches + self._flags
            again = f"pytest: def test_it(simloop_run): simloop_run({path.name!r})"
            if finding.reproduced is False:
                again = _NOT_REPRODUCED
            found = f"found by: {command} --runs {finding.run}"
            comment = f"{finding.name}: {finding.sentence}\n{finding.shown}\n{found}\n{again}"
            text = scenario_text(parse_scenario(finding.scenario), comment)
            create_schema(self._folder)
            write_file(path, text.encode())


class Sums:
    """The sums over the results of a search. `failures` has the first failure of each group."""

    def __init__(self, settings: executor.SearchSettings) -> None:
        self.settings = settings
        self.runs = self.virtual_ns = self.looked_at = self.requests = 0
        self.cpu_s = 0.0
        search = settings.search()
        self.goals, self.is_slow = Counter(search.goals.counts), search.is_slow
        self.is_of_agent, self.unseen = search.is_of_agent, search.unseen
        self.counts, self.calls = Counter[Group](), Counter[str]()
        self.failures: dict[Group, executor.SearchFinding] = {}

    def add(self, result: executor.RangeResult) -> list[executor.SearchFinding]:
        """Add the next result; return those of its failures that are the first of a group."""
        self.runs += result.runs
        self.cpu_s += result.cpu_s
        self.virtual_ns += result.virtual_ns
        self.looked_at += result.looked_at
        self.requests += result.requests
        self.goals.update(result.goals)
        self.calls.update(result.calls)
        self.counts.update(dict(result.counts))
        groups = {Group.of(each.name, each.text): each for each in result.findings}
        new = {group: each for group, each in groups.items() if group not in self.failures}
        self.failures |= new
        return [*new.values()]

    @property
    def virtual_h(self) -> float:
        return self.virtual_ns / _NS_PER_S / _S_PER_H


def progress_line(sums: Sums) -> str:
    """Return the progress of a search, on one line."""
    pace = sums.runs / sums.cpu_s if sums.cpu_s else 0
    goals = sum(count > 0 for count in sums.goals.values())
    return (
        f"{sums.runs:,} runs, {pace:,.0f} a second, {sums.virtual_h:,.0f} h of virtual time, "
        f"{goals} of {len(sums.goals)} goals, {len(sums.failures)} failures"
    )


def report_lines(sums: Sums, written: Mapping[str, Path]) -> Iterator[str]:
    """Yield the lines of a report; `written` maps the scenarios of failures to their files."""
    for group, finding in sums.failures.items():
        yield from _failure(finding, sums.counts[group], written.get(finding.scenario))
    yield ""
    if sums.is_of_agent and sums.runs and not sums.requests:
        yield "no run has asked a model: `simloop run` with a scenario of one prompt shows why"
    if sums.calls:
        yield from _calls(sums.calls, sums.unseen)
    if not sums.is_of_agent:  # an agent has no use for most of them
        yield from _goals(sums)
    count = len(sums.failures)
    failures = f"{count or 'no'} failure{'s' * (count != 1)}"
    yield f"{sums.runs:,} runs of {plain(sums.settings.loop)}: {failures}"
    yield f"{sums.cpu_s:.1f} s of processor time, {sums.virtual_h:,.0f} h of virtual time"


def _failure(finding: executor.SearchFinding, count: int, file: Path | None) -> Iterator[str]:
    yield ""
    yield f"{finding.name}: {plain(finding.sentence)}"
    yield f"  world:    {plain(finding.world) or 'no fault'}"
    yield f"  result:   {plain(' | '.join(map(str.strip, finding.shown.splitlines())))}"
    yield f"  found in {count} world{'s' * (count != 1)}, first in run {finding.run}"
    if finding.reproduced is False:
        yield f"  {_NOT_REPRODUCED}"
    if file is not None:
        yield f"  file:     {plain(str(file))}"
        twice = finding.name == executor.DIVERGED
        yield f"  run it:   simloop {'check' if twice else 'run'} {shlex.quote(plain(str(file)))}"


def _calls(calls: Mapping[str, int], unseen: Sequence[str]) -> Iterator[str]:
    called = [f"{plain(name)} {count:,}" for name, count in calls.items() if count]
    never = [plain(name) for name, count in calls.items() if not count]
    yield f"calls: {', '.join(called) or 'none'}"
    if unseen:
        names = ", ".join(map(plain, unseen))
        yield f"not seen to run: {names}; `simloop.traced` lets them fail, and judges their runs"
    if never:
        yield f"never called: {', '.join(never)}"


def _goals(sums: Sums) -> Iterator[str]:
    never = [name for name, count in sums.goals.items() if not count]
    reached = f"{len(sums.goals) - len(never)} of {len(sums.goals)} goals reached"
    yield f"{reached}, counted in {sums.looked_at:,} of the runs"
    if never:
        yield f"not reached: {', '.join(never)}"


def report_json(sums: Sums, written: Mapping[str, Path]) -> str:
    """Return a report as JSON."""
    failures = [
        {
            **{key: each for key, each in asdict(finding).items() if key not in _OF_FILE},
            "text": plain(finding.text), "world": plain(finding.world),
            "count": sums.counts[group],
            "file": str(file) if (file := written.get(finding.scenario)) else None,
        }
        for group, finding in sums.failures.items()
    ]  # fmt: skip
    return json_text({
        "loop": sums.settings.loop, "seed": sums.settings.seed, "runs": sums.runs,
        "cpu_s": sums.cpu_s, "virtual_s": sums.virtual_ns / _NS_PER_S, "goals": sums.goals,
        "runs_looked_at": sums.looked_at, "calls": sums.calls, "failures": failures,
    })  # fmt: skip
