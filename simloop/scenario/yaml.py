"""The reader of a YAML 1.2 file: a plain tree, with the place of every key and value.

For any bytes, reading ends soon, with a `Document` or a `ScenarioError`. PyYAML's event streams do
the parsing. Its composers recurse (the one in C crashes), expand aliases and keep the last of two
equal keys, so the tree is built here on a stack.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import inf, isinf, nan
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import yaml
from msgspec import Struct

from simloop.errors import ScenarioError
from simloop.trace.storage import read_file

MAX_BYTES = 1_000_000
MAX_NODES = 50_000
MAX_DEPTH = 64
_TOO_LONG = "let rules, or a scenario in Python, make the long parts"

Loc: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = tuple[int, int]
Scalar: TypeAlias = str | int | float | bool | None

_SNIPPET = 40
# Invisible characters, and U+0085, U+2028, U+2029: PyYAML (YAML 1.1) ends lines there, YAML 1.2 and
# editors do not, so they would change values and places.
HIDDEN = re.compile("[\x00-\x08\v\f\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_LINE_END = re.compile(r"\r\n|\r|\n")
_HALF = re.compile("[\ud800-\udfff]")
# Texts that libyaml and PyYAML may read differently; they agreed on 170,000 random texts without
# these, on 90,000 with >- at the end of a line and on 130,000 with backquotes and with a ? after a
# word. Inside a word, such as `pi@0.87.1`, an @ is an ordinary character.
_READ_APART = re.compile(r"(?m)[^\n -~]|[\\%&*!|]|>(?!-$)|(?<!\w)@|(?<!\w)\?(?!$)|^(---|\.\.\.)")
_C_LOADER = getattr(yaml, "CSafeLoader", None)
_BARE_KEY = re.compile(r"[\w-]{1,40}")
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BEGIN_A_NUMBER = frozenset("-+.0123456789")
# 64 bits, signed or not: msgspec and most readers of a trace hold no more. Octal needs 22 digits.
LOWEST, HIGHEST, _MOST_DIGITS = -(2**63), 2**64 - 1, 22
_WORDS: dict[str, Scalar] = {"": None, "~": None, ".nan": nan, ".NaN": nan, ".NAN": nan}
for _word, _value in (("null", None), ("true", True), ("false", False), (".inf", inf)):
    _WORDS |= dict.fromkeys((_word, _word.title(), _word.upper()), _value)
_WORDS |= {sign + word: float(sign + "inf") for word in (".inf", ".Inf", ".INF") for sign in "+-"}

_QUOTE = "put the text in quotes"
_FOUND = re.compile(r"(?:but (?:found|got)|character) '(.+?)'(?: that|$)")
_TOKENS = {"": "this", "scalar": "text", "document start": "'---'"}
_TOKENS |= {"block mapping start": "a key", "?": "a key"}


class Document(Struct, frozen=True, dict=True):
    """One file: its tree, and the places of all its values and keys.

    A place is (line, column), both from 1. A loc is the path of keys and list indexes from the top.
    """

    data: dict[str, Any]
    path: str
    marks: Sequence[Any]
    """The place of each key and value, in the order of the file."""

    @cached_property  # only an error asks, so most files are read without a path for each value
    def places(self) -> Mapping[tuple[Loc, bool], Place]:
        """Return the place of each value, and of each key, which has the loc of its value."""
        return dict(zip(_walk(self.data, (), is_key=False), map(_place, self.marks), strict=True))

    def locate(self, loc: Loc, *, key: bool = False) -> Place:
        """Return the place of the value at `loc`, or of its key, or of the nearest parent."""
        known = self._known(loc)
        return self.places.get((known, key)) or self.places.get((known, False), (1, 1))

    def put_place(self, error: ScenarioError, loc: Loc, *, key: bool = False) -> None:
        """State in an error where in this file its value, or its key, is."""
        error.path = self.path
        error.line, error.column = self.locate(loc, key=key)

    def key_path(self, loc: Loc) -> str:
        """Return `loc` as text like `model.1.http.status`, without parts that the file lacks."""
        return _dotted(self._known(loc))

    def _known(self, loc: Loc) -> Loc:
        # Pydantic mixes union tags into a loc, and a tag may be spelled like a key. So each part is
        # both taken and skipped; the longest path wins, then the one that took its parts first.
        paths: list[Loc] = [()]
        for part in loc:
            tried = dict.fromkeys(choice for path in paths for choice in ((*path, part), path))
            paths = [path for path in tried if (path, False) in self.places or not path]
        return max(paths, key=len)


def read_yaml_file(path: Path) -> Document:
    """Read the file at `path`; every failure is a `ScenarioError`."""
    name = str(path)
    raw = read_file(path, MAX_BYTES, _TOO_LONG)
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        message = f"byte 0x{raw[error.start]:02x} at offset {error.start} is not UTF-8"
        place = _place_after(raw[: error.start].decode())
        raise _error(message, name, place, "save the file as UTF-8 text") from error
    return read_yaml(text, name)


def read_yaml(text: str, path: str) -> Document:
    """Read `text`; `path` is only its name in errors. Every failure is a `ScenarioError`."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise _error(f"the file is over {MAX_BYTES:,} bytes", path, (1, 1), _TOO_LONG)
    text = text.removeprefix("\ufeff")
    if hidden := HIDDEN.search(text):
        message = f"the hidden character U+{ord(hidden.group()):04X} cannot stand in a file"
        hint = r"remove it, or write it as an escape in double quotes, such as \x1b or \u2028"
        raise _error(message, path, _place_after(text[: hidden.start()]), hint)
    if (document := _read_fast(text, path)) is not None:
        return document
    tree = _Tree(path)
    for event in _events(text, path):
        tree.add(event)
    return tree.document()


def _read_fast(text: str, path: str) -> Document | None:
    """Return the document from libyaml's events, or None if the result might differ.

    It is several times as fast. libyaml's parser does not recurse (its composer does, and crashes).
    The parser in Python finds its errors again, and words them; it places empty values elsewhere.
    """
    if _C_LOADER is None or _READ_APART.search(text):
        return None
    tree = _Tree(path)
    try:
        for event in yaml.parse(text, Loader=_C_LOADER):
            if isinstance(event, yaml.ScalarEvent) and not event.value and event.implicit[0]:
                return None
            tree.add(event)
        return tree.document()
    except (yaml.YAMLError, ScenarioError, OverflowError):
        return None


def _error(message: str, path: str, at: Place, hint: str, loc: Loc = ()) -> ScenarioError:
    line, column = at
    return ScenarioError(message, path=path, line=line, column=column, hint=hint, key=_dotted(loc))


def _place_after(text: str) -> Place:
    lines = _LINE_END.split(text.removeprefix("\ufeff"))
    return len(lines), len(lines[-1]) + 1


def _place(mark: Any) -> Place:
    return mark.line + 1, mark.column + 1


def _escaped(text: str) -> str:
    escaped = repr(text[: _SNIPPET + 1])[1:-1]
    return escaped if len(escaped) <= _SNIPPET else escaped[: _SNIPPET - 1] + "…"


def _dotted(loc: Loc) -> str:
    parts = (str(part) for part in loc)
    return ".".join(part if _BARE_KEY.fullmatch(part) else f"'{_escaped(part)}'" for part in parts)


class _Loader(yaml.SafeLoader):
    """A PyYAML loader, used only for its event stream."""

    _in_plain = False

    def check_key(self) -> bool:
        # YAML 1.1 reads [?a] as {a: null}; in 1.2 it is the text ?a.
        after: str = self.peek(1)
        return after in "\0 \t\r\n" or (self.flow_level > 0 and after in ",[]{}")

    def check_plain(self) -> bool:
        return bool(super().check_plain()) or self.peek() == "?"  # check_key has refused it before

    def scan_plain(self) -> Any:
        # PyYAML ends an unquoted text of a flow collection before a ?, as YAML 1.1 says. YAML 1.2
        # does not: a ? inside a text is an ordinary character, so `peek` shows the scanner one.
        # `prefix` reads the text itself, and does not peek.
        self._in_plain = True
        try:
            return super().scan_plain()
        finally:
            self._in_plain = False

    def peek(self, index: int = 0) -> str:
        char: str = super().peek(index)
        return "x" if self._in_plain and char == "?" else char


def _events(text: str, path: str) -> Iterator[yaml.Event]:
    loader = _Loader(text)
    try:
        while loader.check_event():
            event: yaml.Event = loader.get_event()  # type: ignore[no-untyped-call]  # bare in its stubs
            yield event
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, loader.marks, path) from error
    except (OverflowError, ValueError) as error:  # PyYAML's bare chr(), and int() after %YAML
        hint = r"the last character that an escape can name is \U0010FFFF"
        raise _error("this number is out of range", path, _place(loader), hint) from error


def _syntax_error(error: yaml.MarkedYAMLError, open_marks: list[Any], path: str) -> ScenarioError:
    said = f"{error.context}: {error.problem}"
    # A pattern of PyYAML's message, our message, and the correction. A leading "^" in our message:
    # the place is the start of the unfinished element, not the parser's last position.
    known = json.loads(Path(__file__).with_name("yaml.json").read_text("utf-8"))
    faults = known["messages of PyYAML 6"]
    pattern, message, hint = next(fault for fault in faults if re.search(fault[0], said))
    opening = open_marks[-1] if open_marks else error.problem_mark
    found = _FOUND.search(said)
    token = (found[1].strip("<>") or found[1]) if found else ""
    parts = {"found": _TOKENS.get(token, f"'{_escaped(token)}'"), "line": _place(opening)[0]}
    start = opening if "flow" in pattern else error.context_mark
    mark = start if message.startswith("^") else error.problem_mark
    message = message.removeprefix("^").format_map(parts)
    return _error(message, path, _place(mark), hint.format_map(parts))


def _scalar(event: yaml.ScalarEvent) -> Scalar:
    text = event.value
    if event.implicit[0]:  # neither quoted, nor a block of text
        return plain_value(text)
    # JSON writes a character beyond U+FFFF as two escapes; half of one fits into no trace.
    return text.encode("utf-16", "surrogatepass").decode("utf-16") if _HALF.search(text) else text


def plain_value(text: str) -> Scalar:
    """Return the value of a text without quotes. Raises OverflowError for too large a number."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _BEGIN_A_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text):
        if isinf(number := float(text)):
            raise OverflowError
        return number
    return text


def _integer(text: str) -> int:
    sign, digits = (-1 if text[0] == "-" else 1), text.lstrip("+-")
    base = {"0o": 8, "0x": 16}.get(digits[:2], 10)
    digits = digits.removeprefix("0o").removeprefix("0x").lstrip("0") or "0"
    if len(digits) <= _MOST_DIGITS:  # int() itself gives up at 4,300 digits
        number = sign * int(digits, base)
        if LOWEST <= number <= HIGHEST:
            return number
    raise OverflowError


def _walk(value: Any, loc: Loc, *, is_key: bool) -> Iterator[tuple[Loc, bool]]:
    yield loc, is_key
    if isinstance(value, dict):
        for key, each in value.items():
            yield (*loc, key), True
            yield from _walk(each, (*loc, key), is_key=False)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _walk(each, (*loc, index), is_key=False)


_AT_THE_START = yaml.Event(yaml.Mark("", 0, 0, 0, "", 0))


class _Tree:
    """A builder of the tree from events, without recursion."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.root: Any = None
        self.marks: list[Any] = []
        # The open list or mapping, and its key that has no value yet; and those around it.
        self._node: Any = None
        self._key: str | None = None
        self._outer: list[Any] = []

    def document(self) -> Document:
        if not self.marks:
            self._check_top(None, _AT_THE_START)
        return Document(self.root, self.path, self.marks)

    def add(self, event: Any) -> None:
        if (kind := type(event)) is yaml.ScalarEvent:
            self._add_scalar(event)
        elif kind is yaml.MappingStartEvent:
            self._open({}, event)
        elif kind is yaml.SequenceStartEvent:
            self._open([], event)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self._node = self._outer.pop()
        elif kind is yaml.AliasEvent:
            hint = f"write the value out where it is needed, or {_QUOTE}"
            self._refuse(f"aliases are not read: *{_escaped(event.anchor or '')}", event, hint)
        elif kind is yaml.DocumentStartEvent and self.marks:
            self._refuse("a second document starts here", event, "keep one scenario in a file")
        elif kind is yaml.DocumentStartEvent and event.version not in {None, (1, 2)}:
            self._refuse("only YAML 1.2 is read", event, "remove the %YAML line")

    def _check(self, event: Any) -> None:
        if len(self.marks) >= MAX_NODES:
            hint = "split the file, or write the scenario in Python"
            self._refuse(f"the file has more than {MAX_NODES:,} keys and values", event, hint)
        if event.anchor is not None:
            hint = f"write the value out where it is needed, or {_QUOTE}"
            self._refuse(f"anchors are not read: &{_escaped(event.anchor)}", event, hint)
        if event.tag is not None:
            self._refuse("tags are not read", event, f"remove what starts with !, or {_QUOTE}")

    def _open(self, node: Any, event: Any) -> None:
        self._check(event)
        if len(self._outer) == MAX_DEPTH:
            self._refuse(f"this is nested more than {MAX_DEPTH} deep", event, "make it flatter")
        if self._key is None and type(self._node) is dict:
            self._refuse("a key must be text, not a list or a mapping", event, _QUOTE)
        self._put(node, event)
        self._outer.append(self._node)
        self._node = node

    def _add_scalar(self, event: Any) -> None:
        if event.anchor is not None or event.tag is not None or len(self.marks) >= MAX_NODES:
            self._check(event)
        try:
            value = _scalar(event)
        except OverflowError:
            self._refuse("this number is too large", event, f"use at most 64 bits, or {_QUOTE}")
        except UnicodeDecodeError:
            hint = "write both halves of the pair, or U+FFFD for a broken character"
            self._refuse("this text holds half of a surrogate pair", event, hint)
        if self._key is None and type(self._node) is dict:
            if value == "<<" and event.implicit[0]:
                self._refuse("merge keys (<<) are not read", event, "write the keys out")
            if not isinstance(value, str):
                spelled = _escaped(event.value) or "empty"
                self._refuse(f"a key must be text, not {spelled}", event, "put it in quotes")
            if value in self._node:
                first = self.document().places[(*self._loc(), value), True][0]
                message = f"the key '{_escaped(value)}' stands on line {first} already"
                self._refuse(message, event, "keep one of the two")
            self._key = value
            self.marks.append(event.start_mark)
        else:
            self._put(value, event)

    def _put(self, value: Any, event: Any) -> None:
        node = self._node
        if type(node) is list:
            node.append(value)
        elif self._key is not None:
            node[self._key], self._key = value, None
        else:
            self._check_top(value, event)
            self.root = value
        self.marks.append(event.start_mark)

    def _loc(self) -> Loc:
        outer = self._outer[1:]
        around = [len(one) - 1 if type(one) is list else next(reversed(one)) for one in outer]
        if type(self._node) is list:
            return (*around, len(self._node))
        return tuple(around) if self._key is None else (*around, self._key)

    def _check_top(self, value: Any, event: Any) -> None:
        if not isinstance(value, dict):
            message = "the file is empty" if value is None else "the file holds no mapping"
            self._refuse(message, event, "start with keys at the left margin, such as 'title: ...'")

    def _refuse(self, message: str, event: Any, hint: str) -> NoReturn:
        raise _error(message, self.path, _place(event.start_mark), hint, self._loc())
