"""The messages that a widget sends to its screen after a click."""

from textual.message import Message


class Goto(Message):
    """The cursor is to go to the entry `place`."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place


class ToggleFold(Message):
    """The fold of the compaction at `place` is to open, or to close."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place
