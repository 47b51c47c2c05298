"""A second process that plays the worlds of a search again, with another PYTHONHASHSEED.

A loop that depends on the order of a set, or on a hash, behaves alike within one process and
differently in another one. Not here: comparing two runs of one process (search.py). The rule to
keep: the search reads the answer for a world when it sends the next one, so that it does not wait.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import TypeVar

import msgspec
from pydantic import ValidationError

from simloop.errors import SimloopError
from simloop.fuzz.play import UNJUDGED, play
from simloop.runs.plan import Plan, content_of
from simloop.scenario.schema import Scenario
from simloop.trace.entries import AnyEntry
from simloop.virtual.border import kept_border

T = TypeVar("T")


def digest_of(record: Iterable[AnyEntry]) -> str:
    """Return a digest of the entries of a run."""
    return hashlib.blake2b(msgspec.json.encode(list(record)), digest_size=16).hexdigest()


class Twin:
    """A process that plays worlds on `loop`, a name; it starts when the first one is sent."""

    def __init__(self, loop: str) -> None:
        self._loop = loop
        self._process: subprocess.Popen[bytes] | None = None
        self._asked: tuple[Scenario, str] | None = None

    def send(self, world: Scenario, record: Iterable[AnyEntry]) -> Scenario | None:
        """Send a world with the entries of its run; return the previous world if its run differed.

        The next call, or `finish`, returns the answer for this world.
        """
        differed = self._answer()
        process = self._started()
        assert process.stdin is not None
        process.stdin.write(content_of(world) + b"\n")
        process.stdin.flush()
        self._asked = world, digest_of(record)
        return differed

    def finish(self) -> Scenario | None:
        """Return the last world if its run differed, and end the process."""
        differed = self._answer()
        if self._process is not None:
            process, self._process = self._process, None
            process.communicate()
        return differed

    def _answer(self) -> Scenario | None:
        if self._asked is None or self._process is None:
            return None
        (world, digest), self._asked = self._asked, None
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().decode().strip()
        return world if answer not in ("", digest) else None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
            self._process = subprocess.Popen(  # noqa: S603 - this Python, and no shell
                [sys.executable, "-m", "simloop.fuzz.twin", self._loop, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONHASHSEED": seed},
            )
        return self._process


def main(loop: str, path: str) -> None:
    """Play the world on each line of stdin, and print the digest of its run."""
    sys.path[:] = json.loads(path)
    with kept_border():
        for line in sys.stdin.buffer:
            sys.stdout.write(_played(loop, line) + "\n")
            sys.stdout.flush()


def _played(loop: str, line: bytes) -> str:
    try:
        plan = Plan(Scenario.model_validate_json(line), {"loop": loop})
        return digest_of(play(plan, UNJUDGED).prepared.trace.entries)
    except (SimloopError, ValidationError):
        return ""  # text that cannot be encoded is not compared


if __name__ == "__main__":
    main(*sys.argv[1:])
