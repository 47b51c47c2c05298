"""Streams: the parts of one reply, each taken when it is due.

`due` yields what is there now, without waiting, and can be called again after the caller has
stopped in the middle; only `wait` waits. A reply that is there as a whole costs no coroutine.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from operator import length_hint
from typing import Any, Protocol

from simloop.messages import Finish, Part, StreamError

TimedPart = tuple[int, Part | Exception | None]
"""Nanoseconds to wait, then a part; None waits for ever, as a stall does, and an exception is
raised, as the code of a model may do."""


class Stream(Protocol):
    """The parts of one reply. An exception of the model's code is raised by either method."""

    def due(self) -> Iterator[Part]:
        """Yield the parts that are there now."""
        ...

    async def wait(self) -> bool:
        """Wait until another part may be there. Return False if the stream has ended."""
        ...

    async def aclose(self) -> None:
        """Give up the rest of the stream."""
        ...


class TimedStream:
    """A stream of timed parts. It is also an async iterator, for models that wrap other models."""

    __slots__ = ("_due", "_ended", "_later", "_timed")

    def __init__(self, timed: Iterable[TimedPart]) -> None:
        self._timed = iter(timed)
        self._due: Part | None = None  # the part that `wait` has waited for
        self._later: TimedPart | None = None
        self._ended = False

    def ahead(self) -> Finish | None:
        """Return the finish that is to come, if the rest is known."""
        try:
            rest = copy.copy(self._timed)  # a generator cannot be copied
        except TypeError:
            return None
        next_one = (self._later or (0, None))[1]
        known = (self._due, next_one, *(part for _, part in rest))
        return next((part for part in known if type(part) is Finish), None)

    def due(self) -> Iterator[Part]:
        """Yield the parts that need no further waiting."""
        if self._due is not None:
            part, self._due = self._due, None
            yield part
        if self._later is not None:
            return
        for timed in self._timed:
            delay_ns, part_or_fault = timed
            if delay_ns or part_or_fault is None:
                self._later = timed
                return
            if isinstance(part_or_fault, Exception):
                raise part_or_fault.with_traceback(None)  # it may be raised again
            yield part_or_fault
        self._ended = True

    async def wait(self) -> bool:
        """Wait for the delay of the next part; a stall waits for ever."""
        if self._later is None:
            return not self._ended
        delay_ns, part = self._later
        if delay_ns:
            await asyncio.sleep(delay_ns / 1e9)
        if part is None:
            await asyncio.get_running_loop().create_future()
        self._later = None
        if isinstance(part, Exception):
            raise part.with_traceback(None)
        self._due = part
        return True

    def __aiter__(self) -> AsyncIterator[Part]:
        return self

    async def __anext__(self) -> Part:
        while True:
            for part in self.due():
                return part
            if not await self.wait():
                raise StopAsyncIteration

    async def aclose(self) -> None:
        """Give up the rest; there is nothing to clean up."""
        self._timed, self._due, self._later, self._ended = iter(()), None, None, True


class WholeStream:
    """A stream whose parts are all there, so that the list itself is iterated."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = iter(parts)

    def ahead(self) -> Finish | None:
        """Return the finish that is to come."""
        return next((part for part in copy.copy(self._parts) if type(part) is Finish), None)

    def due(self) -> Iterator[Part]:
        """Return the iterator of the parts; a later call goes on where the caller stopped."""
        return self._parts

    async def wait(self) -> bool:
        """Return whether parts are left; none is ever waited for."""
        return length_hint(self._parts) > 0

    def __aiter__(self) -> AsyncIterator[Part]:
        return self

    async def __anext__(self) -> Part:
        for part in self._parts:
            return part
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Give up the rest; there is nothing to clean up."""
        self._parts = iter(())


class GeneratedStream:
    """The stream of a model that is an async generator, or any async iterator."""

    __slots__ = ("_due", "_ended", "_iterator")

    def __init__(self, parts: Any) -> None:
        self._iterator = aiter(parts)
        self._due: list[Part] = []
        self._ended = False

    def due(self) -> Iterator[Part]:
        """Yield the part that `wait` has received."""
        while self._due:
            yield self._due.pop()

    async def wait(self) -> bool:
        """Receive the next part."""
        if self._ended:
            return False
        try:
            self._due.append(await anext(self._iterator))
        except StopAsyncIteration:
            self._ended = True
        return not self._ended

    async def aclose(self) -> None:
        """Close the generator, so that its clean-up runs now and not when Python collects it."""
        self._ended = True
        self._due.clear()
        close = getattr(self._iterator, "aclose", None)
        if close is not None:
            await close()


class FailedStream:
    """A stream that failed while it was waited for. `failure` is its last part."""

    def __init__(self, failure: StreamError) -> None:
        self._failure = failure

    def due(self) -> Iterator[Part]:
        """Yield the failure."""
        yield self._failure

    async def wait(self) -> bool:
        """Return True: the failure is there."""
        return True

    async def aclose(self) -> None:
        """Do nothing; the stream that failed was waited for to its end."""


def stream_of(answer: Any) -> Stream:
    """Return the stream of an answer: a stream, or an async iterator of parts."""
    if hasattr(answer, "due"):
        stream: Stream = answer
        return stream
    return GeneratedStream(answer)
