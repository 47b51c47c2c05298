"""Reads one YAML 1.2 file into a plain tree, and knows the place of every key and value.

Not here: what the tree means. The models of a scenario judge that and ask `Document` for the places.
The rule to keep: whatever the bytes are, reading ends soon, with a `Document` or a `ScenarioError`.

PyYAML's pure event stream does the parsing. Its C loader crashes on deep nesting, its composers
recurse, expand aliases and keep the last of two equal keys; so the tree is built here, with a stack.
"""

import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, isinf, nan
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import yaml

from simloop.errors import ScenarioError

MAX_BYTES = 1_000_000
MAX_NODES = 50_000
MAX_DEPTH = 64

Loc: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = tuple[int, int]
Scalar: TypeAlias = str | int | float | bool | None

_SNIPPET = 40
# What neither YAML nor an eye can see, and U+0085, U+2028, U+2029: line ends for PyYAML (YAML 1.1),
# but plain characters in YAML 1.2 and for every editor that counts lines.
_HIDDEN = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_LINE_END = re.compile(r"\r\n|\r|\n")
_SURROGATE = re.compile("[\ud800-\udfff]")
_BARE_KEY = re.compile(r"[\w-]{1,40}")
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# 64 bits, signed or not: what trace files and other languages can hold; 22 octal digits.
_LOWEST, _HIGHEST, _MOST_DIGITS = -(2**63), 2**64 - 1, 22
# The core schema's words, in the three spellings that it lists for each.
_WORDS: dict[str, Scalar] = {"": None, "~": None} | {
    spelling: value
    for word, value in (
        ("null", None),
        ("true", True),
        ("false", False),
        (".inf", inf),
        ("+.inf", inf),
        ("-.inf", -inf),
    )
    for spelling in (word, word.title(), word.upper())
}
_WORDS |= dict.fromkeys((".nan", ".NaN", ".NAN"), nan)


@dataclass(frozen=True, slots=True)
class Document:
    """One file: its tree, and where each part stands.

    `positions` holds the place of every value, `key_positions` the place of every mapping key, both
    by the path of keys and list indexes from the top. Lines and columns count from 1.
    """

    data: dict[str, Any]
    path: str
    positions: Mapping[Loc, Place]
    key_positions: Mapping[Loc, Place]

    def locate(self, loc: Loc, *, key: bool = False) -> Place:
        """Place of the value at `loc`, or of its key; of the nearest parent if it is not there."""
        known = self._known(loc)
        if key and known in self.key_positions:
            return self.key_positions[known]
        return self.positions.get(known, (1, 1))

    def key_path(self, loc: Loc) -> str:
        """`loc` as people write it, such as `model.1.http.status`, without what the file lacks."""
        return _dotted(self._known(loc))

    def _known(self, loc: Loc) -> Loc:
        # Pydantic mixes union tags into its locations, and a tag may be spelled like a key. So each
        # part is both taken and skipped; the longest path wins, then the one that took parts first.
        paths: list[Loc] = [()]
        for part in loc:
            longer = ((path, (*path, part)) for path in paths)
            paths = [p for pair in longer for p in pair if p in self.positions]
            paths = list(dict.fromkeys(paths))
        return max(paths, key=len, default=())


def read_yaml_file(path: Path) -> Document:
    """Read the file at `path`; a `ScenarioError` says why it cannot be read, and where."""
    raw = _read_bytes(path)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _place_after(raw[: error.start].decode("utf-8"))
        raise ScenarioError(
            f"byte 0x{raw[error.start]:02x} at offset {error.start} is not UTF-8",
            path=str(path),
            line=line,
            column=column,
            hint="save the file as UTF-8 text",
        ) from error
    return read_yaml(text, str(path))


def read_yaml(text: str, path: str) -> Document:
    """Read `text`; `path` only names it in errors. Raises `ScenarioError` for anything unclear."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise _too_large(path)
    text = text.removeprefix("\ufeff")
    if hidden := _HIDDEN.search(text):
        raise _hidden_character(hidden, path)
    tree = _Tree(path)
    for event in _events(text, path):
        tree.add(event)
    return tree.document()


def _read_bytes(path: Path) -> bytes:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise ScenarioError("this is a directory", path=path, hint="name a file inside it")
        if not stat.S_ISREG(status.st_mode):  # a pipe would block, a device would never end
            raise ScenarioError("this is no regular file", path=path, hint="copy it into a file")
        if status.st_size > MAX_BYTES:
            raise _too_large(str(path))
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)  # it may have grown since
    except FileNotFoundError as error:
        hint = "check the name, and the directory you are in"
        raise ScenarioError("there is no such file", path=path, hint=hint) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        hint = "check the name and the permissions"
        raise ScenarioError(f"cannot read it: {reason}", path=path, hint=hint) from error


def _too_large(path: str) -> ScenarioError:
    return ScenarioError(
        f"the file is larger than {MAX_BYTES:,} bytes",
        path=path,
        hint="split it, or let a rule or a generator in Python make the long parts",
    )


def _hidden_character(found: re.Match[str], path: str) -> ScenarioError:
    line, column = _place_after(found.string[: found.start()])
    code = ord(found.group())
    escape = f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004 - two digits
    surrogate = _SURROGATE.match(found.group())
    return ScenarioError(
        f"the hidden character U+{code:04X} cannot stand in a file",
        path=path,
        line=line,
        column=column,
        hint="remove it" if surrogate else f'remove it, or write "{escape}" in double quotes',
    )


def _place_after(text: str) -> Place:
    lines = _LINE_END.split(text.removeprefix("\ufeff"))
    return len(lines), len(lines[-1]) + 1


def _shown(text: str) -> str:
    """Quote text from a file for an error: no character in it acts on a terminal."""
    return f"'{_escaped(text)}'"


def _escaped(text: str) -> str:
    escaped = repr(text[: _SNIPPET + 1])[1:-1]
    return escaped if len(escaped) <= _SNIPPET else escaped[: _SNIPPET - 1] + "…"


def _dotted(loc: Loc) -> str:
    parts = (str(part) for part in loc)
    return ".".join(part if _BARE_KEY.fullmatch(part) else _shown(part) for part in parts)
