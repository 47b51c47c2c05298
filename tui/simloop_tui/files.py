"""A run as a scenario file, a test or a command, and the line of its file in an editor.

A scenario without expectations is kept with one for its end, so that it passes. An entry that no
line made stands for the reply that was the newest at it.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from simloop.cursor.position import Position
from simloop.cursor.recorded_run import is_trace
from simloop.errors import ScenarioError, SimloopError
from simloop.runs.plan import Plan
from simloop.runs.run import Simulation
from simloop.scenario.catalog import SUFFIX
from simloop.scenario.designs import names_own
from simloop.scenario.expect import Expect
from simloop.scenario.schema import Scenario
from simloop.scenario.writing import create, create_schema, scenario_text
from simloop.scenario.yaml import Loc, read_yaml_file
from simloop.trace import entries
from simloop.trace.storage import write_file
from simloop_tui.runs import check_repeatable, content_of, is_of_model, used_replies
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
    run = Simulation(Plan(scenario, {}))
    try:
        run.run_unchecked()
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
    elif path.exists():
        return False
    else:
        create(path, text)
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
        if isinstance(loop, str) and names_own(loop):
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
    title = session.recording.trace.header.title.lower()
    words = re.sub(r"[^a-z0-9]+", "_", title)[:_LONGEST_NAME].strip("_")
    return words or "the_run"


_JOINED = ("code", "codium", "code-insiders", "cursor", "windsurf")
"""Editors that take `--goto FILE:LINE`; others take `+LINE FILE`."""


class FileLine(NamedTuple):
    """A line of a file."""

    path: Path
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


def line_in_file(position: Position) -> FileLine:
    """Return the line of the scenario file that the entry at a position comes from.

    Raises ScenarioError for a run without a file, and for a file that cannot be read.
    """
    scenario = position.recording.scenario
    if scenario is None or not scenario.path:
        raise ScenarioError("no file has the scenario of this run", hint="save it first: O")
    path = Path(scenario.path)
    line, _ = read_yaml_file(path).locate(_loc(position))
    return FileLine(path, line)


def command(environ: Mapping[str, str], line: FileLine) -> list[str]:
    """Return the command that opens a file at a line, in the editor of the environment."""
    editor = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "vi")
    if Path(editor[0]).name in _JOINED:
        return [*editor, "--wait", "--goto", str(line)]
    return [*editor, f"+{line.line}", str(line.path)]


def _loc(position: Position) -> Loc:
    entry = position.entry
    match entry:
        case entries.Prompt():
            number = position.prompt_number
            return ("prompt",) if number <= 1 else ("then", number - 2)
        case entries.ToolStarted(name=name) | entries.ToolResult(name=name):
            return ("tools", name)
        case entries.Hook(hook=name):
            return _hook(position, name)
        case entries.ServiceRequest(service=address):
            return ("services", address)
        case entries.ServiceReply():
            return ("services",)
    return _reply(position)


def _hook(position: Position, name: str) -> Loc:
    hooks = content_of(position.recording).get("hooks", [])
    names = [hook.get("name") or hook.get("at") for hook in hooks]
    return ("hooks", names.index(name)) if name in names else ("hooks",)


def _reply(position: Position) -> Loc:
    recording = position.recording
    number = getattr(position.entry, "request", None)
    if number is None:
        number = None if position.request is None else position.request.number
    if isinstance(position.entry, entries.Request):
        number = position.entry.number
    used = used_replies(recording, content_of(recording).get("model", []))
    request = recording.requests.get(number) if number is not None else None
    if request is not None and not is_of_model(request):
        return ("models", request.party) if request.party else ("summaries",)
    return ("model", used[number]) if number in used else ("prompt",)
