"""Opening a run by the name of a trace, of a scenario file or of a bundled scenario.

Not here: showing it. The rule to keep: a scenario is run first, and its trace is opened however the
run ended.
"""

from pathlib import Path
from typing import Unpack

from simloop.check.verify import Verdict
from simloop.cursor.recorded_run import RecordedRun
from simloop.errors import InternalError, ScenarioError, SimloopError
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan
from simloop.runs.prepared import PreparedRun
from simloop.scenario.catalog import find
from simloop.scenario.schema import Scenario
from simloop.trace.codec import read_trace
from simloop_tui.comparing import Comparison
from simloop_tui.scripts import check_repeatable
from simloop_tui.session import Session

_HEADER = b'{"kind":"header"'
_SUFFIX = ".jsonl"


def is_trace(named: str) -> bool:
    """Return whether `named` is the file of a trace, by its name or by its first line."""
    path = Path(named)
    if named.endswith(_SUFFIX):
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(_HEADER)) == _HEADER
    except OSError:
        return False


def opened_trace(named: str, loop: str | None = None) -> RecordedRun:
    """Return the run of a trace file. Raises ScenarioError if it cannot be read, or is empty."""
    recording = RecordedRun.of_trace(read_trace(named), loop)
    if not recording.entries:
        raise ScenarioError("the trace has no entries", path=named, hint="record the run again")
    return recording


def opened_scenario(path: Path, **given: Unpack[RunOptions]) -> RecordedRun:
    """Run a scenario file and return the run. Raises the error of a run that left no entry."""
    verdict = Verdict()
    verdict.play(path, **given)
    if verdict.trace is None or verdict.plan is None or not verdict.trace.entries:
        raise verdict.worst or ScenarioError("the run has left no entry", path=path)
    return RecordedRun.of_run(PreparedRun(verdict.plan), verdict.trace, given)


def opened(named: str, given: RunOptions | None = None) -> Session:
    """Return the session of a trace, of a scenario file or of a bundled scenario."""
    given = given or {}
    loop = given.get("loop")
    if is_trace(named):
        recording = opened_trace(named, loop if isinstance(loop, str) else None)
    else:
        recording = opened_scenario(find(named), **given)
    return Session(recording, named)


def opened_pair(one: str, other: str, given: RunOptions) -> Comparison:
    """Return the comparison of two runs."""
    return Comparison(opened(one, given), opened(other, given))


def opened_against(named: str, loop: str, given: RunOptions) -> Comparison:
    """Return the comparison of a run with the same scenario on another loop.

    The options of the loop, and the expectations, are for the first loop alone.
    """
    one = opened(named, given)
    check_repeatable(one.recording)
    assert one.recording.scenario is not None
    options: RunOptions = {"seed": one.recording.trace.header.seed, "loop": loop}
    recording, error = run_to_its_end(one.recording.scenario, options)
    if not recording.entries:
        raise ScenarioError(f"the loop `{loop}` has left no entry", path=named)
    said = f"the right run did not end: {error}" if error else ""
    return Comparison(one, Session(recording, f"{named} on {loop}"), said)


def run_to_its_end(scenario: Scenario, options: RunOptions) -> tuple[RecordedRun, str]:
    """Run a scenario, and return the run with the error that ended it, or an empty text."""
    prepared = PreparedRun(Plan(scenario, options))
    error = ""
    try:
        prepared.on_clock(prepared.converse())
    except InternalError:
        raise
    except SimloopError as raised:
        error = str(raised)
    return RecordedRun.of_run(prepared, prepared.trace, options), error
