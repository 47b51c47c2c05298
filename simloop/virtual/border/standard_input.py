"""The standard input of a run: a noted pipe, on which the user types in virtual time.

A read outside of runs, or by a debugger, goes to the stream that was there before. Of several
threads one reads at a time: the lock of a buffered file would stop the others in real time.
"""

import functools
import getpass
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Self

from simloop.virtual.border.exchange import NameExchange
from simloop.virtual.border.pipes import KEPT_BY, READ, WRITE, Pipes, exchanged, is_ready
from simloop.virtual.clock.loop import loop_here
from simloop.virtual.real_world import is_exempt
from simloop.virtual.threads.scheduler import Fiber

MOST_CHARS = 20_000
"""The number of characters that the screen keeps of one text."""
_MOST_TEXTS = 50
_close, _dup, _dup2, _write = os.close, os.dup, os.dup2, os.write
_getpass = getpass.getpass


class StandardInput:
    """The two ends of the pipe, and what the program has written since the line before.

    The user is at a terminal, or has redirected a file. `who` tells for which call of the model the
    calling code works; empty for none.
    """

    def __init__(self, pipes: Pipes, *, is_terminal: bool, who: Callable[[], str]) -> None:
        self._pipes = pipes
        self._who = who
        self._reader, self._writer = pipes.note(os.pipe())
        os.set_blocking(self._writer, False)
        self.file: Any = os.fdopen(_dup(self._reader), encoding="utf-8")
        self._is_asked = self._is_read = False
        self._shown: list[tuple[str, str]] = []  # each text with the call whose code wrote it
        self.reader = ""
        """The call whose code reads."""
        pipes.hear_readers(self._reader, self._ask, is_terminal=is_terminal)
        _exchange.enter()

    def be_descriptor_0(self) -> None:
        """Let the process itself read from the pipe, as a whole program does."""
        _dup2(self._reader, 0)
        self.file.close()
        self.file = os.fdopen(0, encoding="utf-8", closefd=False)
        sys.__stdin__ = _exchange.stream  # type: ignore[misc,assignment]

    def show(self, text: str) -> None:
        who, text = self._who(), text[-MOST_CHARS:]
        if self._shown and self._shown[-1][0] == who:
            text = (self._shown.pop()[1] + text)[-MOST_CHARS:]
        self._shown = [*self._shown[-_MOST_TEXTS:], (who, text)]

    @property
    def screen(self) -> str:
        return "".join(text for _, text in self._shown)

    def asker(self, words: Sequence[str]) -> str:
        """Return the call whose code asked last: in these words, or in a line without its end."""
        for who, text in reversed(self._shown):
            if all(each in text for each in words) if words else not text.endswith("\n"):
                return who
        return ""

    def _ask(self) -> None:
        if not self._is_asked and not is_ready(self._reader, READ):
            self._is_asked = True
            self._pipes.changed()

    async def asked(self, fiber: Fiber) -> None:
        """Wait until the program has read all that came before, and waits for more."""
        await self._pipes.await_for(fiber, self._waits, "a question on standard input")

    def _waits(self) -> bool:
        is_awaited = self._is_asked or self._pipes.is_watched(self._reader)
        return is_awaited and not is_ready(self._reader, READ)

    async def type(self, fiber: Fiber, text: str) -> None:
        """Type a text, as far as it fits into the pipe at a time."""
        self._is_asked, self._shown = False, []
        rest = memoryview(text.encode(errors="surrogateescape"))
        while rest:
            await self._pipes.await_for(fiber, functools.partial(is_ready, self._writer, WRITE))
            rest = rest[_write(self._writer, rest) :]  # as much as there is room for
            self._pipes.changed()

    def end(self) -> None:
        if self._writer >= 0:
            _close(self._writer)
            self._writer = -1
            self._pipes.changed()

    def read(self, name: str, *args: Any) -> Any:
        """Call a method of the file that reads, when no other thread does."""
        self._pipes.wait_for(lambda: not self._is_read, what="another read of standard input")
        self._is_read, self.reader = True, self._who()
        try:
            return getattr(self.file, name)(*args)
        finally:
            self._is_read, self.reader = False, ""
            self._pipes.changed()

    def close(self) -> None:
        _exchange.leave()
        for each in filter(lambda end: end >= 0, (self._reader, self._writer)):
            _close(each)
        if not self.file.closed and self.file.fileno():
            self.file.close()


def _ask_secretly(pipes: Pipes, prompt: str = "Password: ", stream: Any = None, **_: Any) -> Any:
    """Read a line as `getpass` does, which would open the real terminal."""
    ask: Any = getpass._raw_input  # type: ignore[attr-defined]  # noqa: SLF001 - what it calls
    return (_getpass if pipes.loop.standard_input is None else ask)(prompt, stream)


FUNCTIONS: dict[Any, Callable[..., Any]] = {_getpass: exchanged(_getpass, _ask_secretly)}


class _Stream:
    """The object in `sys.stdin`; what it lacks is that of the file of the run, or of no run."""

    under: Any = None

    def _here(self) -> StandardInput | None:
        loop = loop_here()
        given: StandardInput | None = None if loop is None else loop.standard_input
        # A person who steps through a run with a debugger is outside of it.
        return None if given is None or is_exempt(sys._getframe(2)) else given  # noqa: SLF001

    def _read(self, name: str, *args: Any) -> Any:
        given = self._here()
        return getattr(self.under, name)(*args) if given is None else given.read(name, *args)

    readline = functools.partialmethod(_read, "readline")
    read = functools.partialmethod(_read, "read")
    readlines = functools.partialmethod(_read, "readlines")

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if line := self.readline():
            return line
        raise StopIteration

    def __getattr__(self, name: str) -> Any:
        given = self._here()
        return getattr(self.under if given is None else given.file, name)


class _StreamExchange(NameExchange):
    """Puts the object into `sys.stdin` for the first run that needs it, until the last one."""

    stream = _Stream()
    is_begun = False

    def begin(self, *_: Any) -> None:
        self.is_begun = True
        self.stream.under = sys.stdin
        sys.stdin = self.stream

    def end(self) -> None:
        if self.is_begun:
            self.is_begun = False
            sys.stdin = self.stream.under


_exchange = _StreamExchange(FUNCTIONS, (), kept_by=KEPT_BY)
