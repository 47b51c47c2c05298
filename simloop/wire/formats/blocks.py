"""The blocks of a reply: reasoning, text and calls, as they open, grow and close; and its encoder.

Providers stream a reply as such blocks, each in its own frames. The pieces of a call add up to its
arguments, whatever pieces a script streams first.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from simloop.messages import (
    Fault,
    Finish,
    FinishReason,
    Part,
    ReasoningDelta,
    StreamError,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallPart,
    WireState,
)
from simloop.wire.formats.wire_format import WireEvent, WireRequest
from simloop.world.wire_options import WireOptions

BlockKind = Literal["reasoning", "text", "call"]
ModelOutput = TextDelta | ReasoningDelta | ToolCallDelta | ToolCallPart


class ReplyBlock:
    """One block. `index` is its place in the reply, `nth` its place among the blocks of its kind.

    `is_whole` is unset for a call that broke off.
    """

    __slots__ = ("call_id", "index", "is_whole", "kind", "name", "nth", "pieces")

    def __init__(
        self, kind: BlockKind, index: int, nth: int, call_id: str = "", name: str = ""
    ) -> None:
        self.kind = kind
        self.index = index
        self.nth = nth
        self.call_id = call_id
        self.name = name
        self.pieces: list[str] = []
        self.is_whole = False

    @property
    def text(self) -> str:
        """The text, or the arguments, that has come so far."""
        return "".join(self.pieces)


class BlockChange(NamedTuple):
    """A change of a block. A block may open with a piece; it grows by one; it closes without."""

    action: Literal["open", "grow", "close"]
    block: ReplyBlock
    piece: str = ""


class Blocks:
    """The blocks of one reply, in the order in which they opened."""

    def __init__(self) -> None:
        self.blocks: list[ReplyBlock] = []
        self._prose: ReplyBlock | None = None  # the open block of text or reasoning
        self._calls: list[ReplyBlock] = []  # open calls: their pieces may come in turn

    def of_kind(self, kind: BlockKind) -> list[ReplyBlock]:
        """Return the blocks of one kind."""
        return [block for block in self.blocks if block.kind == kind]

    def text(self, kind: BlockKind) -> str:
        """Return the joined text of the blocks of one kind."""
        return "".join(block.text for block in self.of_kind(kind))

    def feed(self, part: ModelOutput) -> Iterator[BlockChange]:
        """Yield the changes that a part makes."""
        match part:
            case TextDelta():
                yield from self._grow_prose("text", part.text)
            case ReasoningDelta():
                yield from self._grow_prose("reasoning", part.text)
            case ToolCallDelta():
                yield from self._grow_call(part)
            case ToolCallPart():
                yield from self._complete_call(part.call)

    def close(self) -> Iterator[BlockChange]:
        """Yield the changes at the reply's end; calls that are open have broken off."""
        yield from self._close_prose()
        for block in self._calls:
            yield BlockChange("close", block)
        self._calls = []

    def _grow_prose(self, kind: BlockKind, piece: str) -> Iterator[BlockChange]:
        if not piece:  # no provider opens a block for nothing
            return
        block = self._prose
        if block is None or block.kind != kind:
            yield from self._close_prose()
            block = self._prose = self._new(kind)
            yield BlockChange("open", block)
        yield self._grow(block, piece)

    def _close_prose(self) -> Iterator[BlockChange]:
        if self._prose is not None:
            self._prose.is_whole = True
            yield BlockChange("close", self._prose)
            self._prose = None

    def _grow_call(self, delta: ToolCallDelta) -> Iterator[BlockChange]:
        yield from self._close_prose()
        block = self._open_call(delta.call_id, delta.name)
        if block is None:
            block = self._new("call", delta.call_id, delta.name)
            self._calls.append(block)
            yield BlockChange("open", block)
        if delta.arguments:
            yield self._grow(block, delta.arguments)

    def _complete_call(self, call: ToolCall) -> Iterator[BlockChange]:
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


class BlockEncoder(ABC):
    """Writes one reply as the changes of its blocks, in the events that a format names.

    Nothing is sent before the first part, so that an error without output is the first event.
    """

    def __init__(self, options: WireOptions, request: WireRequest) -> None:
        self.options = options
        self.request = request
        self.blocks = Blocks()
        self.finish: Finish | None = None
        self._has_begun = False

    def begin(self, ahead: Finish | None = None) -> Sequence[WireEvent]:  # noqa: ARG002 - the protocol has it
        """Return the events that come with the headers: none."""
        return ()

    def feed(self, part: Part) -> Sequence[WireEvent]:
        """Return the events of the next part; the first also opens the reply."""
        if isinstance(part, WireState):
            return ()
        if isinstance(part, StreamError):
            return [self.failed(part.fault)]
        ending: Iterator[WireEvent] = iter(())
        if isinstance(part, Finish):
            self.finish = part
            if not part.raw and part.reason is FinishReason.INTERRUPTED:
                return self.opening()
            changes, ending = list(self.blocks.close()), self.ended(part)
        else:
            changes = list(self.blocks.feed(part))
        events = self.opening()
        for change in changes:
            events += self.changed(change)
        return [*events, *ending]

    def opening(self) -> list[WireEvent]:
        """Return the events that open the reply, once."""
        if self._has_begun:
            return []
        self._has_begun = True
        return list(self.opened())

    @abstractmethod
    def opened(self) -> Iterator[WireEvent]:
        """Yield the events before those of the first part, whose blocks are there already."""

    @abstractmethod
    def changed(self, change: BlockChange) -> Iterator[WireEvent]:
        """Yield the events of a change of a block."""

    @abstractmethod
    def failed(self, fault: Fault) -> WireEvent:
        """Return the event of an error inside the stream."""

    @abstractmethod
    def ended(self, finish: Finish) -> Iterator[WireEvent]:
        """Yield the events of the end of the reply."""

    @abstractmethod
    def whole(self) -> bytes:
        """Return the body of a reply that does not stream, after its last part."""
