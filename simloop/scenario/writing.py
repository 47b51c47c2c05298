"""The text of a scenario file: only what differs from the defaults, as a person would write it.

The text, read again, gives an equal scenario; what no file can hold is refused. A change of one key
in a text leaves all other lines and comments.
"""

import contextlib
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, count
from math import isinf, isnan
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import PydanticSerializationError
from yaml.emitter import Emitter

from simloop.errors import ScenarioError
from simloop.escape import escape, spelled
from simloop.scenario.catalog import SUFFIX, schema_text
from simloop.scenario.schema import Scenario
from simloop.scenario.yaml import HIDDEN, HIGHEST, LOWEST, Document, Loc, plain_value, read_yaml

SCHEMA_FILE = "simloop.schema.json"
"""The schema beside a scenario, because a path into an installation differs between machines."""

_WIDTH = 100
_LONGEST_KEY = 1_000  # YAML reads a longer one only after a `? `
_OF_KEYS: Any = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
_KEYS: Sequence[str] = _OF_KEYS["order"]
"""The order of the keys: the settings, the prompt, the world, the expectations."""
_SPREAD = frozenset(_OF_KEYS["spread"])
"""The keys whose items stand on lines of their own, even if all of them fit on one."""

# What PyYAML would write without quotes, but other readers or people may take for something else.
_UNCLEAR = re.compile(r"[-?:,\[\]{}#&*!|>'\"%@`~=<.]|[yYnN]$|[\d:.]+$")
_NEVER_PLAIN, _NOT_IN_FLOW = re.compile(r":( |\Z)| #"), re.compile(r"[,?\[\]{}:]")
_SPELLED = {"\\": "\\\\", '"': '\\"'}
_TO_SPELL = re.compile(rf'[\\"\n\t\r{HIDDEN.pattern[1:]}')
_FOLDED = re.compile(r"[!-~]+( [!-~]+)+")
_NOT_IN_A_BLOCK = re.compile(rf"[\t\r{HIDDEN.pattern[1:]}")
_BEFORE_A_LINE = re.compile(r"\n(?!\n)")  # that is not empty


def scenario_text(scenario: Scenario, comment: str = "", schema: str = SCHEMA_FILE) -> str:
    """Return the scenario as a file, after a comment. Raises ScenarioError if none can hold it."""
    try:
        return "\n".join((*pieces(content(scenario), comment, schema), ""))
    except ScenarioError as error:
        error.path = error.path or scenario.path or None
        raise


def pieces(content: dict[str, Any], comment: str = "", schema: str = SCHEMA_FILE) -> list[str]:
    """Return the lines of a file for `content`, which is empty then. Raises ScenarioError."""
    lines = [f"# yaml-language-server: $schema={schema}"]
    lines += [f"# {HIDDEN.sub(_spell, escape(line))}".rstrip() for line in comment.splitlines()]
    for key in [*content]:
        _add_entry(lines, key, content.pop(key), 0, 0 if key in _SPREAD else _WIDTH)
    return lines


def content(scenario: Scenario) -> dict[str, Any]:
    """Return the values that differ from the defaults, for a file. Raises ScenarioError."""
    try:
        whole = scenario.model_dump(mode="json", exclude_defaults=True, by_alias=True, context=True)
    except (UnicodeEncodeError, PydanticSerializationError):  # of a key, or of an odd value
        raise half_of_a_pair() from None
    return dict(sorted(whole.items(), key=lambda pair: _KEYS.index(pair[0])))


def _entry_lines(key: str, value: Any, indent: int) -> list[str]:
    """Return a key and its value, whose items stand on lines of their own. Raises ScenarioError."""
    lines: list[str] = []
    _add_entry(lines, key, value, indent, 0)
    return lines


def _add_entry(lines: list[str], key: str, value: Any, indent: int, most: int = _WIDTH) -> None:
    pad, name = " " * indent, _scalar(key, flow=False)
    if len(name) > _LONGEST_KEY:
        lines.append(f"{pad}? {name}")
        name = ""
    _add_value(lines, f"{pad}{name}:", value, indent, most)


def _add_value(lines: list[str], head: str, value: Any, indent: int, most: int) -> None:
    room = most - len(head) - 1
    if isinstance(value, str):
        lines.append(_text(head, value, indent + 2, room))
    elif (short := _inline(value, room)) is not None:
        lines.append(f"{head} {short}")
    else:
        lines.append(head)
        for each in value:
            if isinstance(value, dict):
                _add_entry(lines, each, value[each], indent + 2)
            else:
                _add_item(lines, each, indent + 2)


def _add_item(lines: list[str], value: Any, indent: int) -> None:
    start, head, is_mapping = len(lines), f"{' ' * indent}-", isinstance(value, dict)
    _add_value(lines, head, value, indent, 0 if is_mapping and len(value) == 1 else _WIDTH)
    if is_mapping and lines[start] == head:
        lines[start : start + 2] = [f"{head} {lines[start + 1].lstrip(' ')}"]
    lines[start:] = ["\n".join(lines[start:])]  # one takes less memory than many


def _text(head: str, text: str, indent: int, room: int) -> str:
    pad = "\n" + " " * indent
    if _is_block(text):
        lines = pad + _BEFORE_A_LINE.sub(pad, text.removesuffix("\n"))
        return f"{head} |{lines}" if text.endswith("\n") else f"{head} |-{lines}"
    short = "" if len(text) > room else _scalar(text, flow=False)
    if (not short or len(short) > room) and _FOLDED.fullmatch(text):
        width = max(_WIDTH // 2, _WIDTH - indent)
        return pad.join((f"{head} >-", *re.findall(rf"(.{{1,{width}}}|[^ ]+)(?: |$)", text)))
    return f"{head} {short or _scalar(text, flow=False)}"


def _is_block(text: str) -> bool:
    if "\n" not in text or text[0] in " \n" or text.endswith((" ", "\n\n")) or " \n" in text:
        return False
    return text.replace("\n", "").isprintable() or not _NOT_IN_A_BLOCK.search(text)


def _inline(value: Any, room: int) -> str | None:
    """Return the value on one line; None if it takes more room, or has a text that is a block."""
    if isinstance(value, str):
        return None if len(value) > room or _is_block(value) else _scalar(value, flow=True)
    if isinstance(value, dict):
        marks, named = "{}", [(f"{_scalar(key, flow=True)}: ", value[key]) for key in value]
    elif isinstance(value, list | tuple):
        marks, named = "[]", [("", each) for each in value]
    else:  # it has all the room that it takes
        return _scalar(value, flow=True)
    parts: list[str] = []
    for name, each in named:
        short = _inline(each, room - len(name) - 2)
        room -= len(name) + 2 + len(short or "")
        if short is None or room < 0:
            return None
        parts.append(name + short)
    return f"{marks[0]}{', '.join(parts)}{marks[1]}"


def _scalar(value: Any, *, flow: bool) -> str:
    match value:
        case str():
            return value if _is_plain(value, flow=flow) else _quoted(value)
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            if not LOWEST <= value <= HIGHEST:
                raise _unwritable(f"the number {value:.4g} has more than 64 bits", "make it a text")
            return str(value)
        case float() if isnan(value) or isinf(value):
            return f"{value}".replace("inf", ".inf").replace("nan", ".nan")
        case float():
            return repr(value)
    raise _unwritable(f"a {type(value).__name__} is no value of a file", "write what JSON has")


@lru_cache(maxsize=4_000)  # a text is looked at on each level that may fit on one line
def _is_plain(text: str, *, flow: bool) -> bool:
    if not text or _UNCLEAR.match(text) or _TO_SPELL.search(text):
        return False
    if text.isascii() and text[0].isalpha() and text[-1] != " ":
        plain = not (_NEVER_PLAIN.search(text) or (flow and _NOT_IN_FLOW.search(text)))
    else:  # it takes as long as all else together
        analysis = _analyst.analyze_scalar(text)
        plain = analysis.allow_flow_plain if flow else analysis.allow_block_plain
    kind = _resolver.resolve(yaml.ScalarNode, text, (True, False))
    with contextlib.suppress(OverflowError):  # a number that is too large
        return bool(plain) and plain_value(text) == text and kind == "tag:yaml.org,2002:str"
    return False


_resolver: Any = yaml.SafeLoader("")
_analyst: Any = Emitter(io.StringIO(), allow_unicode=True)


def _quoted(text: str) -> str:
    marks = text.count('"') + text.count("\\")
    is_simple = not marks and text.isprintable()
    in_double = f'"{text}"' if is_simple else f'"{_TO_SPELL.sub(_spell, text)}"'
    only_marks = marks > 0 and len(in_double) == len(text) + marks + 2 and not HIDDEN.search(text)
    return f"'{text}'" if "'" not in text and only_marks else in_double


def _spell(match: re.Match[str]) -> str:
    if "\ud800" <= match.group() <= "\udfff":
        raise half_of_a_pair()
    return _SPELLED.get(match.group()) or spelled(match)


def half_of_a_pair() -> ScenarioError:
    """Return the error of a text that is no Unicode, which only Python code can give."""
    hint = "write both halves of the pair, or U+FFFD for a broken character"
    return _unwritable("a text holds half of a surrogate pair", hint)


def _unwritable(message: str, hint: str) -> ScenarioError:
    return ScenarioError(f"no file and no trace can hold this: {message}", hint=hint)


def free_path(folder: Path, stem: str, is_taken: Callable[[Path], bool] = Path.exists) -> Path:
    """Return the path of a scenario file with this stem, and with a number if that is taken."""
    numbers = chain([""], (f"-{number}" for number in count(2)))
    paths = (folder / f"{stem}{number}{SUFFIX}" for number in numbers)
    return next(path for path in paths if not is_taken(path))


def create_schema(folder: Path) -> Path | None:
    """Write the schema to the folder; return None if it exists. Raises ScenarioError."""
    schema = folder / SCHEMA_FILE
    if schema.exists():
        return None
    create(schema, schema_text())
    return schema


def create(path: Path, text: str | Iterable[str]) -> None:
    """Write a new file. Raises ScenarioError, also if there is one, which is kept."""
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.writelines([text] if isinstance(text, str) else text)
    except FileExistsError as error:
        hint = "choose another name, or delete it first"
        raise ScenarioError("this file exists already", path=path, hint=hint) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "name a file in a folder that exists and may be written to"
        raise ScenarioError(f"cannot be created: {reason}", path=path, hint=hint) from error


def with_sent(text: str, sent: Any, path: str) -> str:
    """Return the text of a scenario with another `expect.sent`.

    Raises ScenarioError for a text that is written in a way that no line can be exchanged.
    """
    document, lines = read_yaml(text, path), text.removesuffix("\n").split("\n")
    expect = document.data.get("expect") or {}
    whole = _block(document, lines, ("expect",))
    inner = _block(document, lines, ("expect", next(iter(expect), "")))
    if found := _block(document, lines, ("expect", "sent")):
        first, last, indent = found
        lines[first:last] = _entry_lines("sent", sent, indent)
    elif whole and inner:
        lines[whole[1] : whole[1]] = _entry_lines("sent", sent, inner[2])
    else:
        margin = document.locate((next(iter(document.data)),), key=True)[1] - 1
        first, last, indent = whole or (len(lines), len(lines), margin)
        lines[first:last] = _entry_lines("expect", {**expect, "sent": sent}, indent)
    new = "\n".join(lines) + "\n"
    wanted = {**document.data, "expect": {**expect, "sent": sent}}
    with contextlib.suppress(ScenarioError):
        if read_yaml(new, path).data == wanted:
            return new
    hint = "write `expect:` and `sent:` on lines of their own"
    raise ScenarioError("expect.sent cannot be changed in place", path=path, hint=hint)


def _block(document: Document, lines: list[str], loc: Loc) -> tuple[int, int, int] | None:
    """Return the first line of a key, the line after its value, and the indent; None if inline."""
    if (loc, True) not in document.places:
        return None
    line, column = document.locate(loc, key=True)
    first, indent = line - 1, column - 1
    if lines[first][:indent].strip():
        return None
    last = first + 1
    for number, each in enumerate(lines[first + 1 :], first + 1):
        words = each.lstrip(" ")
        depth = len(each) - len(words)
        if words.strip() and (depth > indent or words[0] != "#"):
            if depth < indent or (depth == indent and words[:2] not in ("-", "- ")):
                break
            last = number + 1  # a deeper line with a # may be one of a text
    return first, last, indent
