"""Every bundled scenario runs as it was recorded; what a snapshot says when one does not."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.data import Snapshot, SnapshotCollection

from simloop.errors import RunawayRun
from simloop.runs.run import Simulation, run
from simloop.scenario.catalog import SUFFIX, bundled_folder
from simloop.scenario.loader import load_scenario, parse_scenario
from simloop.snapshots import TraceSnapshotExtension
from simloop.trace import entries
from simloop.trace.codec import decode

FOLDER = bundled_folder()
RECORDED = FOLDER / "__snapshots__"
MOST_BYTES = 100_000
SCENARIOS = {
    path.relative_to(FOLDER).as_posix().removesuffix(SUFFIX): path
    for path in sorted(FOLDER.rglob(f"*{SUFFIX}"))
}


class RecordedRuns(TraceSnapshotExtension):
    """Keeps the traces beside the scenarios: `retry/quota` as `retry.quota.trace.jsonl`.

    Of a trace that is too long for a repository it keeps the beginning, which is a trace too.
    """

    def serialize(self, data: Any, **_: Any) -> bytes:
        whole = super().serialize(data)
        return (
            whole if len(whole) <= MOST_BYTES else whole[: whole.rindex(b"\n", 0, MOST_BYTES) + 1]
        )

    @classmethod
    def dirname(cls, **_: Any) -> str:
        return str(RECORDED)

    @classmethod
    def get_snapshot_name(cls, *, test_location: Any, **_: Any) -> str:
        return str(test_location.snapshot_name).replace("/", ".")

    @classmethod
    def get_file_basename(cls, *, test_location: Any, **_: Any) -> str:
        return (
            cls.get_snapshot_name(test_location=test_location).partition("[")[2].removesuffix("]")
        )

    def read_snapshot_collection(self, *, snapshot_location: str) -> SnapshotCollection:
        collection = SnapshotCollection(location=snapshot_location)
        name = Path(snapshot_location).name.removesuffix(f".{self.file_extension}")
        collection.add(Snapshot(name=f"test_a_scenario_runs_as_it_was_recorded[{name}]"))
        return collection

    @classmethod
    def matches_test_location(cls, **_: Any) -> bool:
        return True


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_runs_as_it_was_recorded(name: str, snapshot: SnapshotAssertion) -> None:
    simulation = Simulation(load_scenario(SCENARIOS[name]))
    with suppress(RunawayRun):  # some must: `test_bundled.py` tells which
        simulation.run()
    assert simulation.trace == snapshot.use_extension(RecordedRuns)


def test_of_a_long_trace_the_beginning_is_kept_and_it_can_be_read() -> None:
    scenario = parse_scenario("""
        prompt: Read it.
        tools: {read: {returns_chars: 1000000}}
        model: [{call: {read: {}}}, {say: Done.}]
    """)
    whole = run(scenario).trace
    kept = RecordedRuns().serialize(whole)
    beginning = decode(kept)
    assert beginning.truncated
    assert beginning.entries == whole.entries[: len(beginning.entries)]
    assert {type(entry) for entry in beginning.entries} >= {entries.ToolStarted}
    assert len(kept) < MOST_BYTES


def test_nothing_is_recorded_of_scenarios_that_are_gone(request: pytest.FixtureRequest) -> None:
    """syrupy sees this only in a session that deselects nothing, and ours does."""
    names = {f"{name.replace('/', '.')}.trace.jsonl" for name in SCENARIOS}
    gone = [path for path in sorted(RECORDED.iterdir()) if path.name not in names]
    if request.config.getoption("update_snapshots"):
        for path in gone:
            path.unlink()
    else:
        assert gone == [], "remove them with: pytest --snapshot-update"
