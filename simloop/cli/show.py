"""`simloop show`: a recorded trace as a timeline, or as the events that its loop tells.

Not here: the wording of the timeline (trace/timeline.py) and the events (trace/pi_events.py and its
neighbours).
"""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from simloop.cli.terminal import note, out_lines, plain
from simloop.trace.codec import read_trace
from simloop.trace.looptrace import LoopTrace
from simloop.trace.timeline import timeline


@click.command("show")
@click.option(
    "--events",
    "names",
    type=click.Choice(["document", "program"]),
    help="Print events as JSON lines: `document`, those of document 001, for any loop; `program`, "
    "those of the real program behind pi, or of document 004 for opencode.",
)
@click.argument("trace", type=click.Path(path_type=Path))
def command(trace: Path, names: str | None) -> None:
    """Show a recorded trace as a timeline.

    TRACE is a file that `simloop run --trace` has written. One that was cut is shown as far as it
    goes.
    """
    recorded = read_trace(trace)
    out_lines(timeline(recorded) if names is None else _events(recorded, names))
    if recorded.truncated:
        note(plain(f"{trace}: the trace is truncated: {recorded.truncated}"))


def _events(recorded: LoopTrace, names: str) -> Iterator[str]:
    """One line of ASCII for each event: nothing in it can disturb a terminal."""
    # A timeline is shown without them: they bring pydantic along.
    from simloop.check.replay import recorded_scenario  # noqa: PLC0415
    from simloop.scenario.agent import event_view  # noqa: PLC0415

    header = msgspec.structs.replace(recorded.header, python=())  # nothing is run again
    scenario = recorded_scenario(dataclasses.replace(recorded, header=header))
    view = event_view(scenario, header.loop, "document" if names == "document" else "program")
    end = [] if recorded.footer is None else [recorded.footer]
    for line in (*recorded.entries, *end):
        for event in view.feed(line):
            yield json.dumps(msgspec.to_builtins(event)).replace("\x7f", "\\u007f")
