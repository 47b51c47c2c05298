"""`simloop show`: print a trace as a timeline, as the facts at one entry, or as events of its loop.

Not here: the wording of the timeline (trace/timeline.py), the views of the facts (cursor/views.py)
and the events (trace/exports/events.py).
"""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from simloop.cli.options import replay_loop
from simloop.cli.terminal import json_text, note, out_exactly, out_lines, plain
from simloop.cursor.keys import FactView
from simloop.errors import ScenarioError
from simloop.trace.codec import read_trace
from simloop.trace.looptrace import LoopTrace
from simloop.trace.timeline import timeline


@click.command("show")
@click.option(
    "--events",
    "names",
    type=click.Choice(["document", "session"]),
    help="Print events as JSON lines: `document` prints message, tool_call, tool_result, done and "
    "error, for any loop; `session` prints the status and the errors of an opencode session.",
)
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
def command(
    trace: Path, names: str | None, at: str | None, views: tuple[str, ...], loop: str | None
) -> None:
    """Show a recorded trace as a timeline, or the facts at an entry.

    TRACE is a file that `simloop record` or `simloop run --trace` has written. A truncated trace
    is shown up to its end, and a run that is wrong with its findings. `--loop` names a loop that
    does not come with simloop, whose limits and map the facts then include. An agent is run again
    for that, and the facts then include its timeouts, and the tasks that wait.
    """
    if names is not None and (at is not None or views):
        raise click.UsageError("--events shows the whole trace; leave out --at and --view")
    recorded = read_trace(trace)
    if names is None:
        _print_run(recorded, at, views, loop)
    else:
        _print_events(recorded, names, trace)
    if recorded.no_end:
        note(plain(f"{trace}: {recorded.no_end}"))


def _print_run(
    recorded: LoopTrace, at: str | None, views: tuple[str, ...], loop: str | None
) -> None:
    """Print the timeline, or views of the facts at an entry, each under its name."""
    # They bring pydantic along, which events do not need.
    from simloop.cursor.position import Position, place_of  # noqa: PLC0415
    from simloop.cursor.recorded_run import RecordedRun  # noqa: PLC0415
    from simloop.cursor.views import view  # noqa: PLC0415

    recording = RecordedRun.of_trace(recorded, loop)
    wrong = [line for found in recording.findings for line in found.sentence(-1).splitlines()]
    if at is None and not views:
        out_lines(timeline(recorded, wrong))
        return
    position = Position(recording, place_of(recorded, at))
    if wrong:
        out_lines((*(f"FAILED: {plain(line)}" for line in wrong), ""))
    for name in views or FactView:
        out_lines((f"{name}:", *(f"  {each}" for each in view(FactView(name), position)), ""))


def _print_events(recorded: LoopTrace, names: str, trace: Path) -> None:
    try:
        for event in event_lines(recorded, names):
            out_exactly(event)
    except ScenarioError as error:
        error.path = error.path or trace
        raise


def event_lines(recorded: LoopTrace, names: str) -> Iterator[str]:
    """Yield one line of ASCII for each event, so that no event can disturb a terminal.

    Raises ScenarioError if the loop has no events of that name.
    """
    # They bring pydantic along, which a timeline does not need.
    from simloop.check.replay import recorded_events  # noqa: PLC0415

    view = recorded_events(recorded, "document" if names == "document" else "session")
    for line in recorded.entries:
        for event in view.feed(line):
            yield json_text(msgspec.to_builtins(event))
