"""Results on stdout, the rest on stderr. Text of others passes `plain` before it is printed."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Self, TextIO, TypeVar

import click

from simloop.escape import escape

PATIENCE_S = 1.0
BETWEEN_S = 0.1
_BATCH = 500
_NARROWEST = 20
_BAR = 30
_COLOURS = {"ok": "green", "FAILED": "red", "ERROR": "red"}
_INTERNAL, _OUTPUT_CLOSED = 3, 141

_SEQUENCE = re.compile("\x1b\\[[0-9;]*m")

T = TypeVar("T")
plain = escape  # one line that is safe to print, and long enough for a path and a message


def wants_colour() -> bool:
    """Return whether to use colour: by NO_COLOR, FORCE_COLOR, then the terminal, as CPython."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    stdout: Any = sys.stdout  # None in a program without a console
    return stdout is not None and stdout.isatty() and os.environ.get("TERM") != "dumb"


def columns_of(stream: Any) -> int | None:
    """Return the width of the terminal behind `stream`; None if there is no terminal."""
    if stream is None or not stream.isatty():
        return None
    import shutil  # noqa: PLC0415 - for terminals only: it loads each kind of compression

    return max(_NARROWEST, shutil.get_terminal_size().columns)


def out(text: str) -> None:
    """Print a result, and end the command if its reader is gone. Raises ClickException."""
    _clear_statuses()
    try:
        click.echo(text)
    except BrokenPipeError:
        # Not left to click, which would exit with 1: that means that a check failed.
        abandon_stdout()
        sys.exit(_OUTPUT_CLOSED)
    except OSError as error:
        abandon_stdout()
        raise click.ClickException(f"stdout cannot be written: {error.strerror}") from error


def out_lines(lines: Iterable[str]) -> None:
    """Print results in batches, so that a long timeline starts early and is not flushed often."""
    remaining = iter(lines)
    while batch := list(islice(remaining, _BATCH)):
        out("\n".join(batch))


def note(text: str) -> None:
    """Print a message to stderr."""
    _clear_statuses()
    click.echo(text, err=True)


def json_text(document: object, indent: int | None = None) -> str:
    """Return `document` as JSON that no terminal obeys: ASCII, with DEL escaped as well."""
    import json  # noqa: PLC0415 - for `--format json` only

    return json.dumps(document, indent=indent).replace("\x7f", "\\u007f")


def verdict_word(word: str, width: int = 0) -> str:
    """Return `ok`, `FAILED` or `ERROR`, in its colour."""
    return click.style(word.ljust(width), fg=_COLOURS[word])


def explain(error: Exception) -> int:
    """Print an error to stderr, with a traceback if SIMLOOP_DEBUG is set; return its exit code."""
    from simloop.errors import InternalError, SimloopError  # noqa: PLC0415 - in case of need

    if os.environ.get("SIMLOOP_DEBUG"):
        import traceback  # noqa: PLC0415 - in case of need

        note("".join(traceback.format_exception(error)).rstrip())
    if isinstance(error, SimloopError) and not isinstance(error, InternalError):
        note("\n".join(map(plain, str(error).split("\n"))))
        return error.exit_code
    wrong = f"internal error: {type(error).__name__}: {plain(str(error))}"
    note(f"{wrong}; please report it, with what the same command prints under SIMLOOP_DEBUG=1")
    return _INTERNAL


def abandon_stdout() -> None:
    """Discard the buffered text of stdout, because Python would fail again at its exit."""
    with suppress(OSError, ValueError):  # no real file behind it: nothing will be flushed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


class StatusLine:
    """A line with the progress of a command of over a second. `out` and `note` clear it."""

    # Not `click.progressbar`, which draws at once, hides the cursor and cannot be wiped.
    def __init__(self, stream: TextIO | None, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._due_s = now() + PATIENCE_S
        self._shown = ""
        self._terminal = stream if stream is not None and stream.isatty() else None

    def __enter__(self) -> Self:
        _statuses.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        _statuses.remove(self)

    def say(self, text: str) -> None:
        now_s = self._now()
        if self._terminal is None or now_s < self._due_s:
            return
        self._due_s = now_s + BETWEEN_S
        self.clear()
        self._shown = text[: (columns_of(self._terminal) or 0) - 1]
        self._write(self._shown)

    def through(self, things: Sequence[T]) -> Iterator[T]:
        """Yield the things one by one; a bar moves when the next one is requested."""
        for done, thing in enumerate(things):
            bar = "#" * (_BAR * done // len(things))
            self.say(f"[{bar:.<{_BAR}}] {done} of {len(things)}")
            yield thing

    def clear(self) -> None:
        if self._shown:
            # Spaces, not an escape sequence: any terminal knows them.
            self._write(f"\r{' ' * len(self._shown)}\r")
            self._shown = ""

    def _write(self, text: str) -> None:
        assert self._terminal is not None
        self._terminal.write(text)
        self._terminal.flush()


_statuses: list[StatusLine] = []


def _clear_statuses() -> None:
    for status in _statuses:
        status.clear()


def cells(text: str) -> int:
    """Return how many cells of a terminal `text` takes; sequences for colour take none."""
    text = _SEQUENCE.sub("", text)
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth  # noqa: PLC0415 - its tables take longer to load than a run

    return max(wcswidth(text), 0)


def padded(text: str, width: int) -> str:
    """Return `text` with spaces behind it up to `width` cells."""
    return text + " " * (width - cells(text))
