"""`simloop bench hooks`: measure what hooks cost in real time."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from simloop.bench.hook_bench import CONFIDENCE, HookBench, HookRow, Interval, given_hooks, tried
from simloop.bench.hook_processes import figures_of, measured, table
from simloop.bench.report import HookReport, read_report
from simloop.cli.options import duration, formats
from simloop.cli.terminal import json_text, note, out, out_lines, plain
from simloop.engine.hooks import BEFORE_TOOL_CALL, POINTS
from simloop.errors import ScenarioError
from simloop.kernel.durations import format_duration, rounded_duration, rounded_number
from simloop.recordings.hook_times import hook_times
from simloop.world.user_functions import UserFunction


def _percent(text: str) -> float:
    if re.fullmatch(r"\d{1,4}(\.\d{1,3})?%", text) is None:
        raise click.BadParameter("a percentage is a number and a sign, such as 20%")
    return float(text[:-1]) / 100


@click.group("bench")
def command() -> None:
    """Measure what hooks cost in real time."""


@command.command("hooks")
@click.argument("hooks", nargs=-1, metavar="[MODULE:ATTRIBUTE...]")
@click.option("--from", "session", metavar="SESSION...", type=click.Path(path_type=Path),
              help="Show what command hooks took in sessions of coding agents: files, or folders "
              "of them.")  # fmt: skip
@click.option("--command", "commands", metavar="COMMAND", multiple=True,
              help="Measure a command hook as a process, and several also at once.")  # fmt: skip
@click.option("--at", "point", type=click.Choice(POINTS), default=BEFORE_TOOL_CALL,
              show_default=True, help="The point whose input --command gets.")  # fmt: skip
@click.option("--against", metavar="MODULE:ATTRIBUTE|FILE|none", default="none", show_default=True,
              help="Compare with another hook, measured at the same time, or with the JSON of an "
              "earlier report.")  # fmt: skip
@click.option("--max", "max_ns", callback=duration, metavar="DURATION",
              help="Fail if a hook costs more, such as 50us.")  # fmt: skip
@click.option("--fail-on", type=_percent, metavar="PERCENT",
              help="Fail if a cost has grown by more, such as 20%.")  # fmt: skip
@formats
@click.pass_context
def hooks(
    context: click.Context, *, hooks: tuple[str, ...], session: Path | None,
    commands: tuple[str, ...], point: str, against: str, max_ns: int | None, fail_on: float | None,
    output_format: str,
) -> int:  # fmt: skip
    """Measure hooks at the four points, in real time per call.

    A MODULE:ATTRIBUTE is a hook, or Hooks with several. A function is measured at each point whose
    input its first parameter may have, by its annotation. Hooks of coding agents are commands: give
    their sessions or their command lines. The exit code is 1 above a limit.
    """
    if session is not None or commands:
        if against != "none" or fail_on is not None or (commands and (hooks or session)):
            raise click.UsageError("measure --command, or read sessions with --from, and only that")
        sessions = [session, *map(Path, hooks)] if session else []
        found = hook_times(sessions) if sessions else (measured(commands, point), 0)
        return _told(figures_of(*found), found[1], max_ns, output_format)
    if not hooks:
        raise click.UsageError("name a hook, --from or --command")
    if fail_on is not None and against == "none":
        raise click.UsageError("--fail-on needs --against, a hook or an earlier report")
    given, unfit = tried(hook for name in hooks for hook in given_hooks(name))
    others = _others(against) if ":" in against else {}
    earlier = None if against == "none" or others else read_report(Path(against))
    for failure in unfit:
        note(f"not measured: {plain(failure.message)}")
    bench = context.obj or HookBench()
    round_ns = bench.round_ns()
    rows = [bench.measure(hook, round_ns, others.get(hook.point)) for hook in given]
    report = HookReport(round_ns=round_ns, hooks=rows)
    if earlier is not None:
        report.compare_with(earlier)
    if against != "none" and all(row.growth is None for row in report.hooks):
        hint = "compare at one point; a hook of a report has the same name too"
        message = f"nothing to compare: {plain(against)} has no hook at these points"
        raise ScenarioError(message, key="--against", hint=hint)
    if output_format == "json":
        out(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        out_lines(_lines(report, against))
    failures = list(report.failures(max_ns=max_ns, fail_on=fail_on))
    for line in failures:
        note(f"FAILED  {line}")
    return 1 if failures else 0


def _told(rows: list[Any], session_ns: int, max_ns: int | None, output_format: str) -> int:
    if output_format == "json":
        out(json_text({"session_ns": session_ns, "hooks": rows}, indent=2))
    else:
        out_lines(map(plain, table(rows)))
    slow = [row for row in rows if max_ns is not None and row["p50_ns"] > max_ns]
    for row in slow:
        words = f"{row['hook']} at {row['point']} takes {rounded_duration(row['p50_ns'])}"
        note(f"FAILED  {plain(words)} in every second call, and that is above --max")
    return 1 if slow else 0


def _others(name: str) -> dict[str, UserFunction]:
    others: dict[str, UserFunction] = {}
    for hook in tried(given_hooks(name))[0]:
        if hook.point in others:
            message = f"`{name}` has several hooks at {hook.point}"
            raise ScenarioError(message, key="--against", hint="name one hook to compare with")
        others[hook.point] = hook.function
    return others


def _lines(report: HookReport, against: str) -> Iterator[str]:
    yield f"Real time per call, on Python {report.python}, {report.machine}."
    for row in report.hooks:
        yield from ("", *_hook(row, plain(against)))
    yield f"""
The cost in a run is a median of differences: batches of calls less batches of
the empty point, in turn. Its bounds are a {CONFIDENCE * 100:g} % interval, which decides,
widened by 2 % or 10 ns. Garbage collection is off, and no sample is left out.
A round of the reference loop without hooks takes {rounded_duration(report.round_ns)}."""


def _hook(row: HookRow, against: str) -> Iterator[str]:
    yield f"{plain(row.hook)} at {row.point}"
    figures = (
        ("the hook alone", rounded_duration(max(0, row.hook_ns)), ""),
        ("simloop around it", rounded_duration(row.engine_ns), ""),
        ("both, in a run", rounded_duration(row.cost.median), _between(row.cost)),
        ("of a round", f"{row.share:.1%}", ""),
        ("virtual time", format_duration(row.virtual_ns), ""),
    )
    width = max(len(figure) for _, figure, _ in figures)
    for name, figure, detail in figures:
        yield f"  {name:17}  {figure:>{width}}  {detail}".rstrip()
    if row.growth is not None:
        differs = "slower" if row.growth.low > 0 else "faster"
        yield f"  against {against}: {'no difference is seen' if row.growth.has_zero else differs}"
        if row.against is not None:
            yield f"    {rounded_duration(row.against.median)}, {_between(row.against)}"
        low, high = _ratio(row.growth.low, 3), _ratio(row.growth.high, 3)
        yield f"    {_ratio(row.growth.median)}, between {low} and {high}"
    elif against != "none":
        yield f"  against {against}: nothing, because that is not at {row.point}"


def _between(interval: Interval) -> str:
    low, high = rounded_duration(interval.low, 3), rounded_duration(interval.high, 3)
    return f"between {low} and {high}"


def _ratio(growth: float, digits: int = 2) -> str:
    return f"{growth:+.1%}" if growth < 1 else f"{rounded_number(1 + growth, digits)} times"
