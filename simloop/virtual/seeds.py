"""One seed, many independent random streams.

A stream depends on the seed and its own name only, so a new user of randomness changes nothing for
the others. Never `hash()`: it differs between processes.
"""

import _random
import hashlib
import random

from simloop.errors import ScenarioError

LIMIT = 2**63


class Seeds:
    """Named random generators derived from one seed; creating one costs nothing.

    Raises ScenarioError unless `0 <= seed < 2**63`: what JSON, YAML and SQLite can all hold.
    """

    __slots__ = ("_streams", "seed")

    def __init__(self, seed: int) -> None:
        if type(seed) is not int or not 0 <= seed < LIMIT:
            hint = "give an integer from 0 to 2**63 - 1"
            raise ScenarioError(f"the seed is {seed!r}", key="seed", hint=hint)
        self.seed = seed
        self._streams: dict[str, random.Random] = {}

    def stream(self, name: str) -> random.Random:
        """Return the generator of that name; it is one object, so its sequence continues."""
        if (stream := self._streams.get(name)) is None:
            stream = self._streams[name] = random.Random(self._derive(name))  # noqa: S311 - simulated
        return stream

    def number(self, name: str) -> int:
        """Return the first 64 bits of the stream of that name, without creating the stream."""
        # Its base class has the same sequence, and seeds itself once where `Random` does twice.
        return _random.Random(self._derive(name)).getrandbits(64)

    def _derive(self, name: str) -> int:
        text = f"{self.seed}:{name}".encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
