"""The replies of formats that stream server-sent events: framing, blocks, ends, errors, headers.

The script's own words, code, headers and body of an error go out as they are; a provider's words
take the place of what the script leaves out. Shapes, types and codes are the providers'. The
messages of OpenAI and Anthropic are worded like theirs, and were not compared with recorded ones.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, ClassVar, Literal, NamedTuple

from msgspec import UNSET

from simloop import messages as values
from simloop.escape import writable
from simloop.messages import json_value
from simloop.wire.formats.payload import PROVIDERS, JsonObject, wire_json
from simloop.wire.formats.storage import Storage
from simloop.wire.formats.wire_format import Stamp, WireEvent, WireReply, WireRequest, WrongRequest
from simloop.world.faults import status_text
from simloop.world.http import Headers, HttpBody, HttpReply, HttpRequest
from simloop.world.wire_options import WireOptions

JSON, EVENTS = "application/json", "text/event-stream; charset=utf-8"
REFUSAL = "refusal"
"""The finish of a model that refuses: the text of the reply says why."""

BlockKind = Literal["reasoning", "text", "call"]


@dataclass(slots=True, eq=False)
class ReplyBlock:
    """One block: `nth` is its place among those of its kind. A call that broke off is not whole."""

    kind: BlockKind
    index: int
    nth: int
    call_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    is_whole: bool = False

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class BlockChange(NamedTuple):
    """A change of a block. A block may open with a piece; it grows by one; it closes without."""

    action: Literal["open", "grow", "close"]
    block: ReplyBlock
    piece: str = ""


def whole_input(block: ReplyBlock) -> Any:
    """Return the arguments of a call as a value, or as the text that is no JSON."""
    if not block.text or not block.is_whole:
        return {}
    value = json_value(block.text)
    return block.text if value is None else value


class BlockEncoder(ABC):
    """Writes the reply to one request as the changes of its blocks, from its first part on."""

    def __init__(self, form: "WireFormat", request: WireRequest, stamp: Stamp) -> None:
        self.form, self.options = form, form.options
        self.request = request
        self.signature = f"signature-{stamp.number}"
        """The provider's proof that a thought is its own."""
        self.blocks: list[ReplyBlock] = []  # in the order in which they opened
        self.finish: values.Finish | None = None
        self._has_begun = False
        self._prose: ReplyBlock | None = None  # the open block of text or reasoning
        self._calls: list[ReplyBlock] = []  # open calls: their pieces may come in turn

    def begin(self, ahead: values.Finish | None = None) -> Sequence[WireEvent]:  # noqa: ARG002 - the protocol has it
        """Return the events before the first part; `ahead` is the finish, if it is known."""
        return ()  # Anthropic's first event reports its usage, and OpenAI sends a refusal as such

    def feed(self, part: values.Part) -> Sequence[WireEvent]:
        """Return the events of the next part; a StreamError is an error inside the stream."""
        ending: Iterator[WireEvent] = iter(())
        match part:
            case values.TextDelta():
                changes = [*self._grow_prose("text", part.text)]
            case values.ReasoningDelta():
                changes = [*self._grow_prose("reasoning", part.text)]
            case values.ToolCallDelta():
                changes = [*self._grow_call(part)]
            case values.ToolCallPart():
                changes = [*self._complete_call(part.call)]
            case values.Finish():
                self.finish = part
                if not part.raw and part.reason is values.FinishReason.INTERRUPTED:
                    return self.opening()
                closed = [BlockChange("close", one) for one in self._calls]
                changes = [*self._close_prose(), *closed]
                self._calls, ending = [], self.ended(part)
            case values.StreamError():
                return [self.failed(part.fault)]
            case _:
                return ()
        return [*self.opening(), *chain.from_iterable(map(self.changed, changes)), *ending]

    def opening(self) -> list[WireEvent]:
        if self._has_begun:
            return []
        self._has_begun = True
        return list(self.opened())

    def opened(self) -> Iterable[WireEvent]:
        """Yield the events before those of the first part, whose blocks are there already."""
        return ()

    @abstractmethod
    def changed(self, change: BlockChange) -> Iterator[WireEvent]: ...

    @abstractmethod
    def failed(self, fault: values.Fault) -> WireEvent:
        """Return the event of an error inside the stream."""

    @abstractmethod
    def ended(self, finish: values.Finish) -> Iterator[WireEvent]:
        """Yield the events of the end of the reply."""

    @abstractmethod
    def whole(self) -> bytes:
        """Return the body of a reply that does not stream, after its last part."""

    def of_kind(self, kind: BlockKind) -> list[ReplyBlock]:
        return [block for block in self.blocks if block.kind == kind]

    def text(self, kind: BlockKind) -> str:
        return "".join(block.text for block in self.of_kind(kind))

    def _grow_prose(self, kind: BlockKind, piece: str) -> Iterator[BlockChange]:
        if not piece:  # no provider opens a block for nothing
            return
        if (block := self._prose) is None or block.kind != kind:
            yield from self._close_prose()
            block = self._prose = self._new(kind)
            yield BlockChange("open", block)
        yield self._grow(block, piece)

    def _close_prose(self) -> Iterator[BlockChange]:
        if self._prose is not None:
            self._prose.is_whole = True
            yield BlockChange("close", self._prose)
            self._prose = None

    def _grow_call(self, delta: values.ToolCallDelta) -> Iterator[BlockChange]:
        yield from self._close_prose()
        if (block := self._open_call(delta.call_id, delta.name)) is None:
            block = self._new("call", delta.call_id, delta.name)
            self._calls.append(block)
            yield BlockChange("open", block)
        if delta.arguments:
            yield self._grow(block, delta.arguments)

    def _complete_call(self, call: values.ToolCall) -> Iterator[BlockChange]:
        yield from self._close_prose()
        block = self._open_call(call.id, call.name)
        sent = "" if block is None else block.text
        # Pieces of two calls with the same id and name cannot be told apart. The whole call then
        # comes as one more, because what was sent cannot be taken back.
        if block is None or not call.arguments.startswith(sent):
            block = self._new("call", call.id, call.name)
            block.pieces.append(call.arguments)
            yield BlockChange("open", block, call.arguments)
        else:
            self._calls.remove(block)
            if len(sent) < len(call.arguments):
                yield self._grow(block, call.arguments[len(sent) :])
        block.is_whole = True
        yield BlockChange("close", block)

    def _open_call(self, call_id: str, name: str) -> ReplyBlock | None:
        wanted = (call_id, name)
        return next((one for one in self._calls if (one.call_id, one.name) == wanted), None)

    def _new(self, kind: BlockKind, call_id: str = "", name: str = "") -> ReplyBlock:
        block = ReplyBlock(kind, len(self.blocks), len(self.of_kind(kind)), call_id, name)
        self.blocks.append(block)
        return block

    def _grow(self, block: ReplyBlock, piece: str) -> BlockChange:
        block.pieces.append(piece)
        return BlockChange("grow", block, piece)


def finish_word(format_name: str, finish: values.Finish) -> str:
    """Return the word of a format for a finish; one that nobody knows goes out as it is."""
    words = PROVIDERS["finishes"][format_name]
    known = {word.lower(): word for word in (*words["others"], *words["reasons"].values())}
    word: str = known.get(finish.raw.lower().replace("-", "_"), "")
    return word or words["reasons"].get(finish.reason) or finish.raw or finish.reason.value


INVALID = "invalid_request_error"
OVERFLOW = "context_length_exceeded"
_HTML = "<html><head><title>{0}</title></head><body><center><h1>{0}</h1></center></body></html>"
_GATEWAY = frozenset({502, 504})  # sent by the network in front of a provider, as a page
STATUSES: Mapping[str, int] = PROVIDERS["statuses"]
"""The statuses of failures without one, which replies that do not stream must have, by code."""
_TOO_MANY_REQUESTS = 429


class ErrorWords(NamedTuple):
    """A provider's words for an error. Anthropic sends no code and no parameter."""

    type: str
    message: str
    code: str | None = None
    param: str | None = None


def status_of(fault: values.Fault) -> int:
    """Return the status of a fault; one without gets that of its code, or 500."""
    return STATUSES.get(fault.code, 500) if fault.status is UNSET else fault.status


def error_words(provider: str) -> dict[int | str, ErrorWords]:
    """Return a provider's words for errors, by status or code."""
    rows = {key: ErrorWords(**row) for key, row in PROVIDERS[provider].items() if key != "source"}
    return {int(key) if key.isdecimal() else key: words for key, words in rows.items()}


def words_of(
    fault: values.Fault, known: Mapping[int | str, ErrorWords], of_servers: str, of_clients: str
) -> ErrorWords:
    """Return the words for a fault: those of its code or status, else a type and its own words."""
    status = status_of(fault)
    kind = of_clients if status < 500 else of_servers  # noqa: PLR2004 - the classes of HTTP
    return known.get(fault.code) or known.get(status) or ErrorWords(kind, fault.message)


def message_of(fault: values.Fault, words: ErrorWords) -> str:
    """Return the script's message, or the provider's if the script says nothing."""
    return words.message if _is_silent(fault) else fault.message


def _is_silent(fault: values.Fault) -> bool:
    """Return whether the script says nothing but the status, as the fault `model.overflow`."""
    status = status_of(fault)
    overflows = fault.code == OVERFLOW and fault.message.startswith(f"{status} ")
    return overflows or fault.message in ("", status_text(status))


@dataclass(frozen=True, slots=True)
class WireFormat(ABC):
    """One wire format: one file, and its name in `FORMATS`. It gets whole requests.

    It answers each POST to `paths`, most formats with server-sent events.
    """

    name: ClassVar[str]
    hosts: ClassVar[str]
    """The hosts at which its SDKs look for models, as a regular expression."""
    path: ClassVar[str]
    """The end of the path of its requests, as a page names it."""
    paths: ClassVar[str]
    """The ends of all paths that it answers, as a regular expression."""
    marks_failed_tools: ClassVar[bool] = False
    """Whether a request marks the results of tools that failed."""
    pages: ClassVar[Collection[int]] = _GATEWAY
    options: WireOptions = field(default_factory=WireOptions)
    storage: Storage = field(default_factory=Storage)

    def answers(self, request: HttpRequest) -> bool:
        """Return whether a request is one of this format, by its method and its URL."""
        return request.method == "POST" and re.search(f"{self.paths}$", request.path) is not None

    @abstractmethod
    def read(self, request: HttpRequest) -> WireRequest:
        """Return the contents of a request. Raises WrongRequest."""

    def joined(self, events: Iterable[JsonObject]) -> JsonObject:  # noqa: ARG002 - others use it
        """Return the reply that recorded events make, with their `error`. Raises WrongRequest."""
        raise WrongRequest("", f"a recorded stream of {self.name} is not read")

    def reply(self, body: JsonObject) -> WireReply:  # noqa: ARG002 - as above
        """Return the contents of a whole recorded reply. Raises WrongRequest."""
        raise WrongRequest("", f"a recorded reply of {self.name} is not read")

    @abstractmethod
    def encoder(self, request: WireRequest, stamp: Stamp) -> BlockEncoder: ...

    def framed(self, events: Sequence[WireEvent]) -> list[bytes]:
        """Return the pieces of the next events. A framing changes lines and pieces, no event."""
        framing = self.options.framing
        line_end = "\r\n" if framing == "crlf" else "\n"
        before = [": keep-alive", ""] if framing == "comments" else []
        lines: list[str] = []
        for name, sent in events:
            lines += (*before, *([f"event: {name}"] if name else []), f"data: {sent}", "")
        data = "".join(f"{line}{line_end}" for line in lines).encode()
        if framing == "bytes":
            return [data[at : at + 1] for at in range(len(data))]
        return [data] if data else []

    def headers(self, request: WireRequest, stamp: Stamp) -> Headers:
        """Return the headers of a reply that has not failed."""
        return (("content-type", EVENTS if request.streams else JSON), *self.every(stamp))

    def error(self, failure: values.StreamError, stamp: Stamp) -> HttpReply:
        """Return the HTTP reply that a failed call has in the place of any output.

        The script's headers stand over the provider's, and the script's body in place of its own.
        """
        fault, status = failure.fault, status_of(failure.fault)
        if failure.body is not None:
            text, is_page = writable(failure.body), failure.body.lstrip().startswith("<")
            is_json = isinstance(json_value(failure.body), dict | list)
            kind = JSON if is_json else "text/html" if is_page else "text/plain"
        elif status in self.pages and not fault.code and _is_silent(fault):
            text, kind = _HTML.format(status_text(status)), "text/html"
        else:
            text, kind = wire_json(self.error_body(fault, stamp.number)), JSON
        given = {name for name, _ in fault.headers}
        own = (("content-type", kind), *self.every(stamp, failure))
        kept = (header for header in own if header[0] not in given)
        return HttpReply(status, (*kept, *fault.headers), HttpBody(text.encode()))

    def refuse(self, wrong: WrongRequest, stamp: Stamp) -> HttpReply:
        """Return the HTTP reply to a request that cannot be read."""
        return self.error(values.StreamError(values.Fault(str(wrong), status=wrong.status)), stamp)

    @abstractmethod
    def error_body(self, fault: values.Fault, number: int) -> JsonObject:
        """Return the body that the provider sends for a failed call."""

    def every(self, stamp: Stamp, failure: values.StreamError | None = None) -> Headers:  # noqa: ARG002 - others look
        """Return the headers of every reply beside its type; none by default."""
        return ()

    def limits(
        self, what: str, reset: str, failure: values.StreamError | None = None
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


def request_id(number: int) -> str:
    """Return the id of a request, which providers send in a header."""
    return f"req-{number}"
