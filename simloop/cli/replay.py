"""`simloop replay`: recorded runs, run again. Is it still the same?

Not here: running and comparing (check/replay.py). The rule to keep: one trace that cannot be
replayed never keeps the others from it.
"""

import shlex
from pathlib import Path

import click

from simloop.check.replay import different_settings, rerun
from simloop.cli.faults import explain
from simloop.cli.folding import cells
from simloop.cli.report import Tally, indented, verdict_line, word_for
from simloop.cli.settings import replay_loop
from simloop.cli.terminal import note, out, out_lines, plain
from simloop.errors import CheckFailed, ScenarioError, SimloopError
from simloop.trace.codec import read_trace
from simloop.trace.diff import first_difference
from simloop.trace.looptrace import LoopTrace


@click.command("replay")
@click.argument(
    "traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@replay_loop
def command(traces: tuple[Path, ...], loop: str | None) -> int:
    """Run recorded traces again: is it still the same?

    A TRACE is a file that `simloop record` or `simloop run --trace` has written; it holds all that
    its run needs, except a loop of your own, which --loop names. The first entry that differs is
    shown after the three before it (exit code 1). A trace that was cut is compared as far as it
    goes.
    """
    width = max(cells(plain(str(path))) for path in traces)
    tally = Tally()
    for path in traces:
        tally.add(_replay(path, loop, width))
    if len(traces) > 1:
        out(str(tally))
    return tally.exit_code


def _replay(path: Path, loop: str | None, width: int) -> int:
    """Replay one trace, print the verdict, and return the exit code."""
    name = str(path)
    try:
        recorded = read_trace(path)
        again = rerun(recorded, loop)
    except SimloopError as error:
        if isinstance(error, ScenarioError):
            error.path = error.path or path
        out(verdict_line(word_for(error.exit_code), name, "not replayed", width))
        return explain(error)
    found = first_difference(recorded, again)
    code = CheckFailed.exit_code if found else 0
    ending = "diverged" if found else f"identical, {len(recorded.entries)} entries"
    out(verdict_line(word_for(code), name, ending, width))
    if found:
        out_lines(indented(found.lines("recorded", "replayed")))
        out_lines(indented(iter([f"see it: simloop show {shlex.quote(name)}"])))
    _tell_circumstances(name, recorded, again)
    return code


def _tell_circumstances(name: str, recorded: LoopTrace, again: LoopTrace) -> None:
    if recorded.truncated:
        note(plain(f"{name}: the trace is truncated: {recorded.truncated}"))
    for what, one, other in different_settings(recorded.header, again.header):
        note(plain(f"{name}: {what} differs: recorded {one}, replayed {other}"))
