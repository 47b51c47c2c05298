"""What reaches the terminal: results on stdout, the rest on stderr, a little colour.

Not here: what is said. The rules to keep: colour only repeats what a word says, and text that we
did not write ourselves passes `plain` first.
"""

import json
import os
import sys
from collections.abc import Iterable
from itertools import islice
from typing import Any

import click

from simloop.trace.untrusted import untrusted

_WIDEST = 2_000
_BATCH = 500
_COLOURS = {"ok": "green", "FAILED": "red", "ERROR": "red"}


def wants_colour() -> bool:
    """NO_COLOR first, then FORCE_COLOR, then whether stdout is a terminal that can: as CPython."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    stdout: Any = sys.stdout  # None where there is none
    return stdout is not None and stdout.isatty() and os.environ.get("TERM") != "dumb"


def out(text: str) -> None:
    """Print a result. Raises ClickException, which ends with 2, where it cannot be written."""
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
    click.echo(text, err=True)


def plain(text: str) -> str:
    """One line that is safe to print and long enough for a path and a message."""
    return untrusted(text, _WIDEST)


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
