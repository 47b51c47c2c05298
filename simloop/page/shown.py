"""The rows that a view shows, entry by entry, and the changes from one entry to the next.

Not here: which entries can change a view (tables.py). The rule to keep: the messages that two
requests share are not read again, so that the time for a page grows linearly with its run.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from simloop.cursor.keys import FactView
from simloop.cursor.position import Position
from simloop.cursor.rows import FactRow, Mark
from simloop.cursor.views import (
    MessagesView,
    fold_rows,
    message_rows,
    messages_view,
    view,
)
from simloop.page.changes import Splice, changes


class Numbered(dict[Any, int]):
    """Numbers for things in the order in which they are first seen."""

    def __missing__(self, thing: Any) -> int:
        """Give a thing the next number."""
        self[thing] = number = len(self)
        return number


class ViewRows:
    """The rows of a view, as numbers."""

    def __init__(self, name: FactView, numbers: Numbered) -> None:
        self._name = name
        self._numbers = numbers
        self._shown: list[int] = []

    def change(self, position: Position) -> list[Splice]:
        """Show the view at a position, and return the changes of the rows."""
        return list(self._replace(0, len(self._shown), view(self._name, position)))

    def _replace(self, start: int, end: int, rows: Iterable[FactRow]) -> Iterator[Splice]:
        """Replace the rows from `start` to `end`, and yield the changes."""
        now = [self._numbers[each] for each in rows]
        for place, *rest in changes(self._shown[start:end], now):
            yield [start + place, *rest]
        self._shown[start:end] = now


class MessagesViewRows(ViewRows):
    """The rows of a view that ends with messages: its heading, its folds, its messages.

    Each list of starts has the number of rows before each part, and at its end that of all parts.
    """

    def __init__(self, name: FactView, numbers: Numbered) -> None:
        super().__init__(name, numbers)
        self._known = MessagesView((), (), (), 0, 0)
        self._heading = 0
        self._folds, self._messages = [0], [0]

    def change(self, position: Position) -> list[Splice]:
        """Show the view at a position, and return the changes of the rows."""
        now, before = messages_view(self._name, position), self._known
        self._known = now
        heading = now.heading
        if not now.folds and not now.messages:
            heading = view(self._name, position)  # one row that says so
        found = list(self._replace(0, self._heading, heading))
        self._heading = len(heading)
        # The next request shows the messages that the newest compaction removed.
        kept = max(len(before.folds) - 1, 0)
        folds = (tuple(fold_rows(position, place)) for place in now.folds[kept:])
        found += self._replace_parts(self._folds, kept, self._heading, folds)
        # A message that was new has another mark now.
        kept = min(now.shared, before.new, now.new)
        messages = (
            tuple(message_rows(each, Mark.ADDED if number >= now.new else Mark.PLAIN))
            for number, each in enumerate(now.messages[kept:], kept)
        )
        start = self._heading + self._folds[-1]
        return found + self._replace_parts(self._messages, kept, start, messages)

    def _replace_parts(
        self, starts: list[int], kept: int, start: int, parts: Iterable[tuple[FactRow, ...]]
    ) -> list[Splice]:
        """Replace the parts after the first `kept` ones, and return the changes."""
        first, end = start + starts[kept], start + starts[-1]
        del starts[kept + 1 :]
        rows: list[FactRow] = []
        for part in parts:
            rows += part
            starts.append(first - start + len(rows))
        return list(self._replace(first, end, rows))
