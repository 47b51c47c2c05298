"""A list stored as the changes against the list before it.

Not here: what the numbers mean (tables.py). The rule to keep: `apply` of the changes gives the new
list for any two lists; a pair that aligns badly costs space and nothing else.
"""

from collections.abc import Sequence

Splice = list[int]
"""A place in the new list, a number of items to delete there, and the items to insert there."""

_NEAR = 4


def changes(old: Sequence[int], new: Sequence[int]) -> list[Splice]:
    """Return the changes that make `new` of `old`, to be applied from the first to the last.

    Most pairs differ in a heading and at the end, so the lists are read side by side, and where
    they differ the next items decide whether one was replaced, inserted or deleted.
    """
    found: list[Splice] = []
    i = j = 0
    while i < len(old) and j < len(new):
        if old[i] == new[j]:
            i, j = i + 1, j + 1
            continue
        deleted, inserted = _step(old, new, i, j)
        _add(found, j, deleted, new[j : j + inserted])
        i, j = i + deleted, j + inserted
    if i < len(old) or j < len(new):
        _add(found, j, len(old) - i, new[j:])
    return found


def _step(old: Sequence[int], new: Sequence[int], i: int, j: int) -> tuple[int, int]:
    """Return how many items to delete and to insert at a difference."""
    for size in range(1, _NEAR + 1):
        for deleted, inserted in ((size, size), (0, size), (size, 0)):
            rest, wanted = old[i + deleted : i + deleted + 2], new[j + inserted : j + inserted + 2]
            if rest and rest == wanted:
                return deleted, inserted
    return 1, 1


def _add(found: list[Splice], place: int, deleted: int, inserted: Sequence[int]) -> None:
    """Add a change, or lengthen the last one if it ends where this one starts."""
    last = found[-1] if found else None
    if last is not None and last[0] + len(last) - 2 == place:
        last[1] += deleted
        last.extend(inserted)
    else:
        found.append([place, deleted, *inserted])


def apply(old: Sequence[int], made: Sequence[Splice]) -> list[int]:
    """Return the list that the changes make of `old`."""
    items = list(old)
    for place, deleted, *inserted in made:
        items[place : place + deleted] = inserted
    return items
