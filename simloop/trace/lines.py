"""The lines of a trace file: one for each entry, and one for all pieces of a text in a row.

A reply may have an entry for each of its words. In a file they are one line, with the whole text,
and with the lengths and the times of its pieces, so that `unfold` returns the same entries.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise, repeat
from typing import Annotated, Any

from msgspec import Meta, Struct

from simloop.kernel.names import kebab
from simloop.trace import entries
from simloop.trace.entries import AnyEntry, Count, Footer, Header

_TWO_OR_MORE = Meta(min_length=2)
_MOST_NS = 2**63 - 1


class Pieces(
    Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True,
    tag_field="kind", tag=kebab,
):  # fmt: skip
    """Pieces that arrived one after another in the reply to `request`.

    `seq` and `at_ns` are those of the first. `lengths` counts the characters of each piece, whose
    texts together are `text`. `gaps_ns` is the time between a piece and the next: one number if all
    are equal.
    """

    seq: Count
    at_ns: Count
    request: Count
    text: str
    lengths: Annotated[tuple[Count, ...], _TWO_OR_MORE]
    gaps_ns: Count | tuple[Count, ...] = 0


class TextDeltas(Pieces, frozen=True, gc=False):
    """Pieces of text arrived in the reply to `request`."""


class ReasoningDeltas(Pieces, frozen=True, gc=False):
    """Pieces of reasoning arrived in the reply to `request`."""


TraceLine = Header | AnyEntry | TextDeltas | ReasoningDeltas | Footer

_FOLDED: Mapping[type, type[Pieces]] = {
    entries.TextDelta: TextDeltas,
    entries.ReasoningDelta: ReasoningDeltas,
}
UNFOLDED: Mapping[type, Callable[..., AnyEntry]] = {
    TextDeltas: entries.TextDelta,
    ReasoningDeltas: entries.ReasoningDelta,
}


def fold(record: Iterable[Any]) -> list[TraceLine]:
    """Return the lines of the entries, in order."""
    lines: list[Any] = []
    row: list[Any] = []  # the newest pieces of one text
    for entry in record:
        if type(entry) not in _FOLDED:
            if row:
                lines.append(_folded(row))
                row = []
            lines.append(entry)
        elif row and type(entry) is type(row[0]) and entry.request == row[0].request:
            row.append(entry)
        else:
            if row:
                lines.append(_folded(row))
            row = [entry]
    if row:
        lines.append(_folded(row))
    return lines


def _folded(row: list[Any]) -> Any:
    first, last = row[0], row[-1]
    if first is last:
        return first
    gaps_ns: int | tuple[int, ...] = 0
    if first.at_ns != last.at_ns:
        gaps = tuple([after.at_ns - before.at_ns for before, after in pairwise(row)])
        gaps_ns = gaps[0] if len(set(gaps)) == 1 else gaps
    texts = [piece.text for piece in row]
    kind, lengths = _FOLDED[type(first)], tuple(map(len, texts))
    return kind(first.seq, first.at_ns, first.request, "".join(texts), lengths, gaps_ns)


def wrong_pieces(line: Pieces) -> str:
    """Return why the line is not the pieces of its text; empty if it is."""
    chars, gaps = sum(line.lengths), line.gaps_ns
    if chars != len(line.text):
        return f"its pieces have {chars} characters, and its text has {len(line.text)}"
    spaces = len(line.lengths) - 1
    if isinstance(gaps, tuple) and len(gaps) != spaces:
        return f"its pieces have {spaces} gaps between them, and it gives {len(gaps)}"
    last_ns = line.at_ns + (sum(gaps) if isinstance(gaps, tuple) else gaps * spaces)
    return "its last piece comes after the end of time" if last_ns > _MOST_NS else ""


def unfold(line: Pieces) -> list[AnyEntry]:
    """Return the entries of a line that `wrong_pieces` has nothing against."""
    make, number, text, gaps = UNFOLDED[type(line)], line.request, line.text, line.gaps_ns
    found: list[AnyEntry] = []
    seq, at_ns, start = line.seq, line.at_ns, 0
    # One plain loop: reading a trace spends most of its time here.
    later = (*gaps, 0) if isinstance(gaps, tuple) else repeat(gaps)
    for length, gap in zip(line.lengths, later, strict=False):
        end = start + length
        found.append(make(seq, at_ns, number, text[start:end]))
        start, seq, at_ns = end, seq + 1, at_ns + gap
    return found
