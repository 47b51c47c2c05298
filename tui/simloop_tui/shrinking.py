"""A failing run is reduced to a minimal one with the same failure.

The reduction can be stopped at any time, and has the smallest scenario so far then.
"""

from collections.abc import Callable

from simloop.errors import ScenarioError
from simloop_tui.opening import run_to_its_end
from simloop_tui.scripts import check_repeatable
from simloop_tui.session import Session

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
