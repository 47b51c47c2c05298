"""The rows of views. A row is escaped when it is made, and its mark repeats its colour."""

from collections.abc import Iterator
from enum import StrEnum
from functools import lru_cache, partial
from typing import NamedTuple, Self

from simloop.escape import escape
from simloop.trace.entries import AnyEntry
from simloop.trace.timeline import describe

_WIDEST = 400
_MOST_LINES = 200


class Mark(StrEnum):
    """The meaning of a row, by the character that shows it; trace/kinds.py has the same signs."""

    words: str  # the meaning as a legend states it

    def __new__(cls, sign: str, words: str = "") -> Self:
        mark = str.__new__(cls, sign)
        mark._value_, mark.words = sign, words
        return mark

    PLAIN = " "
    HEAD = "#", "heading"
    ADDED = "+", "new"
    REMOVED = "-", "removed"
    CURRENT = ">", "now"
    EDGE = "*", "newest transition"
    FOLD = "%", "compaction"
    FAULT = "!", "failure or limit"
    QUIET = ".", "no fact, or a note"


class FactRow(NamedTuple):
    """One line of a view; `goes_to` is the entry that it is about, and the label may be empty."""

    mark: Mark
    label: str
    text: str
    goes_to: int | None = None

    def __str__(self) -> str:
        label = f"{self.label}: " if self.label and self.text else self.label
        return f"{self.mark} {label}{self.text}".rstrip()


def row(text: str, label: str = "", mark: Mark = Mark.PLAIN, goes_to: int | None = None) -> FactRow:
    """Return a row; a text that is too wide is cut, with its length after it."""
    shown = escape(text, _WIDEST) if len(text) <= _WIDEST else _cut(text)
    return FactRow(mark, _escaped_label(label), shown, goes_to)


_escaped_label = lru_cache(maxsize=1024)(partial(escape, width=_WIDEST))  # most are simloop's words


def rows(
    text: str, label: str = "", mark: Mark = Mark.PLAIN, goes_to: int | None = None
) -> Iterator[FactRow]:
    """Yield a row for each line of a text; the label is that of the first."""
    lines = text[: _WIDEST * _MOST_LINES].split("\n")
    for number, line in enumerate(lines[:_MOST_LINES]):
        yield row(line, "" if number else label, mark, goes_to)
    if (left := text.count("\n") + 1 - min(len(lines), _MOST_LINES)) > 0:
        yield row(f"{counted(left, 'more line')}, {len(text):,} characters in all", mark=Mark.QUIET)


def words_of(entry: AnyEntry, *pieces: AnyEntry) -> str:
    """Return an entry, with the next pieces of its text, as one line, escaped."""
    words = describe(entry, *pieces)  # escaped
    return words if len(words) <= _WIDEST else _cut(words)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 message`, `2,000 messages`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _cut(text: str) -> str:
    return f"{escape(text[:_WIDEST], _WIDEST)} [{len(text):,} characters]"
