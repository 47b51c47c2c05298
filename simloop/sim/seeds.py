"""One seed, many independent random streams.

Not here: what the streams are used for, and the seed that shuffles ties of timers.
The rule to keep: a stream depends on the seed and its own name only, never on which streams were
used before it, so that a new user of randomness does not change what the others draw. Never
`hash()`: it differs between processes.
"""

import hashlib
import random

from simloop.errors import ScenarioError

LIMIT = 2**63


class Seeds:
    """Named random generators derived from one seed; creating one costs nothing.

    Raises ScenarioError unless `0 <= seed < 2**63`, the integers that JSON, YAML and SQLite all hold.
    """

    __slots__ = ("_streams", "seed")

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < LIMIT:
            raise ScenarioError(
                f"the seed is {seed!r}", hint="give an integer from 0 to 2**63 - 1", key="seed"
            )
        self.seed = seed
        self._streams: dict[str, random.Random] = {}

    def stream(self, name: str) -> random.Random:
        """The generator of that name: the same object each time, so that it goes on where it was."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = random.Random(self.derive(name))  # noqa: S311 - simulated
        return stream

    def derive(self, name: str) -> int:
        """A seed of 64 bits for that name: what `stream` starts from, or a child's own seed."""
        text = f"{self.seed}:{name}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
