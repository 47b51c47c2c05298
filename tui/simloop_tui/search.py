"""The search in a timeline: the next entry whose words contain a text.

Not here: where the cursor goes (session.py). The rule to keep: what is searched is what is shown,
so that a match can be seen; upper and lower case are alike.
"""

from collections.abc import Callable, Iterable, Sequence

from simloop.cursor.lanes import words_of
from simloop.trace.entries import AnyEntry

Wanted = Callable[[], bool]


def found(
    record: Sequence[AnyEntry], text: str, places: Iterable[int], wanted: Wanted = lambda: True
) -> int | None:
    """Return the first of `places` whose entry contains `text`, or None.

    The search stops with None when it is no longer `wanted`.
    """
    text = text.casefold()
    for count, place in enumerate(places):
        if text in words_of(record[place]).casefold():
            return place
        if not count % 1000 and not wanted():
            return None
    return None
