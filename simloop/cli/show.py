"""`simloop show`: a recorded trace as a timeline.

Not here: the wording of the timeline (trace/timeline.py).
"""

from pathlib import Path

import click

from simloop.cli.terminal import note, out_lines, plain
from simloop.trace.codec import read_trace
from simloop.trace.timeline import timeline


@click.command("show")
@click.argument("trace", type=click.Path(path_type=Path))
def command(trace: Path) -> None:
    """Show a recorded trace as a timeline.

    TRACE is a file that `simloop run --trace` has written. One that was cut is shown as far as it
    goes.
    """
    recorded = read_trace(trace)
    out_lines(timeline(recorded))
    if recorded.truncated:
        note(plain(f"{trace}: the trace is truncated: {recorded.truncated}"))
