"""The formats of recordings: one line each, and how a file of it is recognised."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from simloop.errors import ScenarioError
from simloop.recordings import har, sse, vcr
from simloop.recordings.files import RecordingFile
from simloop.recordings.recording import Recording


class RecordingFormat(NamedTuple):
    """One format. `signs` is found in the start of each file of it."""

    name: str
    words: str
    signs: re.Pattern[str]
    read: Callable[[RecordingFile, Recording], None]


_LOOKED_AT = 20_000

FORMATS = tuple(
    RecordingFormat(name, words, re.compile(signs, re.MULTILINE), read)
    for name, words, signs, read in (
        ("vcr", "a VCR cassette", r'^interactions:|"interactions"|^\[\[interactions', vcr.read),
        ("har", "HAR 1.2", r'"log"[\s\S]*"entries"', har.read),
        ("sse", "server-sent events", r"\A\s*(data:|event:|:)", sse.read),
    )
)
"""The formats, in the order in which they are tried."""


def _formats_of(file: RecordingFile) -> list[RecordingFormat]:
    start = file.data[:_LOOKED_AT].decode("utf-8-sig", "replace")
    return [each for each in FORMATS if each.signs.search(start)]


def is_known(path: Path) -> bool:
    """Return whether the file of a folder looks like a recording."""
    return bool(_formats_of(RecordingFile.beginning(path, _LOOKED_AT)))


def read_recording(path: Path, format_name: str = "") -> Recording:
    """Return the recording in a file. Raises ScenarioError."""
    file = RecordingFile.read(path)
    named = [each for each in FORMATS if each.name == format_name]
    found = named or _formats_of(file)
    if not found:
        known = ", ".join(f"{each.name} ({each.words})" for each in FORMATS)
        hint = f"name its format with --format: {known}"
        raise ScenarioError("this is no recording that simloop knows", path=path, hint=hint)
    recording = Recording(path.name, found[0].words)
    found[0].read(file, recording)
    return recording
