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

    __slots__ = ("_at_ns", "_entries", "_messages", "_trace")

    def __init__(self, trace: LoopTrace) -> None:
        self._trace = trace
        self._entries = trace.entries
        self._at_ns = 0
        self._messages = {0: 0}  # by the number of the request

    def add(self, line: AnyEntry | Footer | Header) -> str:
        """Add the next line. Return the reason why it cannot be the next one, or empty."""
        if isinstance(line, Header) or self._trace.footer is not None:
            return "a header or a line after the footer"
        count = len(self._entries)
        if isinstance(line, Footer):
            self._trace.footer = line
            return "" if line.entries == count else f"it counts {line.entries} entries, not {count}"
        if line.seq != count:
            return f"it is entry {line.seq}, in the place of entry {count}"
        if line.at_ns < self._at_ns:
            return f"its time, {line.at_ns} ns, is before that of the last entry"
        self._at_ns = line.at_ns
        self._entries.append(line)
        if isinstance(line, entries.Request):
            return self._wrong_request(line)
        if isinstance(line, entries.ToolStarted) and not _is_json(line.arguments):
            return "the arguments of the tool are no JSON"
        return ""

    def _wrong_request(self, request: entries.Request) -> str:
        before = self._messages.get(request.base)
        if before is None:
            return f"it is based on request {request.base}, which is not in the trace before it"
        if request.number in self._messages:
            return f"there is a request {request.number} before it"
        self._messages[request.number] = request.kept + len(request.added)
        if request.kept > before:
            return f"it keeps {request.kept} messages of a request that had {before}"
        return ""


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
