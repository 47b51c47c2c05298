"""Output to the terminal: results on stdout, the rest on stderr, a little colour.

Not here: the text of the output. The rules to keep: colour only repeats the meaning of a word, and
text that simloop did not write itself passes `plain` first.
"""

import os
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


def _fitted(text: str, stream: Any) -> str:
    """Return `text` folded for a terminal; unchanged for a file or a pipe."""
    columns = columns_of(stream)
    if columns is None:
        return text
    from simloop.cli.folding import folded  # noqa: PLC0415 - for terminals only

    return "\n".join(piece for line in text.split("\n") for piece in folded(line, columns))


def out(text: str) -> None:
    """Print a result. Raises ClickException, which ends with 2, if it cannot be written."""
    out_exactly(_fitted(text, sys.stdout))


def out_exactly(text: str) -> None:
    """Print JSON, XML, YAML and the like unfolded. Raises ClickException as `out` does."""
    try:
        click.echo(text)
    except BrokenPipeError:
        raise
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
    click.echo(_fitted(text, sys.stderr), err=True)


def plain(text: str) -> str:
    """Return one line that is safe to print and long enough for a path and a message."""
    return escape(text)


def json_text(document: object, indent: int | None = None) -> str:
    """Return `document` as JSON that no terminal obeys: ASCII, with DEL escaped as well."""
    import json  # noqa: PLC0415 - for `--format json` only

    return json.dumps(document, indent=indent).replace("\x7f", "\\u007f")


def verdict_word(word: str, width: int = 0) -> str:
    """Return `ok`, `FAILED` or `ERROR`, in its colour."""
    return click.style(word.ljust(width), fg=_COLOURS[word])


def abandon_stdout() -> None:
    """Discard the buffered text of stdout, because Python would fail again at its exit."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # no real file behind it: nothing will be flushed
        pass
