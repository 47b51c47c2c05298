"""The lines that a user types on standard input, each in answer to what the program has written."""

from collections.abc import Sequence

from msgspec import Struct


class TypedLine(Struct):
    """A line that the user types `after_ns` after the program has asked for it.

    It answers only what the program asks with all texts of `contains`. `left` is the number of
    times that it may still be typed, and None for always. `place` is its place in the scenario.
    """

    text: str
    place: str
    after_ns: int = 0
    contains: Sequence[str] = ()
    left: int | None = 1
    was_typed: bool = False

    def fits(self, screen: str) -> bool:
        return self.left != 0 and all(each in screen for each in self.contains)

    def take(self) -> None:
        self.was_typed = True
        self.left = None if self.left is None else self.left - 1

    @property
    def is_unused(self) -> bool:
        """Return whether it was to be typed more often."""
        return not self.was_typed if self.left is None else self.left > 0
