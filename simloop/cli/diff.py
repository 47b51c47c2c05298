"""`simloop diff`: where two recorded traces first differ.

Not here: comparing (trace/diff.py).
"""

from pathlib import Path

import click

from simloop.check.replay import as_far_as, different_settings
from simloop.cli.terminal import note, out, out_lines, plain
from simloop.errors import CheckFailed
from simloop.trace.codec import read_trace
from simloop.trace.diff import first_difference


@click.command("diff")
@click.argument("one", metavar="A", type=click.Path(path_type=Path))
@click.argument("other", metavar="B", type=click.Path(path_type=Path))
def command(one: Path, other: Path) -> int:
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
