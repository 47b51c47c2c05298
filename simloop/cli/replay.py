"""`simloop replay` runs recorded runs again and compares them; `simloop diff` compares two traces.

One trace that cannot be replayed never keeps the others from it.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from simloop.check.replay import Setting, as_far_as, different_settings, rerun
from simloop.cli.options import formats, replay_loop
from simloop.cli.report import (
    errors_of,
    failure_of,
    indented,
    print_each,
    print_json,
    status_for,
    verdict_line,
    word_for,
)
from simloop.cli.terminal import cells, explain, note, out, out_lines, plain
from simloop.errors import CannotExpress, CheckFailed, ScenarioError, SimloopError
from simloop.trace.codec import read_trace
from simloop.trace.diff import Divergence, first_difference


@click.command("replay")
@click.argument(
    "traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@replay_loop
@formats("json")
def command(traces: tuple[Path, ...], loop: str | None, output_format: str) -> int:
    """Run recorded traces again and show the first difference.

    A TRACE is a file that `simloop record` or `simloop run --trace` has written. It holds
    everything that its run needs, except a loop of your own, which --loop names. The command shows
    the first entry that differs, after the three entries before it; the exit code is then 1. A
    truncated trace is compared up to its end.
    """
    replays = (_replay(path, loop) for path in traces)
    if output_format == "json":
        return print_json(replays, "replays")
    width = max(cells(plain(str(path))) for path in traces)
    return print_each(replays, width, counted=len(traces) > 1)


@dataclass(frozen=True, slots=True)
class _Replay:
    """One trace and the comparison with its second run.

    `entries` is None if there was no second run, because of `error`.
    """

    name: str
    entries: int | None = None
    truncated: str = ""
    no_end: str = ""
    difference: Divergence | None = None
    settings: tuple[Setting, ...] = ()
    error: SimloopError | None = None

    @property
    def exit_code(self) -> int:
        """Return the exit code for this trace alone."""
        if self.error is not None:
            return self.error.exit_code
        return CheckFailed.exit_code if self.difference else 0

    def lines(self, name_width: int) -> Iterator[str]:
        """Yield the verdict, and below it the first difference; safe to print."""
        identical = f"identical, {self.entries} entries"
        ended = "not replayed" if self.error else "diverged" if self.difference else identical
        yield verdict_line(word_for(self.exit_code), self.name, ended, name_width)
        if self.difference is not None:
            yield from indented(self.difference.lines("recorded", "replayed"))
            yield from indented(iter([f"see it: simloop show {shlex.quote(self.name)}"]))

    def explain(self) -> None:
        """Write to stderr why there was no second run, or which circumstances differ."""
        if self.error is not None:
            explain(self.error)
        if self.no_end:
            note(plain(f"{self.name}: {self.no_end}"))
        for setting in self.settings:
            one, other = setting.as_text()
            note(plain(f"{self.name}: {setting.name} differs: recorded {one}, replayed {other}"))

    def json_format(self) -> dict[str, Any]:
        """Return one of `replays`, with null for an unknown value."""
        return {
            "name": self.name,
            "status": status_for(self.exit_code, cannot=isinstance(self.error, CannotExpress)),
            "entries": self.entries,
            "truncated": self.truncated or None,
            "settings": [
                {"key": name, "recorded": one, "replayed": other}
                for name, one, other in self.settings
            ],
            "failures": [failure_of(self.difference)] if self.difference else [],
            "errors": errors_of([self.error] if self.error else []),
        }


def _replay(path: Path, loop: str | None) -> _Replay:
    """Replay one trace."""
    try:
        recorded = read_trace(path)
        again = rerun(recorded, loop)
    except SimloopError as error:
        if isinstance(error, ScenarioError):
            error.path = error.path or path
        return _Replay(str(path), error=error)
    return _Replay(
        str(path),
        len(recorded.entries),
        recorded.truncated,
        recorded.no_end,
        first_difference(recorded, again),
        tuple(different_settings(recorded.header, again.header)),
    )


@click.command("diff")
@click.argument("one", metavar="A", type=click.Path(path_type=Path))
@click.argument("other", metavar="B", type=click.Path(path_type=Path))
def diff(one: Path, other: Path) -> int:
    """Show where two recorded traces first differ.

    The runs are compared entry by entry. A scenario, loop, seed or limit that differs is printed to
    stderr and is no difference by itself. The exit code is 1 if the runs differ. A truncated
    trace is compared up to its end.
    """
    first, second = read_trace(one), read_trace(other)
    for setting in different_settings(first.header, second.header):
        a, b = setting.as_text()
        note(plain(f"{setting.name} differs: {a} and {b}"))
    for path, trace in ((one, first), (other, second)):
        if trace.no_end:
            note(plain(f"{path}: {trace.no_end}"))
    first, second = as_far_as(second, first), as_far_as(first, second)
    found = first_difference(first, second)
    if found is None:
        out(f"the runs are the same, {len(first.entries)} entries")
        return 0
    out_lines(plain(line) for line in found.lines(str(one), str(other)))
    return CheckFailed.exit_code
