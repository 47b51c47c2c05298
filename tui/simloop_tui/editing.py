"""The line of a scenario file that an entry comes from, and the command that opens it there.

An entry that no line made stands for the reply that was the newest at it.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from simloop.cursor.position import Position
from simloop.errors import ScenarioError
from simloop.scenario.yaml import Loc, read_yaml_file
from simloop.trace import entries
from simloop_tui.scripts import content_of, used_replies

_JOINED = ("code", "codium", "code-insiders", "cursor", "windsurf")
"""Editors that take `--goto FILE:LINE`."""
_COLON = ("hx", "helix", "subl", "zed")
"""Editors that take `FILE:LINE`; all others take `+LINE FILE`."""


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
    name = Path(editor[0]).name
    if name in _JOINED:
        return [*editor, "--wait", "--goto", str(line)]
    if name in _COLON:
        return [*editor, str(line)]
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
        case entries.StopRequested():
            return ("abort",)
        case entries.Compaction():
            return ("compaction",)
    return _reply(position)


def _hook(position: Position, name: str) -> Loc:
    hooks = content_of(position.recording).get("hooks", [])
    names = [hook.get("name") or hook.get("at") for hook in hooks]
    return ("hooks", names.index(name)) if name in names else ("hooks",)


def _reply(position: Position) -> Loc:
    """Return the place of the reply to the request of an entry, or to the newest one."""
    recording = position.recording
    number = getattr(position.entry, "request", None)
    if number is None:
        number = None if position.request is None else position.request.number
    if isinstance(position.entry, entries.Request):
        number = position.entry.number
    used = used_replies(recording, content_of(recording).get("model", []))
    request = recording.requests.get(number) if number is not None else None
    if request is not None and request.purpose != "main":
        return ("summaries",)
    return ("model", used[number]) if number in used else ("prompt",)
