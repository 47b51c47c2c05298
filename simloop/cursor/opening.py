"""Opening a run by the name of a trace, of a scenario file or of a bundled scenario.

Not here: showing it. The rule to keep: a scenario is run first, and its trace is opened however the
run ended.
"""

from pathlib import Path
from typing import Unpack

from simloop.check.trial import Until, verify
from simloop.cursor.recorded_run import RecordedRun
from simloop.cursor.waits import Waits
from simloop.errors import InvariantViolated, ScenarioError
from simloop.runs.options import RunOptions
from simloop.scenario.catalog import find
from simloop.trace.codec import read_trace

_HEADER = b'{"kind":"header"'
_SUFFIX = ".jsonl"


def is_trace(named: str) -> bool:
    """Return whether `named` is the file of a trace, by its name or by its first line."""
    if named.endswith(_SUFFIX):
        return True
    try:
        with Path(named).open("rb") as file:
            return file.read(len(_HEADER)) == _HEADER
    except (OSError, ValueError):  # a folder, no file, or a name that no file can have
        return False


def opened_run(named: str, **given: Unpack[RunOptions]) -> RecordedRun:
    """Return the run of a trace, or of a scenario, which is run with the options `given`.

    Raises ScenarioError if there is nothing to open, and the error of a run that left no entry.
    """
    if is_trace(named):
        loop = given.get("loop")
        return opened_trace(named, loop if isinstance(loop, str) else None)
    return opened_scenario(find(named), **given)


def opened_trace(named: str, loop: str | None = None) -> RecordedRun:
    """Return the run of a trace file. Raises ScenarioError if it cannot be read, or is empty."""
    recording = RecordedRun.of_trace(read_trace(Path(named)), loop)
    if not recording.entries:
        raise ScenarioError("the trace has no entries", path=named, hint="record the run again")
    return recording


def opened_scenario(path: Path, **given: Unpack[RunOptions]) -> RecordedRun:
    """Run a scenario file and return the run. Raises the error of a run that left no entry."""
    waits = Waits()
    verdict = verify(path, Until.END, waits.watch, **given)
    if verdict.trace is None or verdict.run is None or not verdict.trace.entries:
        raise verdict.worst or ScenarioError("the run has left no entry", path=path)
    made = RecordedRun.of_run(verdict.run, verdict.trace, given)
    made.unmet, made.waits = verdict.mismatches, waits
    # A violation is found again, with its entry.
    made.errors = [each for each in verdict.errors if not isinstance(each, InvariantViolated)]
    return made
