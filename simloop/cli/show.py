"""`simloop show`: print a recorded trace as a timeline, or as the events of its loop.

Not here: the wording of the timeline (trace/timeline.py) and the events (trace/exports/pi_events.py
and its neighbours).
"""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from simloop.cli.terminal import json_text, note, out_exactly, out_lines, plain
from simloop.errors import ScenarioError
from simloop.trace.codec import read_trace
from simloop.trace.looptrace import LoopTrace
from simloop.trace.timeline import timeline


@click.command("show")
@click.option(
    "--events",
    "names",
    type=click.Choice(["document", "program"]),
    help="Print events as JSON lines: `document` prints message, tool_call, tool_result, done and "
    "error, for any loop; `program` prints the events of the real pi or opencode.",
)
@click.argument("trace", type=click.Path(path_type=Path))
def command(trace: Path, names: str | None) -> None:
    """Show a recorded trace as a timeline.

    TRACE is a file that `simloop record` or `simloop run --trace` has written. A truncated trace
    is shown up to its end.
    """
    recorded = read_trace(trace)
    if names is None:
        out_lines(timeline(recorded))
    else:
        _print_events(recorded, names, trace)
    if recorded.truncated:
        note(plain(f"{trace}: the trace is truncated: {recorded.truncated}"))


def _print_events(recorded: LoopTrace, names: str, trace: Path) -> None:
    try:
        for event in event_lines(recorded, names):
            out_exactly(event)
    except ScenarioError as error:
        error.path = error.path or trace
        raise


def event_lines(recorded: LoopTrace, names: str) -> Iterator[str]:
    """Yield one line of ASCII for each event, so that no event can disturb a terminal.

    Raises ScenarioError if the events of the program behind the loop are not known.
    """
    # They bring pydantic along, which a timeline does not need.
    from simloop.check.recorded_events import recorded_events  # noqa: PLC0415

    view = recorded_events(recorded, "document" if names == "document" else "program")
    for line in recorded.entries:
        for event in view.feed(line):
            yield json_text(msgspec.to_builtins(event))
