"""Replies written in a wire format, as its tests read them."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from simloop.adapters.dialects.dialect import Dialect, WireEvent, WireRequest
from simloop.messages import Finish, Part, UserMessage

MODEL = "sim-1"
SEEN_AT_S = 1_000_000_000


def asked(*, streams: bool = True, reports_usage: bool = True) -> WireRequest:
    """Return a request that asks for a reply."""
    return WireRequest(MODEL, "", (UserMessage("hi"),), (), streams, reports_usage)


def ahead(parts: Sequence[Part]) -> Finish | None:
    """Return the finish that the endpoint sees ahead."""
    last = parts[-1] if parts else None
    return last if isinstance(last, Finish) else None


def streamed(dialect: Dialect, parts: Sequence[Part], *, usage: bool = True) -> list[WireEvent]:
    """Return the events of a reply that streams."""
    writer = dialect.encoder(asked(reports_usage=usage), 3, SEEN_AT_S)
    events = [*writer.begin(ahead(parts))]
    for part in parts:
        events += writer.feed(part)
    return events


def whole(dialect: Dialect, parts: Sequence[Part]) -> dict[str, Any]:
    """Return the body of a reply that does not stream."""
    writer = dialect.encoder(asked(streams=False), 3, SEEN_AT_S)
    writer.begin(ahead(parts))
    for part in parts:
        writer.feed(part)
    body: dict[str, Any] = json.loads(writer.whole())
    return body


def data(events: Iterable[WireEvent]) -> list[Any]:
    """Return the data of events as JSON, or as text where it is none."""
    return [one.data if one.data == "[DONE]" else json.loads(one.data) for one in events]
