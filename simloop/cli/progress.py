"""A line on stderr for long commands on a terminal: a bar, or how far a run has come.

The rules to keep: nothing is ever written unless the stream is a terminal, and a caller that prints
anything else calls `clear` first, so that the bar is the last line or is not there.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Self, TextIO, TypeVar

from simloop.runs.prepared import PreparedRun
from simloop.trace.entries import AnyEntry, Request

PATIENCE_S = 1.0
_BETWEEN_S = 0.1
_WIDTH = 30

T = TypeVar("T")


class StatusLine:
    """A line that shows the progress of a command, if it takes longer than a second.

    `stream` is None if there is none, as in a program without a console.
    """

    def __init__(self, stream: TextIO | None, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._due_s = now() + PATIENCE_S
        self._shown = self._before = ""
        self._requests = 0
        self._terminal = stream if stream is not None and stream.isatty() else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def say(self, text: str) -> None:
        """Replace the shown text with `text`, if it is time."""
        now_s = self._now()
        if self._terminal is None or now_s < self._due_s:
            return
        self._due_s = now_s + _BETWEEN_S
        self.clear()
        self._shown = text
        self._write(text)

    def watch_run(self, run: PreparedRun) -> None:
        """Show how far a run has come, from its beginning on."""
        self._requests = 0
        if self._terminal is not None:
            run.listen(self._see)

    def _see(self, entry: AnyEntry) -> None:
        self._requests += type(entry) is Request
        if self._now() >= self._due_s:
            seconds = entry.at_ns / 1e9
            self.say(f"{self._before}request {self._requests:,}, {seconds:,.0f}s virtual")

    def clear(self) -> None:
        """Erase the line."""
        if self._shown:
            # Spaces, not an escape sequence: any terminal knows them.
            self._write(f"\r{' ' * len(self._shown)}\r")
            self._shown = ""

    def _write(self, text: str) -> None:
        assert self._terminal is not None
        self._terminal.write(text)
        self._terminal.flush()


class ProgressLine(StatusLine):
    """A bar that shows how many of `total` things are done."""

    def __init__(
        self, total: int, stream: TextIO | None, now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stream, now)
        self._total = total

    def through(self, things: Iterable[T]) -> Iterator[T]:
        """Yield the things one by one; the bar moves when the next one is requested."""
        for done, thing in enumerate(things):
            filled = _WIDTH * done // self._total
            bar = f"[{'#' * filled:.<{_WIDTH}}] {done} of {self._total}"
            self.say(bar)
            self._before = f"{bar}, "
            yield thing
