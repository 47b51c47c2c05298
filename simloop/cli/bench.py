"""`simloop bench hooks`: measure what hooks cost in real time.

Not here: the measurement (bench), the tables (bench_text.py) and the plot (bench/plot.py). The rule
to keep: what can be refused is refused before anything is measured.
"""

import re
from pathlib import Path

import click
import msgspec

from simloop.bench.given import GivenHook, given_hooks
from simloop.bench.hook_bench import (
    UnfitRow,
    measure_counts,
    measure_given,
    measure_harness,
    measure_policies,
    measure_shapes,
    round_ns,
    tried,
)
from simloop.bench.report import HookReport, read_report
from simloop.cli.bench_text import lines_of
from simloop.cli.terminal import note, out_exactly, out_lines
from simloop.errors import ScenarioError
from simloop.kernel.durations import parse_duration
from simloop.trace.storage import write_file
from simloop.world.user_function import UserFunction


class _Duration(click.ParamType[int]):
    name = "DURATION"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return nanoseconds."""
        try:
            return parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Percent(click.ParamType[float]):
    name = "PERCENT"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return a part of one."""
        if re.fullmatch(r"\d{1,4}(\.\d{1,3})?%", value) is None:
            self.fail("a percentage is a number and a sign, such as 20%", param, ctx)
        return float(value[:-1]) / 100


@click.group("bench")
def command() -> None:
    """Measure what hooks cost in real time."""


@command.command("hooks")
@click.argument("hooks", nargs=-1, metavar="[MODULE:ATTRIBUTE]...")
@click.option(
    "--against",
    metavar="MODULE:ATTRIBUTE|FILE|none",
    default="none",
    show_default=True,
    help="Compare with another hook, measured at the same time, or with the JSON of an earlier "
    "report.",
)
@click.option("--max", "max_ns", type=_Duration(), help="Fail if a hook costs more, such as 50us.")
@click.option("--fail-on", type=_Percent(), help="Fail if a cost has grown by more, such as 20%.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The format of the output.",
)
@click.option(
    "--plot",
    metavar="FILE.svg",
    type=click.Path(path_type=Path),
    help="Draw the cost by the number of hooks. Needs the extra `plots`.",
)
def hooks(
    *,
    hooks: tuple[str, ...],
    against: str,
    max_ns: int | None,
    fail_on: float | None,
    output_format: str,
    plot: Path | None,
) -> int:
    """Measure hooks at the four points, in real nanoseconds per call.

    A MODULE:ATTRIBUTE is a hook, or Hooks with several. A function is measured at each point whose
    input its first parameter may have, by its annotation. Built-in hooks are measured too. The exit
    code is 1 if a hook passes a limit.
    """
    given, unfit = tried(hook for name in hooks for hook in given_hooks(name))
    if not given and (against != "none" or max_ns is not None or fail_on is not None):
        raise click.UsageError("--against, --max and --fail-on judge given hooks: name one")
    if fail_on is not None and against == "none":
        raise click.UsageError("--fail-on needs --against, a hook or an earlier report")
    earlier = None if against == "none" or ":" in against else read_report(Path(against))
    others = _others(against, given) if ":" in against else {}
    if earlier is not None:
        _check_compared(f"the report {against}", {row.hook for row in earlier.hooks}, given)
    if plot is not None:
        if not plot.parent.is_dir() or plot.is_dir():
            message = "the plot cannot be written: its folder is missing, or it is a folder"
            raise ScenarioError(message, path=str(plot), key="--plot")
        from simloop.bench.plot import check_plots  # noqa: PLC0415 - in case of need

        check_plots()
    report = _measured(given, unfit, others)
    if earlier is not None:
        report.compare_with(earlier)
    if plot is not None:
        from simloop.bench.plot import plot_of  # noqa: PLC0415

        write_file(plot, plot_of(report.counts).encode())
    if output_format == "json":
        out_exactly(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        out_lines(lines_of(report, against))
    failures = list(report.failures(max_ns=max_ns, fail_on=fail_on))
    for failure in failures:
        note(f"FAILED  {failure}")
    return 1 if failures else 0


def _others(name: str, given: list[GivenHook]) -> dict[str, UserFunction]:
    """Return the hook to compare with, by point.

    Raises ScenarioError if it fits no given hook, or if there are several at one point.
    """
    others: dict[str, UserFunction] = {}
    for hook in tried(given_hooks(name))[0]:
        if hook.point in others:
            message = f"`{name}` has several hooks at {hook.point}"
            raise ScenarioError(message, key="--against", hint="name one hook to compare with")
        others[hook.point] = hook.function
    compared = {hook.function.name for hook in given if hook.point in others}
    _check_compared(f"`{name}`", compared, given)
    return others


def _check_compared(name: str, compared: set[str], given: list[GivenHook]) -> None:
    for hook in given:
        if hook.function.name not in compared:
            message = f"{name} has nothing to compare {hook.function.name} with"
            raise ScenarioError(message, key="--against")


def _measured(
    given: list[GivenHook], unfit: list[UnfitRow], others: dict[str, UserFunction]
) -> HookReport:
    a_round_ns = round_ns()
    return HookReport(
        round_ns=a_round_ns,
        harness=measure_harness(),
        hooks=list(measure_given(given, others, a_round_ns)),
        unfit=unfit,
        shapes=list(measure_shapes(a_round_ns)),
        counts=list(measure_counts()),
        policies=list(measure_policies()),
    )
