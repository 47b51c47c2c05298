"""The replies of formats that stream server-sent events: their framing, errors and headers.

The script's own words, code, headers and body of an error go out as they are; a provider's words
take the place of what the script leaves out. Shapes, types and codes are the providers'. Their
messages are worded like theirs, and were not compared with recorded replies.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from msgspec import UNSET

from simloop.escape import writable
from simloop.messages import Fault, Finish, FinishReason, StreamError
from simloop.wire.formats.payload import JsonObject, is_posted_to, parsed, wire_json
from simloop.wire.formats.wire_format import ErrorReply, WireEvent, WireRequest
from simloop.wire.http import Headers, HttpRequest
from simloop.world.faults import status_text
from simloop.world.wire_options import FramingName, WireOptions

JSON, EVENTS = "application/json", "text/event-stream; charset=utf-8"
REFUSAL = "refusal"
"""The finish of a model that refuses: the text of the reply says why."""

# ---------------------------------------------------------------- server-sent events

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
    """Writes server-sent events. A style changes lines and pieces only, never an event."""

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


# ---------------------------------------------------------------- how a reply ends


class FinishWords(NamedTuple):
    """The words of a format: one for each reason that it can say, and all that it knows.

    Scripts say a finish reason in simloop's words or in any provider's.
    """

    by_reason: Mapping[FinishReason, str]
    known: frozenset[str]

    def word(self, finish: Finish) -> str:
        """Return the word for a finish; one that nobody knows goes out as it is."""
        word = finish.raw.lower().replace("-", "_")
        if word in self.known:
            return word
        return self.by_reason.get(finish.reason) or finish.raw or finish.reason.value


# ---------------------------------------------------------------- failed calls

INVALID = "invalid_request_error"
OVERFLOW = "context_length_exceeded"
_HTML = "<html><head><title>{0}</title></head><body><center><h1>{0}</h1></center></body></html>"
_GATEWAY = frozenset({502, 504})  # sent by the network in front of a provider, as a page
# The status of a failure without one, which a reply that does not stream must have.
_STATUSES = {
    INVALID: 400, "invalid_prompt": 400, OVERFLOW: 400, "authentication_error": 401,
    "invalid_api_key": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404,
    "model_not_found": 404, "conflict_error": 409, "request_too_large": 413,
    "rate_limit_error": 429, "rate_limit_exceeded": 429, "insufficient_quota": 429,
    "timeout_error": 504, "overloaded_error": 529,
}  # fmt: skip
_TOO_MANY_REQUESTS = 429


class ErrorWords(NamedTuple):
    """A provider's words for an error. Anthropic sends no code and no parameter."""

    type: str
    message: str
    code: str | None = None
    param: str | None = None


def status_of(fault: Fault) -> int:
    """Return the status of a fault; one without gets that of its code, or 500."""
    return _STATUSES.get(fault.code, 500) if fault.status is UNSET else fault.status


def words_of(fault: Fault, known: Mapping[int, ErrorWords], of_servers: str) -> ErrorWords:
    """Return the words for a fault's status; `of_servers` is the type of all from 500 on."""
    status = status_of(fault)
    kind = INVALID if status < 500 else of_servers  # noqa: PLR2004 - the classes of HTTP
    return known.get(status) or ErrorWords(kind, fault.message)


def message_of(fault: Fault, words: ErrorWords) -> str:
    """Return the script's message, or the provider's if the script says nothing."""
    return words.message if _is_silent(fault) else fault.message


def _is_silent(fault: Fault) -> bool:
    """Return whether the script says nothing but the status.

    The message of the chance fault `model.overflow` also counts as such.
    """
    status = status_of(fault)
    overflows = fault.code == OVERFLOW and fault.message.startswith(f"{status} ")
    return overflows or fault.message in ("", status_text(status))


@dataclass(frozen=True, slots=True)
class EventFormat:
    """The common parts of the formats that answer a POST to `path` with server-sent events."""

    path: ClassVar[str]
    options: WireOptions = field(default_factory=WireOptions)

    @property
    def endpoint(self) -> str:
        """The requests that it answers, in words."""
        return f"POST {self.path}"

    def answers(self, request: HttpRequest) -> bool:
        """Return whether a request is one of this format, by the end of its path."""
        return is_posted_to(self.path, request)

    def framer(self) -> EventFramer:
        """Return the framer of the events of one reply."""
        return EventFramer(self.options.framing)

    def limits(
        self, what: str, reset: str, failure: StreamError | None = None
    ) -> Iterator[tuple[str, str]]:
        """Yield the headers of the limits, with names such as `x-ratelimit-{field}-{of}`."""
        exhausted = failure is not None and status_of(failure.fault) == _TOO_MANY_REQUESTS
        options = self.options
        named = (("requests", options.rate_limit_requests), ("tokens", options.rate_limit_tokens))
        for of, limit in named:
            if limit:
                yield what.format(field="limit", of=of), str(limit)
                yield what.format(field="remaining", of=of), str(0 if exhausted else limit - 1)
                yield what.format(field="reset", of=of), reset


def content_type(request: WireRequest) -> tuple[str, str]:
    """Return the header with the kind of a reply that has not failed."""
    return "content-type", EVENTS if request.streams else JSON


def error_reply(failure: StreamError, body: JsonObject, headers: Headers) -> ErrorReply:
    """Return the reply with the script's headers over the provider's, and the script's body."""
    fault, status = failure.fault, status_of(failure.fault)
    if failure.body is not None:
        text, kind = writable(failure.body), _kind_of(failure.body)
    elif status in _GATEWAY and not fault.code and _is_silent(fault):
        text, kind = _HTML.format(status_text(status)), "text/html"
    else:
        text, kind = wire_json(body), JSON
    given = {name for name, _ in fault.headers}
    own = (header for header in (("content-type", kind), *headers) if header[0] not in given)
    return ErrorReply(status, (*own, *fault.headers), text.encode())


def _kind_of(body: str) -> str:
    if isinstance(parsed(body), dict | list):
        return JSON
    return "text/html" if body.lstrip().startswith("<") else "text/plain"


def request_id(number: int) -> str:
    """Return the id of a request, which providers send in a header."""
    return f"req-{number}"
