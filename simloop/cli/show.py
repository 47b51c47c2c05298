"""`simloop show`: print a trace as a timeline, or as the facts at one entry."""

from pathlib import Path

import click

from simloop.cli.options import replay_loop
from simloop.cli.terminal import note, out_lines, plain
from simloop.cursor.keys import FactView
from simloop.cursor.position import Position, place_of
from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.views import view
from simloop.trace.codec import read_trace
from simloop.trace.timeline import timeline


@click.command("show")
@click.option(
    "--at",
    metavar="N|TIME",
    help="Show the facts at entry number N, or at a virtual time such as 5.2s. The default is the "
    "last entry.",
)
@click.option(
    "--view",
    "views",
    type=click.Choice([str(each) for each in FactView]),
    multiple=True,
    help="Show this view of the facts; may be repeated. The default with --at is all of them.",
)
@replay_loop
@click.argument("trace", type=click.Path(path_type=Path))
def command(trace: Path, at: str | None, views: tuple[str, ...], loop: str | None) -> None:
    """Show a recorded trace as a timeline, or the facts at an entry.

    TRACE is a file that `simloop record` or `simloop run --trace` has written. A truncated trace
    is shown up to its end, and a run that is wrong with its findings. `--loop` names a loop that
    does not come with simloop, whose limits and map the facts then include. An agent is run again
    for that, and the facts then include its timeouts, and the tasks that wait.
    """
    recorded = read_trace(trace)
    recording = RecordedRun.of_trace(recorded, loop)
    wrong = [line for found in recording.findings for line in found.sentence(-1).splitlines()]
    if at is None and not views:
        out_lines(timeline(recorded, wrong))
    else:
        position = Position(recording, place_of(recorded, at))
        if wrong:
            out_lines((*(f"FAILED: {plain(line)}" for line in wrong), ""))
        for name in views or FactView:
            out_lines((f"{name}:", *(f"  {each}" for each in view(FactView(name), position)), ""))
    if recorded.no_end:
        note(plain(f"{trace}: {recorded.no_end}"))
