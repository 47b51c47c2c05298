"""Clocks in the place of the machine's: time passes where a test says so, and nowhere else."""

import random


class Watch:
    """A clock that moves only when something `takes` time, or is read if a reading takes some."""

    def __init__(self, reading_ns: int = 0) -> None:
        self.now_ns = 0
        self.reading_ns = reading_ns

    def __call__(self) -> int:
        self.now_ns += self.reading_ns
        return self.now_ns

    def takes(self, nanoseconds: int) -> None:
        """Let so much time pass."""
        self.now_ns += nanoseconds


class BusyWatch(Watch):
    """The clock of a busy machine, one for each seed.

    Its speed drifts, each stretch of work takes up to 5 % longer, and one in twenty is interrupted
    for milliseconds by other work.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(reading_ns=40)
        self._noise = random.Random(seed)
        self._pace = 1.0

    def takes(self, nanoseconds: int) -> None:
        """Let that much time pass, and more."""
        noise = self._noise
        self._pace = min(2.0, max(1.0, self._pace + noise.uniform(-0.01, 0.01)))
        self.now_ns += round(nanoseconds * self._pace * noise.uniform(1, 1.05))
        if noise.random() < 0.05:
            self.now_ns += noise.randrange(1_000_000, 20_000_000)
