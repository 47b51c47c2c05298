"""What reaches the terminal: results on stdout, the rest on stderr, a little colour.

Not here: what is said. The rules to keep: colour only repeats what a word says, and text that we
did not write ourselves passes `plain` first.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterable
from itertools import islice
from typing import Any

import click

from simloop.escape import escape

_BATCH = 500
_NARROWEST = 20
_COLOURS = {"ok": "green", "FAILED": "red", "ERROR": "red"}


def wants_colour() -> bool:
    """NO_COLOR first, then FORCE_COLOR, then whether stdout is a terminal that can: as CPython."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    stdout: Any = sys.stdout  # None where there is none
    return stdout is not None and stdout.isatty() and os.environ.get("TERM") != "dumb"


def columns_of(stream: Any) -> int | None:
    """Return the width of the terminal behind `stream`; None if there is no terminal."""
    if stream is None or not stream.isatty():
        return None
    return max(_NARROWEST, shutil.get_terminal_size().columns)


def _fitted(text: str, stream: Any) -> str:
    """Return `text` folded for a terminal; unchanged for a file or a pipe."""
    columns = columns_of(stream)
    if columns is None:
        return text
    from simloop.cli.folding import folded  # noqa: PLC0415 - for terminals only

    return "\n".join(piece for line in text.split("\n") for piece in folded(line, columns))


def out(text: str) -> None:
    """Print a result. Raises ClickException, which ends with 2, where it cannot be written."""
    out_exactly(_fitted(text, sys.stdout))


def out_exactly(text: str) -> None:
    """Print JSON, XML, YAML and the like as it is: a fold would break it. Raises as `out`."""
    try:
        click.echo(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        abandon_stdout()
        raise click.ClickException(f"stdout cannot be written: {error.strerror}") from error


def out_lines(lines: Iterable[str]) -> None:
    """Print results in batches: a long timeline neither waits for its end nor is flushed often."""
    remaining = iter(lines)
    while batch := list(islice(remaining, _BATCH)):
        out("\n".join(batch))


def note(text: str) -> None:
    """Say something on stderr."""
    click.echo(_fitted(text, sys.stderr), err=True)


def plain(text: str) -> str:
    """One line that is safe to print and long enough for a path and a message."""
    return escape(text)


def json_text(document: object, indent: int | None = None) -> str:
    """`document` as JSON that no terminal obeys: ASCII, with DEL escaped like other controls."""
    return json.dumps(document, indent=indent).replace("\x7f", "\\u007f")


def verdict_word(word: str, width: int = 0) -> str:
    """`ok`, `FAILED` or `ERROR`, in its colour."""
    return click.style(word.ljust(width), fg=_COLOURS[word])


def abandon_stdout() -> None:
    """Let what is still buffered for stdout go nowhere, or Python would fail again at its exit."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # no real file behind it: nothing will be flushed
        pass
