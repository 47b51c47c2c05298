"""The search in a timeline: the next entry whose words contain a text.

Not here: where the cursor goes (session.py). The rule to keep: what is searched is what is shown,
so that a match can be seen; upper and lower case are alike.
"""

from collections.abc import Callable, Sequence

from simloop.cursor.lanes import words_of
from simloop.trace.entries import AnyEntry

Wanted = Callable[[], bool]


def found(
    record: Sequence[AnyEntry], text: str, start: int, step: int, wanted: Wanted = lambda: True
) -> int | None:
    """Return the first entry from `start` on, in steps of 1 or -1, that contains `text`, or None.

    The search goes on at the other end. It stops with None when it is no longer `wanted`.
    """
    count = len(record)
    text = text.casefold()
    for distance in range(count):
        place = (start + step * distance) % count
        if text in words_of(record[place]).casefold():
            return place
        if not distance % 1000 and not wanted():
            return None
    return None
