"""A campaign: the results of a long search in one SQLite file, which is resumed and merged.

A campaign is cut into chunks. A chunk is a pure function of the campaign's settings and its number,
so it gives the same result in any process and on any machine, and only finished chunks are stored.

Not here: playing a chunk (search.py) and starting processes (workers.py). The rule to keep: a chunk
is stored in one transaction, so that killing the program at any moment loses no finished chunk.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from simloop.errors import ScenarioError

FORMAT = 1
_TABLES = """
CREATE TABLE settings (format INTEGER NOT NULL, settings BLOB NOT NULL);
CREATE TABLE chunks (
    number INTEGER PRIMARY KEY, runs INTEGER NOT NULL, cpu_ns INTEGER NOT NULL,
    virtual_ns INTEGER NOT NULL, result BLOB NOT NULL
);
"""


class CampaignSettings(Struct, frozen=True):
    """The inputs of a campaign. Equal settings give equal chunks.

    `loop` is a name or `module:attribute`; `against` is another loop, or empty. `corpus` are the
    scenarios whose mutations are played, as the text of scenario files.
    """

    loop: str
    seed: int = 0
    arm: str = "steered"
    runs_per_chunk: int = 1_000
    against: str = ""
    corpus: tuple[str, ...] = ()


class FailureGroup(Struct, frozen=True):
    """The failures of one group that a search found, with the smallest scenario.

    `name` is the violated invariant or the class of the error, `shape` the text without numbers and
    ids, `text` the text of this run. `run` counts the runs of its chunk from 1, and `cpu_ns` is the
    processor time of the chunk until then. `count` is the number of failing runs of the group.
    `reproduced` is false if a run of the scenario alone did not fail.
    """

    name: str
    shape: str
    text: str
    sentence: str
    scenario: str
    seed: int
    run: int
    cpu_ns: int = 0
    count: int = 1
    reproduced: bool = True


class ChunkResult(Struct, frozen=True):
    """The result of one chunk.

    `goals` counts for each goal the runs that reached it, of the `looked_at` runs that were read.
    `edges` and `situations` are the names of those that its runs reached.
    """

    number: int
    runs: int
    cpu_ns: int
    virtual_ns: int
    goals: dict[str, int] = {}
    looked_at: int = 0
    edges: tuple[str, ...] = ()
    situations: tuple[str, ...] = ()
    failures: tuple[FailureGroup, ...] = ()


_ENCODE = msgspec.json.Encoder(order="sorted").encode
_SETTINGS = msgspec.json.Decoder(CampaignSettings)
_RESULT = msgspec.json.Decoder(ChunkResult)


class Campaign:
    """The finished chunks in a file. `settings` are the settings of the campaign."""

    def __init__(self, path: Path, settings: CampaignSettings, data: sqlite3.Connection) -> None:
        self.path = path
        self.settings = settings
        self._data = data

    @classmethod
    def create(cls, path: Path, settings: CampaignSettings) -> Self:
        """Make the file, or open it to resume. Raises ScenarioError for other settings."""
        if (
            path.exists() and path.stat().st_size
        ):  # a process that is killed at once leaves an empty file
            campaign = cls.open(path)
            if campaign.settings != settings:
                campaign.close()
                raise ScenarioError(
                    f"{path} has the results of other settings: {campaign.settings}",
                    key="--out",
                    hint="name another file, or repeat the options of that campaign",
                )
            return campaign
        with closing(sqlite3.connect(path)) as data, data:
            data.executescript(f"BEGIN;{_TABLES}")
            data.execute("INSERT INTO settings VALUES (?, ?)", (FORMAT, _ENCODE(settings)))
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a file. Raises ScenarioError if there is none, or if it is no campaign."""
        if not path.is_file():
            raise ScenarioError(f"there is no file {path}", hint="name the file of a campaign")
        data = sqlite3.connect(path)
        try:
            return cls(path, _settings(path, data), data)
        except BaseException:
            data.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._data.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def store(self, result: ChunkResult) -> None:
        """Store the result of a chunk, unless the file has it already."""
        row = (result.number, result.runs, result.cpu_ns, result.virtual_ns, _ENCODE(result))
        with self._data:
            self._data.execute("INSERT OR IGNORE INTO chunks VALUES (?, ?, ?, ?, ?)", row)

    @property
    def finished(self) -> set[int]:
        """Return the numbers of the finished chunks."""
        return {number for (number,) in self._data.execute("SELECT number FROM chunks")}

    def unfinished(self, shard: int = 0, shards: int = 1) -> Iterator[int]:
        """Yield the numbers of the chunks that are not finished, without end.

        If several machines search, each one plays one of `shards` shards, counted from 0, and has
        its own file.
        """
        finished = self.finished
        return (number for number in count(shard, shards) if number not in finished)

    def results(self) -> Iterator[ChunkResult]:
        """Yield the results of the finished chunks, in the order of their numbers."""
        for (result,) in self._data.execute("SELECT result FROM chunks ORDER BY number"):
            yield _RESULT.decode(result)

    def merge(self, other: "Campaign") -> None:
        """Store the chunks of another file. Raises ScenarioError if its settings differ."""
        if other.settings != self.settings:
            raise ScenarioError(
                f"{other.path} has the results of other settings than {self.path}",
                hint="merge files of one campaign",
            )
        for result in other.results():
            self.store(result)


def _settings(path: Path, data: sqlite3.Connection) -> CampaignSettings:
    try:
        made_in, settings = data.execute("SELECT format, settings FROM settings").fetchone()
        if made_in == FORMAT:
            return _SETTINGS.decode(settings)
    except (sqlite3.DatabaseError, TypeError, msgspec.DecodeError) as error:
        raise ScenarioError(
            f"{path} is not the file of a campaign: {error}",
            hint="name a file that `simloop fuzz --campaign FILE` wrote",
        ) from error
    raise ScenarioError(
        f"{path} has format {made_in}, and this simloop reads format {FORMAT}",
        hint="read it with the version of simloop that wrote it",
    )


class Totals(Struct):
    """The sums over the finished chunks of a campaign.

    `edges` and `situations` count the chunks that reached each. `failures` has the smallest
    scenario of each group, by name and shape; `first` has the runs and the processor time that the
    campaign had taken when the group was first found.
    """

    runs: int = 0
    cpu_ns: int = 0
    virtual_ns: int = 0
    goals: dict[str, int] = {}
    looked_at: int = 0
    edges: dict[str, int] = {}
    situations: dict[str, int] = {}
    failures: dict[tuple[str, str], FailureGroup] = {}
    first: dict[tuple[str, str], tuple[int, int]] = {}

    def add(self, result: ChunkResult) -> None:
        """Add the result of the next chunk."""
        for name, runs in result.goals.items():
            self.goals[name] = self.goals.get(name, 0) + runs
        for counts, names in (
            (self.edges, result.edges), (self.situations, result.situations)
        ):  # fmt: skip
            for name in names:
                counts[name] = counts.get(name, 0) + 1
        self.looked_at += result.looked_at
        for failure in result.failures:
            self._add_failure(failure)
        self.runs += result.runs
        self.cpu_ns += result.cpu_ns
        self.virtual_ns += result.virtual_ns

    def _add_failure(self, failure: FailureGroup) -> None:
        group = failure.name, failure.shape
        known = self.failures.get(group)
        self.first.setdefault(group, (self.runs + failure.run, self.cpu_ns + failure.cpu_ns))
        if known is None:
            self.failures[group] = failure
            return
        smaller = min(known, failure, key=lambda each: (len(each.scenario), each.scenario))
        count = known.count + failure.count
        self.failures[group] = msgspec.structs.replace(smaller, count=count)


def totals(results: Iterator[ChunkResult]) -> Totals:
    """Return the sums over the results of a campaign."""
    made = Totals()
    for result in results:
        made.add(result)
    return made
