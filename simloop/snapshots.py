"""Snapshots of runs for syrupy: the snapshot file is a trace file.

    @pytest.fixture
    def snapshot(snapshot):
        return snapshot.use_extension(TraceSnapshotExtension)

    def test_it_goes_as_it_went(snapshot, simloop_run):
        assert simloop_run("retry.simloop.yaml") == snapshot

(`snapshot(extension_class=...)` makes an equal comparison, but syrupy 7 drops the extension before
it shows the difference.) `pytest --snapshot-update` records.

`simloop show` opens the stored file and `simloop replay` runs it again. An edit that only moves
code changes no snapshot, so a place has no line in one. No other module imports syrupy.
"""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import asdict
from syrupy.data import SnapshotCollection
from syrupy.extensions.single_file import SingleFileSnapshotExtension

from simloop.errors import ScenarioError
from simloop.runs.loop import is_own
from simloop.runs.result import Result
from simloop.trace.codec import MAX_BYTES, decode, encode
from simloop.trace.diff import first_difference, without_lines
from simloop.trace.looptrace import LoopTrace
from simloop.trace.storage import read_file, write_file

# Without -vv pytest cuts an explanation after 8 lines (it lets 10 pass) or 640 characters, and the
# command to replay comes last.
_CONTEXT = 72
_VALUE = 108


class TraceSnapshotExtension(SingleFileSnapshotExtension):
    """Stores a Result or a LoopTrace as a trace file, one for each assertion."""

    file_extension = "trace.jsonl"

    _location = ""

    def serialize(self, data: Any, **_: Any) -> bytes:
        """Return the canonical bytes of a run. Raises TypeError for anything else."""
        trace = data.trace if isinstance(data, Result) else data
        if not isinstance(trace, LoopTrace):
            raise TypeError(f"a trace snapshot holds a Result or a LoopTrace, not {data!r}")
        return encode(without_lines(trace))

    def read_snapshot_data_from_location(
        self, *, snapshot_location: str, snapshot_name: str, session_id: str
    ) -> Any:
        """Return the bytes of the file; None if there is none. Keep its name for the difference."""
        del snapshot_name, session_id  # a file holds one snapshot
        self._location = snapshot_location
        path = Path(snapshot_location)
        return read_file(path, MAX_BYTES) if path.exists() else None

    @classmethod
    def write_snapshot_collection(
        cls, *, snapshot_collection: SnapshotCollection, name_order: dict[str, int] | None = None
    ) -> None:
        """Write a snapshot atomically: a session that is killed leaves the old one whole."""
        del name_order  # a file holds one snapshot
        (snapshot,) = snapshot_collection
        assert isinstance(snapshot.data, bytes)
        write_file(Path(snapshot_collection.location), snapshot.data)

    def diff_lines(self, serialized_data: Any, snapshot_data: Any) -> Iterator[str]:
        """Yield the first entry that differs, with those before it, and the command to see it."""
        path = os.path.relpath(self._location or ".")
        if not snapshot_data:
            yield f"there is no {path}; record it with: pytest --snapshot-update"
            return
        try:
            expected = decode(snapshot_data, path)
        except ScenarioError as error:
            error.hint = "record it again: pytest --snapshot-update"
            yield f"the snapshot cannot be read: {error}"
            return
        yield from (_cut(line) for line in _difference(expected, decode(serialized_data)))
        if expected.header.python:  # a trace does not hold it, so it cannot be replayed
            yield f"look at the snapshot: simloop show {shlex.quote(path)}"
        else:
            loop = expected.header.loop
            own = f" --loop {shlex.quote(loop)}" if is_own(loop) else ""
            yield f"replay the snapshot: simloop replay{own} {shlex.quote(path)}"


def _difference(expected: LoopTrace, got: LoopTrace) -> Iterator[str]:
    if (found := first_difference(expected, got)) is not None:
        yield from found.lines("snapshot", "this run")
        return
    one, other = asdict(expected.header), asdict(got.header)
    changed = [name for name in one if one[name] != other[name] and name != "scenario_digest"]
    yield f"the runs are the same, what was run is not: {', '.join(changed)}"


def _cut(line: str) -> str:
    width = _CONTEXT if line.startswith("    ") else _VALUE
    return line if len(line) <= width else f"{line[: width - 3]}..."
