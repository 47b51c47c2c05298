"""A bar on stderr for what takes long, where somebody watches.

The rules to keep: nothing is ever written unless the stream is a terminal, and whoever prints
anything else calls `clear` first, so that the bar is the last line or is not there.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Self, TextIO, TypeVar

PATIENCE_S = 1.0
_BETWEEN_S = 0.1
_WIDTH = 30

T = TypeVar("T")


class Status:
    """A line that says how far a command has come. Shown when it has taken longer than a second.

    `stream` is None where there is none, as in a program without a console.
    """

    def __init__(self, stream: TextIO | None, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._due_s = now() + PATIENCE_S
        self._shown = ""
        self._terminal = stream if stream is not None and stream.isatty() else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def say(self, text: str) -> None:
        """Show `text` in the place of the last one, if it is time."""
        now_s = self._now()
        if self._terminal is None or now_s < self._due_s:
            return
        self._due_s = now_s + _BETWEEN_S
        self.clear()
        self._shown = text
        self._write(text)

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            # Spaces, not an escape sequence: any terminal knows them.
            self._write(f"\r{' ' * len(self._shown)}\r")
            self._shown = ""

    def _write(self, text: str) -> None:
        assert self._terminal is not None
        self._terminal.write(text)
        self._terminal.flush()


class Progress(Status):
    """How many of `total` things are done, as a bar."""

    def __init__(
        self, total: int, stream: TextIO | None, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stream, now)
        self._total = total

    def through(self, things: Iterable[T]) -> Iterator[T]:
        """The things, one by one; the bar moves when the next one is asked for."""
        for done, thing in enumerate(things):
            filled = _WIDTH * done // self._total
            self.say(f"[{'#' * filled:.<{_WIDTH}}] {done} of {self._total}")
            yield thing
