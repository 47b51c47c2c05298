"""`simloop bench hooks`: measure what hooks cost in real time."""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from simloop.bench.hook_bench import (
    CONFIDENCE,
    HookBench,
    HookRow,
    Interval,
    given_hooks,
    tried,
)
from simloop.bench.report import HookReport, plot_of
from simloop.cli.options import formats
from simloop.cli.terminal import note, out, out_lines, plain
from simloop.kernel.durations import (
    format_duration,
    parse_duration,
    rounded_duration,
)
from simloop.trace.storage import write_file


def _duration(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.group("bench")
def command() -> None:
    """Measure what hooks cost in real time."""


@command.command("hooks")
@click.argument("hooks", nargs=-1, required=True, metavar="MODULE:ATTRIBUTE...")
@click.option("--max", "max_ns", type=_duration, metavar="DURATION",
              help="Fail if a hook costs more, such as 50us.")  # fmt: skip
@formats("json")
@click.option("--plot", metavar="FILE.svg", type=click.Path(path_type=Path),
              help="Draw the cost of the hooks.")  # fmt: skip
@click.pass_context
def hooks(
    context: click.Context,
    *,
    hooks: tuple[str, ...],
    max_ns: int | None,
    output_format: str,
    plot: Path | None,
) -> int:
    """Measure hooks at the four points, in real time per call.

    A MODULE:ATTRIBUTE is a hook, or Hooks with several. A function is measured at each point whose
    input its first parameter may have, by its annotation. The exit code is 1 above a limit.
    """
    given, unfit = tried(hook for name in hooks for hook in given_hooks(name))
    for failure in unfit:
        note(f"not measured: {plain(failure.message)}")
    bench = context.obj or HookBench()
    round_ns = bench.round_ns()
    rows = [bench.measure(hook, round_ns) for hook in given]
    report = HookReport(round_ns=round_ns, hooks=rows)
    if plot is not None:
        write_file(plot, plot_of(report).encode())
    if output_format == "json":
        out(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        out_lines(_lines(report))
    failures = list(report.failures(max_ns))
    for line in failures:
        note(f"FAILED  {line}")
    return 1 if failures else 0


def _lines(report: HookReport) -> Iterator[str]:
    yield f"Real time per call, on Python {report.python}, {report.machine}."
    for row in report.hooks:
        yield from ("", *_hook(row))
    yield f"""
The cost in a run is a median of differences: batches of calls less batches of
the empty point, in turn. Its bounds are a {CONFIDENCE * 100:g} % interval, which decides,
widened by 2 % or 10 ns. Garbage collection is off, and no sample is left out.
A round of the reference loop without hooks takes {rounded_duration(report.round_ns)}."""


def _hook(row: HookRow) -> Iterator[str]:
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


def _between(interval: Interval) -> str:
    low, high = rounded_duration(interval.low, 3), rounded_duration(interval.high, 3)
    return f"between {low} and {high}"
