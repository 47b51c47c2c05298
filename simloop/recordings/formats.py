"""The formats of recordings: one line each, and how a file of it is recognised."""

import json
import re
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from simloop.errors import ScenarioError
from simloop.recordings.files import RecordingFile
from simloop.recordings.recording import Recording


class RecordingFormat(NamedTuple):
    """One format. `signs` is found in the start of each file of it; `lacks`: see Recording."""

    name: str
    words: str
    signs: str
    module: str
    lacks: Sequence[str]

    def fits(self, start: str) -> bool:
        return re.search(self.signs, start, re.MULTILINE) is not None

    def read(self, file: RecordingFile, recording: Recording) -> None:
        """Add the records of a file with its reader, which is loaded now. Raises ScenarioError."""
        import_module(self.module).read(file, recording)


_LOOKED_AT = 20_000
_SESSION, _SIDE = re.compile(r'"sessionId": ?"([^"]+)'), re.compile(r'"isSidechain": ?(true)?')

_ROWS: Any = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
FORMATS = tuple(RecordingFormat(*row) for row in _ROWS)
"""The formats, in the order in which they are tried."""


def _format_of(file: RecordingFile) -> RecordingFormat | None:
    start = file.data[:_LOOKED_AT].decode("utf-8-sig", "replace")
    return next((each for each in FORMATS if each.fits(start)), None)


def is_known(path: Path) -> bool:
    """Return whether the file of a folder looks like a recording."""
    return _format_of(RecordingFile.beginning(path, _LOOKED_AT)) is not None


def grouped(paths: Sequence[Path]) -> list[list[Path]]:
    """Return the files of each recording; the sub-agents of Claude Code have files of their own."""
    starts = {path: RecordingFile.beginning(path, _LOOKED_AT).text for path in paths}
    names = {path: (_SESSION.findall(start) or [""])[0] for path, start in starts.items()}
    subs = {path for path, start in starts.items() if (_SIDE.findall(start) or [""])[0]}
    mains = {names[path]: path for path in paths if path not in subs}
    groups = {path: [path] for path in paths if path not in subs or names[path] not in mains}
    for path in paths:
        if path not in groups:
            groups[mains[names[path]]].append(path)
    return list(groups.values())


def read_recording(
    paths: Path | Sequence[Path], format_name: str = "", say: Callable[[str], object] = str
) -> Recording:
    """Return the recording in a file, or in the files of one session. Raises ScenarioError.

    `say` is told how far the reading of a long file is.
    """
    first, *others = [paths] if isinstance(paths, Path) else paths
    file = RecordingFile.read(first)
    named = [each for each in FORMATS if each.name == format_name]
    if (form := named[0] if named else _format_of(file)) is None:
        hint = f"name its format with --format: {', '.join(each.name for each in FORMATS)}"
        raise ScenarioError("this is no recording that simloop knows", path=first, hint=hint)
    recording = Recording(first.name, form.words, lacks=tuple(form.lacks))
    for each in [file, *map(RecordingFile.read, others)]:
        each.say = say
        form.read(each, recording)
    return recording
