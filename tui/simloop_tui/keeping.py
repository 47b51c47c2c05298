"""The forms in which a run is kept: a scenario file, a test, and the command that repeats it.

A scenario without expectations is kept with one for its end, so that it passes.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from simloop.cursor.opening import is_trace
from simloop.errors import ScenarioError, SimloopError
from simloop.runs.plan import Plan
from simloop.runs.run import Simulation
from simloop.scenario.catalog import SUFFIX
from simloop.scenario.expect import Expect
from simloop.scenario.schema import Scenario
from simloop.scenario.writing import create, create_schema, scenario_text
from simloop.trace.storage import write_file
from simloop_tui.scripts import check_repeatable
from simloop_tui.session import Session

_LONGEST_NAME = 60
_ENDS = ("ScriptExhausted", "RunawayRun", "Deadlock")


def text_of(session: Session) -> str:
    """Return the run as a scenario file. The scenario is run for that, to see how it ends.

    Raises ScenarioError for a run that cannot be repeated.
    """
    recording = session.recording
    check_repeatable(recording, "save")
    assert recording.scenario is not None
    scenario = Plan(recording.scenario, recording.options).by_itself()
    if not scenario.expect.model_fields_set:
        scenario = scenario.model_copy(update={"expect": _ending(scenario)})
    return scenario_text(scenario, session.comment)


def _ending(scenario: Scenario) -> Expect:
    """Return the expectation that the scenario ends as it does."""
    run = Simulation(Plan(scenario, {}))
    try:
        run.on_clock(run.converse())
    except SimloopError as error:
        name = type(error).__name__
        return Expect(error=name) if name in _ENDS else Expect()  # type: ignore[arg-type] # one of them
    left = len(run.unused_places) or None
    outcomes = list(run.trace.outcomes)
    if len(outcomes) > 1:
        return Expect(outcomes=outcomes, unused=left)
    return Expect(outcome=outcomes[0], unused=left)


def name_for(session: Session) -> str:
    """Return the name of a scenario file for a run, to be changed by the user."""
    return f"{_words(session).replace('_', '-')}{SUFFIX}"


def save(path: Path, text: str, *, replace: bool = False) -> bool:
    """Write the file, and the schema beside it; return False if it exists and is to be kept.

    Raises ScenarioError if it cannot be written.
    """
    if replace:
        write_file(path, text.encode())
    elif not create(path, text):
        return False
    create_schema(path.parent)
    return True


def pytest_of(session: Session) -> str:
    """Return the run as a pytest test. Raises ScenarioError as `text_of` does."""
    text = text_of(session).partition("\n")[2]  # the first line is for the editors of YAML
    text = text.replace("\\", "\\\\").replace('"""', r"\"\"\"")
    return (
        "from simloop import SimloopRun, parse_scenario\n\n"
        f'SCENARIO = """\\\n{text}"""\n\n\n'
        f"def test_{_words(session)}(simloop_run: SimloopRun) -> None:\n"
        "    simloop_run(parse_scenario(SCENARIO))\n"
    )


def command_of(session: Session) -> str:
    """Return the command that repeats the run. Raises ScenarioError for a run without a file."""
    if session.comment:
        raise ScenarioError("no file has this run yet", hint="save it first: O")
    verb = "replay" if is_trace(session.name) else "run"
    flags = " ".join(shlex.quote(flag) for flag in _flags(session, verb))
    return f"simloop {verb} {shlex.quote(session.name)} {flags}".rstrip()


def _flags(session: Session, verb: str) -> Iterator[str]:
    given = session.recording.options
    loop = given.get("loop")
    if verb == "replay":
        if isinstance(loop, str) and ":" in loop:
            yield from ("--loop", loop)
        return
    if isinstance(loop, str):
        yield from ("--loop", loop)
    if given.get("judge_as"):
        yield from ("--judge-as", given["judge_as"])
    for key, value in (given.get("loop_options") or {}).items():
        yield from ("--option", f"{key}={_plain(value)}")
    if given.get("seed") is not None:
        yield from ("--seed", str(given["seed"]))


def _plain(value: object) -> str:
    return (
        str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)
    )


def _words(session: Session) -> str:
    """Return the title as a name of ASCII letters, digits and underscores."""
    title = session.recording.trace.header.title.lower()
    words = re.sub(r"[^a-z0-9]+", "_", title)[:_LONGEST_NAME].strip("_")
    return words or "the_run"
