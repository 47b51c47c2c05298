"""Opening a run, or two, to step through, and shrinking a failing one to a minimal run.

A run is opened however it ended.
"""

from collections.abc import Callable

from simloop.check.trial import UNJUDGED, trial
from simloop.cursor.recorded_run import RecordedRun, Waits, opened_run
from simloop.errors import InternalError, ScenarioError
from simloop.runs.options import RunOptions
from simloop.runs.plan import Plan
from simloop.scenario.schema import Scenario
from simloop_tui.comparison.side_by_side import SideBySide
from simloop_tui.scripts import check_repeatable
from simloop_tui.session import Session


def opened(named: str, given: RunOptions | None = None) -> Session:
    """Return the session of a trace, of a scenario file or of a bundled scenario."""
    return Session(opened_run(named, **(given or {})), named)


def opened_pair(one: str, other: str, given: RunOptions) -> SideBySide:
    """Return the comparison of two runs."""
    return SideBySide(opened(one, given), opened(other, given))


def opened_against(named: str, loop: str, given: RunOptions) -> SideBySide:
    """Return the comparison of a run with the same scenario on another loop.

    The options of the loop, and the expectations, are for the first loop alone.
    """
    one = opened(named, given)
    check_repeatable(one.recording, "compare")
    assert one.recording.scenario is not None
    options: RunOptions = {"seed": one.recording.trace.header.seed, "loop": loop}
    recording, error = run_to_its_end(one.recording.scenario, options)
    if not recording.entries:
        raise ScenarioError(f"the loop `{loop}` has left no entry", path=named)
    name = f"{named} on {loop}"
    notice = f"the right run did not end: {error}" if error else ""
    return SideBySide(one, Session(recording, name, f"{named} on the loop {loop}."), notice)


def run_to_its_end(scenario: Scenario, options: RunOptions) -> tuple[RecordedRun, str]:
    """Run a scenario, and return the run with the error that ended it, or an empty text."""
    waits = Waits()
    verdict = trial(Plan(scenario, options), UNJUDGED, watch=waits.watch)
    if verdict.run is None or isinstance(verdict.worst, InternalError):
        raise verdict.worst or InternalError("there was no run")
    made = RecordedRun.of_run(verdict.run, verdict.run.trace, options)
    made.waits = waits
    return made, str(verdict.worst or "")


_SECONDS = 60.0  # longer than for a command: the user sees the progress, and can stop it


def shrunk(session: Session, say: Callable[[str], None], stopped: Callable[[], bool]) -> Session:
    """Return the session of the smallest run that fails as this one.

    `say` is called with the progress in words. Raises ScenarioError for a run that does not fail,
    or that cannot be repeated.
    """
    # Hypothesis and the search need not be imported before somebody shrinks a run.
    from simloop.fuzz.shrink import shrink  # noqa: PLC0415

    recording = session.recording
    check_repeatable(recording, "shrink")
    assert recording.scenario is not None
    found = shrink(
        recording.scenario,
        recording.options,
        seconds=_SECONDS,
        say=lambda now: say(f"{now.runs} runs: {now.replies} replies, {now.chars} characters"),
        stopped=stopped,
        confirms=True,
    )
    if found is None:
        raise ScenarioError("this run does not fail, so there is nothing to shrink")
    run, _ = run_to_its_end(found.scenario, {})
    failure = found.failure
    comment = f"Shrunk from {session.name}.\n{failure.name}: {failure.sentence}\n  {failure.text}"
    smallest = Session(run, f"{session.name}, shrunk", comment)
    left = f"; it may not be minimal: {found.unfinished}" if found.unfinished else ""
    smallest.said = f"{failure.name}, shrunk in {found.runs} runs{left}; O saves it"
    return smallest
