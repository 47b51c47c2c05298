"""Server-sent events as bytes, cut into lines and pieces in each way that a client must read.

Not here: the events (formats). The rule to keep: a framing changes bytes only, never an event.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simloop.wire.formats.wire_format import WireEvent
from simloop.world.wire_options import FramingName

_BOM = "\N{BYTE ORDER MARK}"
_RECONNECT_MS = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Style:
    line_end: str = "\n"
    colon: str = ": "
    is_bytewise: bool = False
    comments: bool = False
    final_blank: bool = True
    bom: bool = False
    ids: bool = False


_STYLES: Mapping[FramingName, _Style] = {
    "lf": _Style(),
    "crlf": _Style(line_end="\r\n"),
    "cr": _Style(line_end="\r"),
    "bytes": _Style(is_bytewise=True),
    "crlf-bytes": _Style(line_end="\r\n", is_bytewise=True),
    "comments": _Style(comments=True),
    "no-space": _Style(colon=":"),
    "no-final-blank": _Style(final_blank=False),
    "bom": _Style(bom=True),
    "ids": _Style(ids=True),
}


class EventFramer:
    """Writes the events of one stream."""

    def __init__(self, name: FramingName = "lf") -> None:
        self._style = _STYLES[name]
        self._events = 0

    def frame(self, events: Sequence[WireEvent], *, is_last: bool = False) -> list[bytes]:
        """Return the pieces of the next events. `is_last` is set for the last of the stream."""
        if not events:
            return []
        style = self._style
        text = "".join(map(self._event, events))
        if is_last and not style.final_blank:
            text = text.removesuffix(style.line_end)
        data = text.encode()
        if style.is_bytewise:
            return [data[at : at + 1] for at in range(len(data))]
        return [data]

    def _event(self, event: WireEvent) -> str:
        style, first = self._style, self._events == 0
        self._events += 1
        lines = [f"event{style.colon}{event.name}"] if event.name else []
        lines += [f"id{style.colon}{self._events}"] if style.ids else []
        lines += [f"retry{style.colon}{_RECONNECT_MS}"] if style.ids and first else []
        lines += [f"data{style.colon}{event.data}", "", ""]
        before = f": keep-alive{style.line_end * 2}" if style.comments else ""
        return (_BOM if style.bom and first else "") + before + style.line_end.join(lines)
