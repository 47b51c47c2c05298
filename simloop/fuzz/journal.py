"""The file in which a search keeps its results: one line for each finished range and each failure.

The file begins with the settings of the search. A command with other settings, or after a change of
the code under test, appends its own settings and begins anew behind them. A line that a killed
process has left unfinished is cut off.
"""

import hashlib
import os
import sys
from pathlib import Path

import msgspec

from simloop import __version__
from simloop.errors import ScenarioError
from simloop.fuzz.ranges import RangeResult, SearchFinding, SearchSettings

NAME = "search.jsonl"
_LINE = msgspec.json.Decoder(SearchSettings | SearchFinding | RangeResult)
_ENCODE = msgspec.json.Encoder(order="deterministic").encode


def code_digest() -> str:
    """Return a digest of the loaded modules that are not installed, and simloop's version."""
    installed = {sys.prefix, sys.base_prefix, sys.exec_prefix}
    digest = hashlib.blake2b(__version__.encode(), digest_size=16)
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        own = file.endswith(".py") and not any(file.startswith(each) for each in installed)
        if own and name != "__main__" and name.partition(".")[0] != "simloop":
            digest.update(name.encode())
            digest.update(Path(file).read_bytes() if Path(file).is_file() else b"")
    return digest.hexdigest()


class Journal:
    """The file of a search in `folder`. `results` are those that it has for these settings.

    Raises ScenarioError if the file cannot be read or written, or is no such file.
    """

    def __init__(self, folder: Path, settings: SearchSettings) -> None:
        self.path = folder / NAME
        self.results: list[RangeResult] = []
        try:
            data = self.path.read_bytes() if self.path.exists() else b""
        except OSError as error:
            raise self._unusable(f"cannot be read: {error.strerror}") from error
        whole = data[: data.rfind(b"\n") + 1]
        known = self._read(whole)
        if len(whole) < len(data):
            try:
                os.truncate(self.path, len(whole))
            except OSError as error:
                raise self._unusable(f"cannot be written: {error.strerror}") from error
        self.results.sort(key=lambda each: each.first)
        if known != settings:
            self.results = []
            self._append(_ENCODE(settings) + b"\n")

    def _read(self, whole: bytes) -> SearchSettings | None:
        """Read the results behind the newest settings, and return those."""
        settings: SearchSettings | None = None
        finding: SearchFinding | None = None
        try:
            for line in map(_LINE.decode, whole.splitlines()):
                if isinstance(line, SearchSettings):
                    settings, finding, self.results = line, None, []
                elif isinstance(line, SearchFinding):
                    finding = line
                else:
                    self.results.append(msgspec.structs.replace(line, finding=finding))
                    finding = None
        except msgspec.DecodeError as error:
            raise self._unusable(f"this is no file of a search: {error}") from error
        return settings

    def append(self, result: RangeResult) -> None:
        """Store a result."""
        lines = [] if result.finding is None else [_ENCODE(result.finding)]
        lines.append(_ENCODE(msgspec.structs.replace(result, finding=None, ended=False)))
        self._append(b"".join(line + b"\n" for line in lines))

    def _append(self, data: bytes) -> None:
        try:
            with self.path.open("ab") as file:
                file.write(data)
        except OSError as error:
            raise self._unusable(f"cannot be written: {error.strerror}") from error

    def _unusable(self, message: str) -> ScenarioError:
        hint = "name a folder that may be written to, or one without such a file"
        return ScenarioError(message, path=self.path, hint=hint)
