"""The message that a widget sends to its screen when a click names an entry."""

from textual.message import Message


class Goto(Message):
    """The cursor is to go to the entry `place`."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place
