"""Lines that fit a terminal: folded under their last column, wide characters counted as two cells.

Folding loses nothing but spaces, and a command stays one that can be copied.
"""

import re
from collections.abc import Iterator

_SEQUENCE = re.compile("\x1b\\[[0-9;]*m")
_GAP = re.compile(r"\S\s{2,}(?=\S)")
_WORD = re.compile(r"\s*\S+")
_COMMAND = re.compile(r"^\s*(reproduce|see it|run): ")


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


def folded(line: str, columns: int) -> Iterator[str]:
    """Yield `line` in pieces of at most `columns` cells.

    The pieces after the first stand below the last column that begins in the left half. A command
    is cut anywhere, with a backslash at each cut: a shell joins such lines again.
    """
    if cells(line) <= columns:
        yield line
        return
    if _COMMAND.match(line):
        *cut, last = _cut(line, columns - 1)
        yield from (f"{piece}\\" for piece in cut)
        yield last
        return
    indent, piece = " " * _indent(line, columns), ""
    for word in _words(line, columns - len(indent)):
        if piece.strip() and cells(piece + word) > columns:
            yield piece
            piece = indent + word.lstrip()
        else:
            piece += word
    yield piece


def _cut(text: str, columns: int) -> Iterator[str]:
    """Yield pieces of `columns` cells, or one less where a wide character does not fit."""
    while text:
        end = 1
        while end < len(text) and cells(text[: end + 1]) <= columns:
            end += 1
        yield text[:end]
        text = text[end:]


def _indent(line: str, columns: int) -> int:
    text = _SEQUENCE.sub("", line)
    lead = len(text) - len(text.lstrip())
    columns_begin = [cells(text[: gap.end()]) for gap in _GAP.finditer(text)]
    return max((at for at in (lead, *columns_begin) if at <= columns // 2), default=0)


def _words(line: str, room: int) -> Iterator[str]:
    """Yield the words, each with the spaces before it; split a word longer than a line."""
    for match in _WORD.finditer(line):
        word = match.group()
        if cells(word.lstrip()) <= room:
            yield word
        else:
            first, *rest = _cut(word.lstrip(), room)
            yield word[: len(word) - len(word.lstrip())] + first
            yield from rest
