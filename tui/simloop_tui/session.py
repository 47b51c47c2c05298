"""The session: where the cursor is, and where each action moves it. It works without Textual.

An action changes the session alone, and says in `said` if it finds nothing. The cursor stands on an
entry that is shown: a move passes over the entries that the filter hides, and a jump to an entry
that it hides ends at the nearest one and says so.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from simloop.cursor.index import Landmark, Watched
from simloop.cursor.keys import FactView
from simloop.cursor.position import Position, place_of
from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.rows import FactRow, Mark, counted, row
from simloop.cursor.views import view
from simloop.errors import ScenarioError
from simloop.trace.kinds import kind_of
from simloop_tui.rows import Player, TimelineRows, Wanted

PAGE = 20
_MOST_MESSAGES = 100  # a key press must not take longer in a long conversation


class Session:
    """The cursor on a recorded run. `said` is the answer to the newest action, often empty.

    `name` names the run: the file or the scenario that was opened. `comment` says how it was made,
    for the scenario file of a fork.
    `marks` are the entries that the user marked, in order, `hidden` the kinds of entries that the
    timeline leaves out, `folds_words` whether a text has one row, `opened` the places of the
    compactions whose fold is open.
    """

    def __init__(self, recording: RecordedRun, name: str = "", comment: str = "") -> None:
        self.recording = recording
        self.name = name
        self.comment = comment
        self.rows = TimelineRows(recording)
        self.player = Player(recording)
        self.said = ""
        self.marks: list[int] = []
        self.hidden: frozenset[str] = frozenset()
        self.folds_words = True
        self.watched = Watched.STATE
        self.query = ""
        self.opened: set[int] = set()
        self._position = Position(recording, recording.first_place)
        self.reveal(self.place)

    @property
    def place(self) -> int:
        """Return the place of the entry at the cursor."""
        return self._position.place

    @property
    def position(self) -> Position:
        """Return the facts at the cursor; each is found once."""
        return self._position

    @property
    def last(self) -> int:
        """Return the place of the last entry."""
        return len(self.recording.entries) - 1

    def go(self, place: int | None, missing: str = "") -> None:
        """Move the cursor to an entry, or to the nearest one if the filter hides it.

        None leaves it there and says what was not found.
        """
        if place is None:
            self.said = f"{missing}; the filter hides some entries" if self.hidden else missing
            return
        wanted = max(0, min(place, self.last))
        there = self.rows.nearest(wanted)
        self.said = "" if there == wanted else f"entry {wanted} is hidden; {there} is the nearest"
        self.stand_at(there)

    def stand_at(self, place: int) -> None:
        """Move the cursor to an entry, even if it has no row."""
        if place != self.place:
            self._position = Position(self.recording, place)

    # ------------------------------------------------------------------ moving

    def forward(self) -> None:
        self.go(self.rows.moved(self.place, 1), "this is the last entry")

    def back(self) -> None:
        self.go(self.rows.moved(self.place, -1), "this is the first entry")

    def page_forward(self) -> None:
        """Move forward by a page of entries."""
        self.go(self.rows.moved(self.place, PAGE), "this is the last entry")

    def page_back(self) -> None:
        """Move back by a page of entries."""
        self.go(self.rows.moved(self.place, -PAGE), "this is the first entry")

    def start(self) -> None:
        self.go(self.rows.nearest(0))

    def end(self) -> None:
        self.go(self.rows.last)

    def goto(self, named: str) -> None:
        """Move to the entry that a number or a virtual time names."""
        try:
            place = place_of(self.recording.trace, named.strip() or None)
        except ScenarioError as error:
            self.said = error.message
        else:
            self.reveal(place)
            self.go(place)

    def reveal(self, place: int) -> None:
        """Show the words of the texts one by one if that alone shows an entry."""
        if self.rows.folds(place):
            self.fold_words()

    def next(self, landmark: str) -> None:
        """Move to the next landmark of a kind."""
        there = self.rows.after(self.recording.index.landmarks[Landmark(landmark)], self.place)
        self.go(there, f"there is no later {landmark}")

    def previous(self, landmark: str) -> None:
        """Move to the previous landmark of a kind."""
        there = self.rows.before(self.recording.index.landmarks[Landmark(landmark)], self.place)
        self.go(there, f"there is no earlier {landmark}")

    # ------------------------------------------------------------------ the watched value

    def watch_another(self) -> None:
        """Watch the next one of the values that can be watched."""
        values = list(Watched)
        self.watched = values[(values.index(self.watched) + 1) % len(values)]
        self.said = f"w and W now go to the changes of {self.watched}"

    def next_change(self) -> None:
        """Move to the next change of the watched value."""
        there = self.rows.after(self.recording.index.changes[self.watched], self.place)
        self.go(there, f"{self.watched} does not change any more")

    def last_change(self) -> None:
        """Move to the last change of the watched value before the cursor."""
        there = self.rows.before(self.recording.index.changes[self.watched], self.place)
        self.go(there, f"{self.watched} has not changed before")

    # ------------------------------------------------------------------ searching

    def search_again(self, step: int, wanted: Wanted = lambda: True) -> int | None:
        """Return the next match after the cursor, or before it, without going there.

        It may take a second in a long trace, so a screen calls it in a thread.
        """
        return self.rows.found(self.query, self.place, step, wanted) if self.query else None

    def go_to_match(self, place: int | None) -> None:
        """Move to a match."""
        self.go(place, f"no entry contains {self.query!r}" if self.query else "search with / first")

    # ------------------------------------------------------------------ marks

    def mark(self) -> None:
        """Mark the entry at the cursor, or remove its mark."""
        at = bisect_left(self.marks, self.place)
        if at < len(self.marks) and self.marks[at] == self.place:
            self.marks.pop(at)
            self.said = f"the mark of entry {self.place} is removed"
        else:
            self.marks.insert(at, self.place)
            self.said = f"entry {self.place} is marked"

    def next_mark(self) -> None:
        """Move to the next mark."""
        there = self.rows.after(self.marks, self.place)
        self.go(there, "there is no later mark: b sets one")

    def previous_mark(self) -> None:
        """Move to the previous mark."""
        there = self.rows.before(self.marks, self.place)
        self.go(there, "there is no earlier mark: b sets one")

    # ------------------------------------------------------------------ filters and folds

    def kinds(self) -> dict[str, int]:
        """Return how many entries of each kind the run has, in the order of their appearance."""
        return Counter(map(kind_of, self.recording.entries))

    def hide(self, kinds: Collection[str]) -> None:
        """Leave these kinds of entries out of the timeline; not all kinds that the run has."""
        if not self.kinds().keys() - kinds:
            self.said = "a filter that hides all entries is not used"
            return
        self.hidden = frozenset(kinds)
        self._show_rows()
        kinds_hidden = counted(len(self.hidden), "kind")
        what = f"{kinds_hidden} of entries hidden" if self.hidden else "all entries are shown"
        self.said = f"{what}; {self.said}" if self.said else what

    def _show_rows(self) -> None:
        self.rows = TimelineRows(self.recording, self.hidden, folded=self.folds_words)
        self.go(self.place)

    def fold_words(self) -> None:
        """Show each piece of the texts on a row of its own, or each text on one row."""
        self.folds_words = not self.folds_words
        self._show_rows()
        self.said = "each text on one line" if self.folds_words else "the words one by one"

    def fold(self) -> None:
        """Open all folds of the context, or close them."""
        rows = view(FactView.CONTEXT, self.position, _MOST_MESSAGES)
        places = {
            each.goes_to for each in rows if each.mark is Mark.FOLD and each.goes_to is not None
        }
        self.opened = set() if places & self.opened else places
        self.said = "" if places else "the context has no folds here"

    def toggle_fold(self, place: int) -> None:
        """Open or close one fold of the context."""
        self.opened ^= {place}

    def facts(self, name: FactView) -> tuple[FactRow, ...]:
        """Return the rows of a view at the cursor; a closed fold has one row."""
        rows = view(name, self.position, _MOST_MESSAGES)
        return tuple(self._folded(rows)) if name is FactView.CONTEXT else rows

    def _folded(self, rows: tuple[FactRow, ...]) -> Iterator[FactRow]:
        closed = False
        for each in rows:
            if each.mark is Mark.FOLD:
                closed = each.goes_to not in self.opened
                sign = "click, or z, opens it" if closed else "click, or z, closes it"
                yield row(f"{each.text} ({sign})", each.label, Mark.FOLD, each.goes_to)
            elif not (closed and each.mark is Mark.REMOVED):
                yield each

    # ------------------------------------------------------------------ playing

    def play(self) -> None:
        """Play on from the cursor, or pause."""
        self.said = ""
        if self.player.plays:
            self.player.plays = False
        elif self.place == self.rows.last:
            self.said = "the run is over: g goes to its start"
        else:
            self.player.start(self.place)

    def faster(self) -> None:
        self.player.change_speed(1)
        self.said = f"speed {self.player.speed:g}x"

    def slower(self) -> None:
        self.player.change_speed(-1)
        self.said = f"speed {self.player.speed:g}x"

    def change_pace(self) -> None:
        """Play, and draw the scrubber, in virtual time or evenly."""
        self.player.by_time = not self.player.by_time
        self.said = "in virtual time" if self.player.by_time else "evenly, entry by entry"

    def advance(self, seconds: float) -> None:
        """Move as far as a run that plays moves in real seconds."""
        if self.player.plays:
            self.go(self.player.advanced(self.place, seconds, self.rows))


SESSION_ACTIONS: Mapping[str, Callable[..., None]] = {
    each.__name__: each
    for each in (
        Session.forward, Session.back, Session.page_forward, Session.page_back, Session.start,
        Session.end, Session.goto, Session.next, Session.previous, Session.next_change,
        Session.last_change, Session.watch_another, Session.fold_words, Session.mark,
        Session.next_mark, Session.previous_mark, Session.play, Session.faster, Session.slower,
        Session.change_pace, Session.fold,
    )
}  # fmt: skip
"""The actions that keys and clicks name (keys.py)."""
