"""The session: where the cursor is, and where each action moves it. It works without Textual.

Not here: keys (keys.py) and drawing. The rule to keep: an action changes the session and nothing
else, and says so in `said` if it finds nothing; so each can be tested, and used, alone.
"""

from simloop.cursor.index import Landmark
from simloop.cursor.position import Position
from simloop.cursor.recorded_run import RecordedRun
from simloop_tui.rows import TimelineRows

PAGE = 20


class Session:
    """The cursor on a recorded run. `said` is the answer to the newest action, often empty."""

    def __init__(self, recording: RecordedRun, name: str = "") -> None:
        self.recording = recording
        self.name = name
        self.rows = TimelineRows(recording)
        self.said = ""
        self._position = Position(recording, 0)

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
        """Move the cursor to an entry; None leaves it there and says that nothing was found."""
        self.said = missing if place is None else ""
        if place is not None and place != self.place:
            self._position = Position(self.recording, max(0, min(place, self.last)))

    # ------------------------------------------------------------------ moving

    def forward(self) -> None:
        """Move to the next entry that is shown."""
        self.go(self.rows.moved(self.place, 1), "this is the last entry")

    def back(self) -> None:
        """Move to the previous entry that is shown."""
        self.go(self.rows.moved(self.place, -1), "this is the first entry")

    def page_forward(self) -> None:
        """Move forward by a page of entries."""
        self.go(self.rows.moved(self.place, PAGE), "this is the last entry")

    def page_back(self) -> None:
        """Move back by a page of entries."""
        self.go(self.rows.moved(self.place, -PAGE), "this is the first entry")

    def start(self) -> None:
        """Move to the first entry."""
        self.go(0)

    def end(self) -> None:
        """Move to the last entry."""
        self.go(self.last)

    def next(self, landmark: str) -> None:
        """Move to the next landmark of a kind."""
        found = self.recording.index.next(Landmark(landmark), self.place)
        self.go(found, f"there is no later {landmark}")

    def previous(self, landmark: str) -> None:
        """Move to the previous landmark of a kind."""
        found = self.recording.index.previous(Landmark(landmark), self.place)
        self.go(found, f"there is no earlier {landmark}")
