"""`simloop replay`: run recorded runs again and compare them.

Not here: running and comparing (check/replay.py). The rule to keep: one trace that cannot be
replayed never keeps the others from it.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from simloop.check.replay import Setting, different_settings, rerun
from simloop.cli.faults import explain
from simloop.cli.folding import cells
from simloop.cli.jsonformat import FORMAT_VERSION, errors_of, failure_of, status_for
from simloop.cli.options import replay_loop
from simloop.cli.report import Tally, indented, verdict_line, word_for
from simloop.cli.terminal import json_text, note, out, out_exactly, out_lines, plain
from simloop.errors import CannotExpress, CheckFailed, ScenarioError, SimloopError
from simloop.trace.codec import read_trace
from simloop.trace.diff import Divergence, first_difference


@click.command("replay")
@click.argument(
    "traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@replay_loop
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The format of the output.",
)
def command(traces: tuple[Path, ...], loop: str | None, output_format: str) -> int:
    """Run recorded traces again and show the first difference.

    A TRACE is a file that `simloop record` or `simloop run --trace` has written. It holds
    everything that its run needs, except a loop of your own, which --loop names. The command shows
    the first entry that differs, after the three entries before it; the exit code is then 1. A
    truncated trace is compared up to its end.
    """
    replays = (_replay(path, loop) for path in traces)
    if output_format == "json":
        return _print_json(replays)
    width = max(cells(plain(str(path))) for path in traces)
    tally = Tally()
    for replay in replays:
        tally.add(replay.exit_code)
        out_lines(replay.lines(width))
        replay.explain()
    if len(traces) > 1:
        out(str(tally))
    return tally.exit_code


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


def _print_json(replays: Iterator[_Replay]) -> int:
    """Print one object when all have ended; errors also go to stderr, as they come."""
    documents, exit_code = [], 0
    for replay in replays:
        documents.append(replay.json_format())
        exit_code = max(exit_code, replay.exit_code)
        replay.explain()
    status = status_for(exit_code)
    document = {"format_version": FORMAT_VERSION, "status": status, "replays": documents}
    out_exactly(json_text(document, indent=2))
    return exit_code
