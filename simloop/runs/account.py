"""The end of a failed run's timeline, and what its code has printed, for its reader.

Not here: the finding itself, and the command that shows the run again (errors.py). The rule to
keep: text of models, tools and exceptions passes through `escape`.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from simloop.escape import escape
from simloop.runs.mismatch import Mismatch
from simloop.trace.looptrace import LoopTrace
from simloop.trace.timeline import timeline
from simloop.virtual.border.output import NAMES, Output
from simloop.world.user_errors import UserError

LINES = 16
MOST_PRINTED = 20
_WIDTH = 200


def account(
    trace: LoopTrace, found: Sequence[Mismatch] = (), raised: Sequence[UserError] = ()
) -> str:
    """Return the timeline's last lines up to the first wrong entry, then the last exception.

    If only the end of the run is wrong, the lines are the last ones of the run.
    """
    wrong = min((each.seq for each in found if each.seq is not None), default=None)
    return "\n".join(("", *_timeline(trace, wrong), *last_raised(raised), ""))


def _timeline(trace: LoopTrace, wrong: int | None) -> Iterator[str]:
    part = trace
    if wrong is not None:
        part = LoopTrace(trace.header, list(trace.entries[: wrong + 1]))
    lines = deque(timeline(part), maxlen=LINES)
    if wrong is None:
        yield "the end of the run:"
    else:
        yield "the run up to the first entry that is wrong:"
    yield from lines


def last_raised(raised: Sequence[UserError]) -> Iterator[str]:
    """Yield an empty line and the traceback of the last exception of the user's code."""
    if not raised:
        return
    last = raised[-1]
    before = f", the last of {len(raised)} exceptions" if len(raised) > 1 else ""
    yield ""
    yield f"raised by {escape(last.where)}{before}:"
    for line in last.lines():
        indent = len(line) - len(line.lstrip(" "))
        yield " " * indent + escape(line[indent:], _WIDTH)


def printed(output: Output) -> Iterator[str]:
    """Yield the last lines that the user's code has printed, under the name of each stream."""
    for name in NAMES:
        lines = output.text(name).splitlines()
        if lines:
            cut = f", the last {MOST_PRINTED} of {len(lines)} lines" * (len(lines) > MOST_PRINTED)
            yield f"captured {name}{cut}:"
            yield from (f"  {escape(line, _WIDTH)}" for line in lines[-MOST_PRINTED:])
