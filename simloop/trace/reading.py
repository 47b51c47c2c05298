"""A trace that is being read: each line must fit those before it.

Not here: the form of a line, which the types in entries.py give. The rule to keep: everything that
a view of a trace relies on is tested here, so that a damaged file is an error with a line number
and never a crash of a view.
"""

import msgspec

from simloop.trace import entries
from simloop.trace.entries import AnyEntry, Footer, Header
from simloop.trace.looptrace import LoopTrace


class Reading:
    """Adds lines to `trace`, which has its header, and no more, at the start."""

    def __init__(self, trace: LoopTrace) -> None:
        self._trace = trace
        self._at_ns = 0
        self._messages = 0  # of the last main request

    def wrong_with(self, line: AnyEntry | Footer | Header) -> str:
        """The reason why `line` cannot be the next one, or empty."""
        count = len(self._trace.entries)
        if isinstance(line, Header) or self._trace.footer is not None:
            return "a header or a line after the footer"
        if isinstance(line, Footer):
            return "" if line.entries == count else f"it counts {line.entries} entries, not {count}"
        if line.seq != count:
            return f"it is entry {line.seq}, in the place of entry {count}"
        if line.at_ns < self._at_ns:
            return f"its time, {line.at_ns} ns, is before that of the last entry"
        if isinstance(line, entries.Request) and _is_main(line) and line.kept > self._messages:
            return f"it keeps {line.kept} messages of a request that had {self._messages}"
        if isinstance(line, entries.ToolStarted) and not _is_json(line.arguments):
            return "the arguments of the tool are no JSON"
        return ""

    def add(self, line: AnyEntry | Footer | Header) -> None:
        """Add `line`, with which nothing is wrong."""
        assert not isinstance(line, Header)
        if isinstance(line, Footer):
            self._trace.footer = line
            return
        self._trace.entries.append(line)
        self._at_ns = line.at_ns
        if isinstance(line, entries.Request) and _is_main(line):
            self._messages = line.kept + len(line.added)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _is_main(request: entries.Request) -> bool:
    return request.purpose == "main"
