"""Snapshots of runs for syrupy: the snapshot file is a trace file.

    from simloop.snapshots import TraceSnapshotExtension

    def test_it(snapshot, simloop_run):
        assert simloop_run("retry.simloop.yaml") == snapshot(extension_class=TraceSnapshotExtension)

Not here: comparing traces (trace/diff.py). The rule to keep: what is stored is what `simloop show`
opens and `simloop replay` runs again. The only module that imports syrupy.
"""

from collections.abc import Iterator
from typing import Any

from syrupy.extensions.single_file import SingleFileSnapshotExtension

from simloop.errors import ScenarioError
from simloop.scenario.result import Result
from simloop.trace.codec import decode, encode
from simloop.trace.diff import first_difference
from simloop.trace.looptrace import LoopTrace


class TraceSnapshotExtension(SingleFileSnapshotExtension):
    """Stores a Result or a LoopTrace as a trace file, one for each assertion."""

    file_extension = "trace.jsonl"

    def serialize(self, data: Any, **_: Any) -> bytes:
        """The canonical bytes. Raises TypeError for anything but a run."""
        trace = data.trace if isinstance(data, Result) else data
        if not isinstance(trace, LoopTrace):
            raise TypeError(f"a trace snapshot holds a Result or a LoopTrace, not {data!r}")
        return encode(trace)

    def diff_lines(self, serialized_data: Any, snapshot_data: Any) -> Iterator[str]:
        """The first entry that differs, with what comes before it, and how to see it again."""
        got = decode(serialized_data, "<this run>")
        try:
            expected = decode(snapshot_data, "<snapshot>")
        except ScenarioError as error:
            yield f"the snapshot cannot be read: {error}"
            return
        found = first_difference(expected, got)
        if found is None:
            yield "the runs are the same, the scenarios or their settings are not"
        else:
            yield from found.lines("snapshot", "this run")
