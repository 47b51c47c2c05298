"""Two runs side by side: their entries in pairs, aligned where they are alike.

The runs are equal up to the first divergence, so only the entries after it are aligned, and by
their kinds and words alone.
"""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.rows import words_of
from simloop.trace import entries
from simloop.trace.diff import same, without_line
from simloop.trace.entries import AnyEntry
from simloop.trace.kinds import kind_of

_MOST_ALIGNED = 2_000
"""Entries after the divergence that are aligned by their words; later ones stand side by side."""


class Pair(NamedTuple):
    """An entry of each run, or None where one run has none. `same` says that they are equal."""

    left: int | None
    right: int | None
    same: bool


class Alignment(NamedTuple):
    """The pairs of two runs, and the place of the first pair that differs, or None.

    `effect` is the first pair that differs in more than the words of a design: in an entry of the
    boundary, a wait, a compaction or the end.
    """

    pairs: tuple[Pair, ...]
    first: int | None
    effect: int | None


def align(left: RecordedRun, right: RecordedRun) -> Alignment:
    """Align two runs."""
    one, other = left.entries, right.entries
    shared = _shared(one, other)
    pairs = [Pair(place, place, same=True) for place in range(shared)]
    pairs += _rest(one, other, shared)
    first = next((n for n, pair in enumerate(pairs) if not pair.same), None)
    differing = (n for n, pair in enumerate(pairs) if not pair.same)
    effect = next((n for n in differing if _is_effect(one, other, pairs[n])), None)
    return Alignment(tuple(pairs), first, effect)


def _is_effect(one: Sequence[AnyEntry], other: Sequence[AnyEntry], pair: Pair) -> bool:
    sides = ((one, pair.left), (other, pair.right))
    return any(at is not None and type(run[at]) not in _OF_DESIGN for run, at in sides)


_OF_DESIGN = frozenset({entries.Transition, entries.Classified, entries.Notice})
"""What a loop says of itself: two designs may differ in it and have the same effects."""


def _shared(one: Sequence[AnyEntry], other: Sequence[AnyEntry]) -> int:
    pairs = zip(one, other, strict=False)
    shorter = min(len(one), len(other))
    return next((n for n, (a, b) in enumerate(pairs) if not same(a, b)), shorter)


def _rest(one: Sequence[AnyEntry], other: Sequence[AnyEntry], start: int) -> Iterator[Pair]:
    """Yield the pairs after the entries that are equal."""
    end = start + _MOST_ALIGNED
    left_words, right_words = ([_words(each) for each in some[start:end]] for some in (one, other))
    matcher = SequenceMatcher(a=left_words, b=right_words, autojunk=False)
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        left = range(start + a, start + a_end)
        right = range(start + b, start + b_end)
        if tag == "equal":
            yield from (Pair(x, y, same=True) for x, y in zip(left, right, strict=True))
        else:
            yield from (Pair(x, y, same=False) for x, y in zip_longest(left, right))
    later = zip_longest(range(end, len(one)), range(end, len(other)))
    yield from (Pair(x, y, same=_alike(one, other, x, y)) for x, y in later)


def _alike(
    one: Sequence[AnyEntry], other: Sequence[AnyEntry], left: int | None, right: int | None
) -> bool:
    return left is not None and right is not None and _words(one[left]) == _words(other[right])


def _words(entry: AnyEntry) -> tuple[str, str]:
    """Return the kind and the words of an entry, without its number and its time."""
    return kind_of(entry), words_of(without_line(entry))
