"""The times of command hooks in sessions of coding agents: Claude Code's, and Codex's events."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from simloop.errors import ScenarioError
from simloop.recordings.files import MS, RecordingFile, at, items, mapping, time_ns, word
from simloop.runs.command_hooks import HookTimes


def hook_times(paths: Iterable[Path]) -> tuple[HookTimes, int]:
    """Return the times of hooks in files or folders, and of all sessions. Raises ScenarioError."""
    times, session_ns = HookTimes(), 0
    files = [one for path in paths for one in (sorted(path.rglob("*.jsonl")) or [path])]
    for path in files:
        at_ns, known, summed = list[int](), set[str](), HookTimes()
        for _, line in RecordingFile.read(path).values():
            moment, uuid = time_ns(at(line, "timestamp")), word(line, "uuid")
            at_ns += [] if moment is None else [moment]
            for event, hook, took, is_summary in () if uuid in known else _hooks_in(line):
                (summed if is_summary else times).setdefault((event, hook), []).append(took)
            known |= {uuid} - {""}
        for key, took_ns in summed.items():
            times.setdefault(key, took_ns)
        session_ns += max(at_ns, default=0) - min(at_ns, default=0)
    if not times:
        hint = "newer versions of Claude Code write durationMs; rollouts of Codex have no hooks"
        raise ScenarioError("no hook of these sessions has a time", path=files[0], hint=hint)
    return times, session_ns


def _hooks_in(line: Any) -> Iterator[tuple[str, str, int, bool]]:
    entry = {**mapping(line, "payload.run"), **mapping(line, "attachment")}
    event = word(entry, "hookEvent", "event_name")
    hook = word(entry, "command", "hookName", "source_path", "id")
    own = event, hook, entry.get("durationMs", entry.get("duration_ms")), False
    ends = map(mapping, items(line, "hookInfos"))
    summed = (("Stop", word(each, "command"), each.get("durationMs"), True) for each in ends)
    for event, hook, took_ms, is_summary in (own, *summed):
        if event and hook and isinstance(took_ms, int | float):
            yield event, hook, time_ns(took_ms, MS) or 0, is_summary
