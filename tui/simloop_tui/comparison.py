"""Two runs side by side: their entries in pairs, and where the cursor is in them.

The runs are equal up to the first divergence, so only the entries after it are aligned, and by
their kinds and words alone. Each side is a session, so that its facts are those of the replay, and
it can be opened there.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

from simloop.cursor.index import following
from simloop.cursor.keys import FactView
from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.rows import FactRow, words_of
from simloop.trace.diff import same, without_line
from simloop.trace.entries import AnyEntry, Classified, Notice, Transition
from simloop.trace.kinds import kind_of
from simloop_tui.session import Session

_MOST_ALIGNED = 2_000
"""Entries after the divergence that are aligned by their words; later ones stand side by side."""
_OF_DESIGN = frozenset({Transition, Classified, Notice})
"""What a loop says of itself: two designs may differ in it and have the same effects."""


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


def _shared(one: Sequence[AnyEntry], other: Sequence[AnyEntry]) -> int:
    pairs = zip(one, other, strict=False)
    shorter = min(len(one), len(other))
    return next((n for n, (a, b) in enumerate(pairs) if not same(a, b)), shorter)


def _rest(one: Sequence[AnyEntry], other: Sequence[AnyEntry], start: int) -> Iterator[Pair]:
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


DIFFERS = "\N{NOT EQUAL TO} "
"""The words before a fact that the other side does not have."""


class SideBySide:
    """The cursor on a pair of entries. `said` is the answer to the newest action, often empty.

    `notice` is a sentence about both runs, such as why one did not end; it may be empty. `is_left`
    says on which side the actions for one run are. The cursor starts on the first different effect.
    """

    def __init__(self, left: Session, right: Session, notice: str = "") -> None:
        self.left = left
        self.right = right
        self.notice = notice
        self.pairs, first, effect = align(left.recording, right.recording)
        self.differences = [number for number, pair in enumerate(self.pairs) if not pair.same]
        self.is_left = False
        self._before = tuple(_newest([pair[side] for pair in self.pairs]) for side in (0, 1))
        self.place = 0
        self.go(first or 0 if effect is None else effect)
        if effect is None:
            self.said = "the runs do not differ" + ("" if first is None else " in their effects")

    @property
    def side(self) -> Session:
        """Return the session of the chosen side."""
        return self.left if self.is_left else self.right

    @property
    def last(self) -> int:
        return len(self.pairs) - 1

    @property
    def pair(self) -> Pair:
        return self.pairs[self.place]

    def go(self, place: int | None, missing: str = "") -> None:
        """Move both cursors to a pair; None leaves them there and says that there is none.

        A side without an entry in the pair stands on its newest entry before it.
        """
        self.said = missing if place is None else ""
        if place is not None:
            self.place = max(0, min(place, self.last))
        self.left.stand_at(self._before[0][self.place])
        self.right.stand_at(self._before[1][self.place])

    def go_to_entry(self, place: int, *, is_left: bool) -> None:
        """Move both cursors to the pair of an entry of one side."""
        self.go(bisect_left(self._before[0 if is_left else 1], place))

    def move(self, by: str) -> None:
        """Move forward by a number of pairs, or back if it is negative."""
        there = max(0, min(self.place + int(by), self.last))
        end = "last" if int(by) > 0 else "first"
        self.go(there if there != self.place else None, f"this is the {end} pair")

    def start(self) -> None:
        self.go(0)

    def end(self) -> None:
        self.go(self.last)

    def next_difference(self) -> None:
        self.go(following(self.differences, self.place), "there is no later difference")

    def previous_difference(self) -> None:
        at = bisect_left(self.differences, self.place)
        self.go(self.differences[at - 1] if at else None, "there is no earlier difference")

    def other_side(self) -> None:
        self.is_left = not self.is_left
        self.said = f"the {'left' if self.is_left else 'right'} run is chosen"

    def facts(self, name: FactView) -> tuple[Sequence[FactRow], Sequence[FactRow]]:
        """Return the rows of a view of both sides; those that the other does not have say so."""
        left, right = self.left.facts(name), self.right.facts(name)
        return _marked(left, right), _marked(right, left)


COMPARE_ACTIONS: Mapping[str, Callable[..., None]] = {
    each.__name__: each
    for each in (
        SideBySide.move, SideBySide.start, SideBySide.end, SideBySide.next_difference,
        SideBySide.previous_difference, SideBySide.other_side,
    )
}  # fmt: skip
"""The actions that keys and clicks name (keys.py)."""


def _newest(places: Sequence[int | None]) -> list[int]:
    """Return the newest place at each pair; they only grow, so that they can be bisected."""
    found, newest = [], 0
    for place in places:
        newest = newest if place is None else place
        found.append(newest)
    return found


def _marked(rows: Sequence[FactRow], other: Sequence[FactRow]) -> tuple[FactRow, ...]:
    known = {each[:3] for each in other}
    return tuple(each if each[:3] in known else _differing(each) for each in rows)


def _differing(row: FactRow) -> FactRow:
    if row.label:
        return row._replace(label=DIFFERS + row.label)
    return row._replace(text=DIFFERS + row.text)
