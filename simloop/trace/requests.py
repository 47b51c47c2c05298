"""Requests coded as the changes since an earlier request, and read back.

A trace then grows with the run and not with its square. Coding goes by the content of the messages,
because an agent may build a new list for every request. A `View` of an append-only list says the
same in constant time, which keeps a round of the engine independent of the length of its history.
"""

import itertools
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, overload

import msgspec
from msgspec import UNSET, Struct, UnsetType

from simloop.errors import ScenarioError
from simloop.messages import Message, Request, ToolSpec
from simloop.trace import entries
from simloop.trace.entries import AnyEntry

_ENCODER = msgspec.json.Encoder()
_REQUEST = msgspec.json.Decoder(entries.Request)
# Requests that a later one may be coded against: several agents may share one model.
_REMEMBERED = 8


class View(Struct, frozen=True, gc=False, eq=False):
    """The first `length` messages of a list that only grows, with `tail` after them.

    A Sequence of messages: a snapshot without a copy. A Struct, because one for each request
    survives the garbage collector.
    """

    messages: list[Message]
    length: int
    tail: tuple[Message, ...] = ()  # that only this request has

    def __len__(self) -> int:
        return self.length + len(self.tail)

    def __iter__(self) -> Iterator[Message]:
        return itertools.chain(itertools.islice(self.messages, self.length), self.tail)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            return [*self.messages[: self.length], *self.tail][index]
        place = index if index >= 0 else len(self) + index
        if not 0 <= place < len(self):
            raise IndexError(f"message {index} of {len(self)}")
        return self.messages[place] if place < self.length else self.tail[place - self.length]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __ne__ = object.__ne__  # that of a Struct compares by identity

    def __hash__(self) -> int:
        return hash(tuple(self))


Sequence.register(View)


def view(messages: list[Message], tail: tuple[Message, ...] = ()) -> Sequence[Message]:
    """Return a View of a list that only grows, typed as the Sequence that it is registered as."""
    whole: Any = View(messages, len(messages), tail)
    return whole  # type: ignore[no-any-return]


def snapshot(messages: Sequence[Message]) -> Sequence[Message]:
    """Return `messages` as a View. Any other list is copied: its owner may change it."""
    given: Any = messages
    whole: Any = given if type(given) is View else view(list(given))
    return whole  # type: ignore[no-any-return]


class _Sent(Struct, frozen=True, gc=False):
    """A request that was coded: its messages without a tail, and the chain of their digests."""

    number: int
    messages: Sequence[Message]
    length: int
    chain: bytes
    system_prompt: str
    tools: tuple[ToolSpec, ...]


_NOTHING = _Sent(0, (), 0, b"", "", ())


def check_request(entry: entries.Request) -> None:
    """Raise TypeError or msgspec.MsgspecError for a request whose new parts are wrong."""
    for message in entry.added:
        if not isinstance(message, Message):
            raise TypeError(f"{type(message).__name__} is no message")
    _REQUEST.decode(_ENCODER.encode(entry))


def wrong_request(number: int, error: Exception) -> ScenarioError:
    """Return the error for a request that `check_request` or the coder cannot take."""
    hint = "`messages` is a list of messages such as UserMessage, `tools` of ToolSpec"
    return ScenarioError(f"request {number} has a wrong part: {error}", key="loop", hint=hint)


class RequestCoder:
    """Codes the requests of one conversation, in the order in which they are sent."""

    def __init__(self) -> None:
        self._sent: deque[_Sent] = deque(maxlen=_REMEMBERED)

    def code(
        self, request: Request, seq: int, at_ns: int, tokens: int
    ) -> tuple[entries.Request, int]:
        """Return the entry of `request`, with the changes since a like one, and its characters."""
        sent: Any = snapshot(request.messages)
        messages, length, tail = sent.messages, sent.length, sent.tail
        base = self._sent[0] if self._sent else _NOTHING
        kept = base.length
        if base.messages is not messages or kept > length:  # not a list that has grown
            base, kept = self._base(messages, length)
        added = (*messages[kept:length], *tail)
        # Hashing the whole list for each request would be quadratic, so the hash goes on from that
        # of the base. An equal list that was sent in other portions then has another digest: a
        # digest identifies a request only among runs that send the same requests.
        encoded = _ENCODER.encode(added)
        chars, start, first = len(encoded), base.chain, kept
        if kept != base.length:
            start, first = b"", 0
            encoded = _ENCODER.encode([*messages[:length], *tail])
        chain = digest = blake2b(start + encoded, digest_size=16).digest()
        if tail:  # the next request goes on from the messages before the tail
            shared = _ENCODER.encode(messages[first:length])
            chain = blake2b(start + shared, digest_size=16).digest()
        number, prompt, tools = request.number, request.system_prompt, request.tools
        self._sent.appendleft(_Sent(number, messages, length, chain, prompt, tools))
        new_prompt: str | UnsetType = UNSET
        new_tools: tuple[ToolSpec, ...] | UnsetType = UNSET
        if prompt != base.system_prompt:
            new_prompt, chars = prompt, chars + len(prompt)
        if tools is not base.tools and tools != base.tools:
            new_tools, chars = tools, chars + sum(len(tool.parameters) for tool in tools)
        entry = entries.Request(
            seq, at_ns, number, request.purpose, digest.hex(),
            base.number, kept, added, new_prompt, new_tools, tokens, request.party,
            request.output or UNSET, request.model,
        )  # fmt: skip
        return entry, chars

    def _base(self, messages: Sequence[Message], length: int) -> tuple[_Sent, int]:
        best, most = _NOTHING, 0
        for sent in self._sent:
            if sent.length <= most and best is not _NOTHING:
                continue  # it cannot have more in common: most are older and shorter
            kept = min(sent.length, length)
            if sent.messages is not messages:
                kept = shared(sent.messages, itertools.islice(messages, kept))
            if kept > most or best is _NOTHING:
                best, most = sent, kept
        return best, most


def shared(one: Iterable[Message], other: Iterable[Message]) -> int:
    """Return the number of equal messages at the start of both."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a is not b and a != b:
            break
        count += 1
    return count


def requests(record: Iterable[AnyEntry]) -> Iterator[Request]:
    """Yield every request as it was sent, in time linear in the trace: they share lists."""
    sent = [entry for entry in record if isinstance(entry, entries.Request)]
    most_kept: dict[int, int] = {}
    for entry in sent:
        most_kept[entry.base] = max(entry.kept, most_kept.get(entry.base, 0))
    read: dict[int, Request] = {}
    for entry in sent:
        request = read_request(entry, read.get(entry.base), most_kept.get(entry.number, 0))
        yield read.setdefault(entry.number, request)


def read_request(entry: entries.Request, base: Request | None, most: int = sys.maxsize) -> Request:
    """Return the request of `entry`, as it was sent; `base` is the one that it was coded against.

    It shares the list of a base to which it only adds. Messages after the first `most`, which
    no later request keeps, go into its tail: else each later request would have to copy the list.
    """
    messages: list[Message] = []
    system_prompt = ""
    tools: tuple[ToolSpec, ...] = ()
    if base is not None:
        system_prompt, tools = base.system_prompt, base.tools
        sent: Any = base.messages
        messages = sent.messages
        if len(messages) != entry.kept:
            messages = list(sent[: entry.kept])
    shared_more = max(most - entry.kept, 0)
    messages += entry.added[:shared_more]
    if isinstance(entry.system_prompt, str):
        system_prompt = entry.system_prompt
    if isinstance(entry.tools, tuple):
        tools = entry.tools
    whole = view(messages, tail=entry.added[shared_more:])
    return Request(
        entry.number, entry.purpose, system_prompt, whole, tools, entry.party,
        entry.output or None, entry.model,
    )  # fmt: skip
