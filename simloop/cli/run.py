"""`simloop run`: run scenarios and say whether they end as expected."""

import contextlib
from pathlib import Path
from typing import Any

import click

from simloop.check.trial import Until, verify
from simloop.cli.options import Target, formats, scenario_settings, targets_of
from simloop.cli.report import Report, made, print_each, print_json
from simloop.cli.terminal import cells, note, out_lines, plain
from simloop.errors import RunawayRun, ScenarioError
from simloop.runs.options import RunOptions
from simloop.runs.patience import OVERDUE, Overdue, patience
from simloop.runs.result import last_raised
from simloop.runs.run import Simulation
from simloop.scenario.catalog import name_of
from simloop.scenario.conversation import SentList
from simloop.scenario.schema import Scenario
from simloop.scenario.yaml import MAX_BYTES
from simloop.trace.codec import write_trace
from simloop.trace.looptrace import LoopTrace
from simloop.trace.requests import requests
from simloop.trace.storage import read_file, write_file
from simloop.trace.timeline import timeline


@click.command("run")
@scenario_settings
@click.option("--trace", "trace_file", metavar="FILE", type=click.Path(path_type=Path),
              help="Write the trace to FILE, even if the run fails. Requires a single scenario.",
)  # fmt: skip
@click.option("--update", is_flag=True,
              help="Take the requests of the run into `expect: sent` of its file, and show what "
              "changes there.")  # fmt: skip
@click.option("--real-hooks", is_flag=True,
              help="Run the command hooks of a scenario on this machine.")  # fmt: skip
@click.option("--weather", metavar="NAME,...",
              help="Play a scenario under faults that come by chance: rate-limit, cut, slow-tools "
              "and the like, or a site; NAME+NAME is both. Only bounds are expected.")  # fmt: skip
@click.option("--seeds", type=click.IntRange(1),
              help="The runs in each weather; by default 50. A single one is shown.")  # fmt: skip
@click.option("--html", metavar="FILE", type=click.Path(path_type=Path),
              help="Write a page of the first run that fails in a weather.")  # fmt: skip
@formats
def command(
    *, targets: tuple[str, ...], given: RunOptions, trace_file: Path | None, update: bool,
    real_hooks: bool, weather: str | None, seeds: int | None, html: Path | None, output_format: str,
) -> int:  # fmt: skip
    """Run scenarios and check their expectations.

    A PATH is a scenario file, or a folder with *.simloop.yaml files in it or below it. A NAME is
    that of a bundled scenario (see: simloop list), `theme/`, or `all`. A single scenario is shown
    with its timeline, several with one verdict each and a count. The exit code is the worst of all.
    """
    loop = given["loop"]
    given = {**given, "real_hooks": True} if real_hooks else given
    found = list(targets_of(targets))
    if trace_file is not None:
        if len(found) != 1:
            raise click.UsageError(f"--trace needs a single scenario, and these are {len(found)}")
        with contextlib.suppress(OSError):  # one of them is not there, so they are not the same
            if isinstance(found[0].file, Path) and trace_file.samefile(found[0].file):
                raise click.UsageError("--trace would overwrite the scenario")
    if weather is not None:
        if len(found) != 1 or trace_file or update:
            raise click.UsageError("--weather takes one scenario, and neither --trace nor --update")
        from simloop.cli.weather import play_weathers  # noqa: PLC0415 - most runs need none

        return play_weathers(found[0], weather, given, html, seeds=seeds or 50, form=output_format)
    if seeds or html:
        raise click.UsageError("--seeds and --html need --weather")
    for target in found if update else ():
        if isinstance(target.file, Path):
            _update(target.file, given)
    reports = made((_play(target, given, trace_file) for target in found), loop)
    if output_format == "json":
        return print_json(reports)
    if len(found) == 1:
        report = next(reports)
        if report.verdict.trace is not None:
            out_lines(timeline(report.verdict.trace))
            out_lines(("", *report.lines()))
        report.explain()
        for line in last_raised(report.verdict.raised) if report.exit_code else ():
            note(line)
        return report.exit_code
    return print_each(reports, max(cells(plain(target.name)) for target in found))


def _play(target: Target, given: RunOptions, trace_file: Path | None) -> Report:
    report = Report.on(target)
    if report.path is not None:
        begun: list[Simulation] = []
        try:
            with patience() as begins:
                begins()
                report.verdict = verify(report.path, Until.END, begun.append, **given)
        except Overdue as error:
            place = f", at {error}" * bool(str(error))
            report.verdict.errors.append(RunawayRun(f"{OVERDUE}{place}"))
        finally:  # after any ending, even Ctrl-C
            if trace_file is not None and begun:
                try:
                    write_trace(begun[0].trace, trace_file)
                except ScenarioError as error:
                    report.verdict.errors.append(error)
    return report


def _update(path: Path, given: RunOptions) -> None:
    import difflib  # noqa: PLC0415 - most runs need none

    from simloop.scenario.writing import with_sent  # noqa: PLC0415 - as above

    if name_of(path):
        raise ScenarioError("a bundled scenario is not updated", path=path, hint="copy it first")
    verdict = verify(path, Until.END, **given)
    trace, scenario = verdict.trace, verdict.scenario
    if trace is None or trace.footer is None or scenario is None:
        note(plain(f"{path}: not updated, because the run has no outcome"))
        return
    is_met = not any(each.key.startswith("sent") for each in verdict.mismatches)
    if scenario.expect.sent is not None and is_met:
        note(plain(f"{path}: nothing to update"))
        return
    old = read_file(path, MAX_BYTES).decode("utf-8-sig")
    new = with_sent(old, _sent(scenario, trace), str(path))
    write_file(path, new.encode())
    names = str(path), f"{path} (updated)"
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), *names, lineterm=""):
        note(plain(line))


def _sent(scenario: Scenario, trace: LoopTrace) -> Any:
    has_parties = bool(scenario.models) and not isinstance(scenario.expect.sent, list)
    lists: dict[str, SentList] = {}
    for each in requests(trace.entries):
        lists.setdefault(each.party if has_parties else "", SentList()).add(each)
    items = {name: each.items for name, each in lists.items()}
    return items if has_parties else items.get("", [])
