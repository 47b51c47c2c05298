"""The text of a scenario file: only what differs from the defaults, as a person would write it.

The text, read again, gives an equal scenario; what no file can hold is refused.
"""

import contextlib
import io
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, count
from math import isinf, isnan
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import PydanticSerializationError
from yaml.emitter import Emitter

from simloop.errors import ScenarioError
from simloop.escape import escape
from simloop.scenario.catalog import SUFFIX, schema_text
from simloop.scenario.schema import Scenario
from simloop.scenario.yaml import HIDDEN, HIGHEST, LOWEST, plain_value

SCHEMA_FILE = "simloop.schema.json"
"""The schema beside a scenario, because a path into an installation differs between machines."""

_WIDTH = 100
_LONGEST_KEY = 1_000  # YAML reads a longer one only after a `? `
_ORDER = {
    name: place
    for place, name in enumerate((
        "title", "about", "recorded", "loop", "judge_as", "declares", "bugs", "loops", "seed",
        "shuffle_ties", "limits", "compaction", "retry", "context", "tool_execution",
        "hook_isolation", "hook_execution", "clock", "faults", "warn_after", "max_transitions",
        "max_trace_chars", "abort", "queue", "system_prompt", "history", "prompt", "then",
        "input", "files", "shell_timeout", "services", "programs", "offline", "absent",
        "unscripted", "tools", "hooks", "model", "models", "summaries", "expect", "expect_on",
    ))
}  # fmt: skip
"""The order of the keys: the settings, the prompt, the world, the expectations."""
_SPREAD = frozenset(
    {"queue", "history", "files", "services", "programs", "tools", "hooks", "model", "models",
     "summaries", "expect", "expect_on"}
)  # fmt: skip
"""The keys whose items stand on lines of their own, even if all of them fit on one."""

# What PyYAML would write without quotes, but other readers or people may take for something else.
_UNCLEAR = re.compile(r"[-?:,\[\]{}#&*!|>'\"%@`~=<.]|[yYnN]$|[\d:.]+$")
_SPELLED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_TO_SPELL = re.compile(rf'[\\"\n\t\r]|{HIDDEN.pattern}')
_FOLDED = re.compile(r"[!-~]+( [!-~]+)+")
_NOT_IN_A_BLOCK = re.compile(rf"\A[ \n]|\t|[ ]$|\n\n\Z|\r|{HIDDEN.pattern}", re.MULTILINE)


def scenario_text(scenario: Scenario, comment: str = "", schema: str = SCHEMA_FILE) -> str:
    """Return the scenario as a file, after a comment. Raises ScenarioError if none can hold it."""
    lines = [f"# yaml-language-server: $schema={schema}"]
    lines += [f"# {HIDDEN.sub(_spell, escape(line))}".rstrip() for line in comment.splitlines()]
    try:
        for key, value in content(scenario).items():
            lines += _entry(key, value, 0, spread=key in _SPREAD)
    except ScenarioError as error:
        error.path = error.path or scenario.path or None
        raise
    return "\n".join(lines) + "\n"


def content(scenario: Scenario) -> dict[str, Any]:
    """Return the values that differ from the defaults, for a file. Raises ScenarioError."""
    try:
        whole = scenario.model_dump(mode="json", exclude_defaults=True, by_alias=True)
    except (UnicodeEncodeError, PydanticSerializationError):  # of a key, or of an odd value
        raise half_of_a_pair() from None
    return dict(sorted(whole.items(), key=lambda pair: _ORDER[pair[0]]))


def entry_lines(key: str, value: Any, indent: int) -> Iterator[str]:
    """Yield a key and its value, whose items stand on lines of their own. Raises ScenarioError."""
    return _entry(key, value, indent, spread=True)


def _entry(key: str, value: Any, indent: int, *, spread: bool = False) -> Iterator[str]:
    pad, name = " " * indent, _scalar(key, flow=False)
    if len(name) > _LONGEST_KEY:
        yield f"{pad}? {name}"
        name = ""
    yield from _value(f"{pad}{name}:", value, indent, spread=spread)


def _value(head: str, value: Any, indent: int, *, spread: bool = False) -> Iterator[str]:
    short = None if spread and value else _inline(value, flow=False)
    fits = short is not None and len(head) + 1 + len(short) <= _WIDTH
    if isinstance(value, str) and not fits and _FOLDED.fullmatch(value):
        yield f"{head} >-"
        width = max(_WIDTH // 2, _WIDTH - indent - 2)
        lines = textwrap.wrap(value, width, break_long_words=False, break_on_hyphens=False)
        yield from (" " * (indent + 2) + line for line in lines)
    elif fits or (short is not None and (_is_scalar(value) or not value)):
        yield f"{head} {short}"
    elif isinstance(value, str):
        yield f"{head} |" if value.endswith("\n") else f"{head} |-"
        lines = value.removesuffix("\n").split("\n")
        yield from (" " * (indent + 2) + line if line else "" for line in lines)
    elif isinstance(value, Mapping):
        yield head
        for key, each in value.items():
            yield from _entry(key, each, indent + 2)
    else:
        yield head
        for each in value:
            yield from _item(each, indent + 2)


def _item(value: Any, indent: int) -> Iterator[str]:
    pad = " " * indent
    short = _inline(value, flow=False)
    one_key = isinstance(value, Mapping) and len(value) == 1
    if short is not None and not one_key and len(pad) + 2 + len(short) <= _WIDTH:
        yield f"{pad}- {short}"
    elif isinstance(value, Mapping) and value:
        first, *others = (
            line for key, each in value.items() for line in _entry(key, each, indent + 2)
        )
        yield f"{pad}- {first.lstrip(' ')}"
        yield from others
    else:
        yield from _value(f"{pad}-", value, indent)


def _inline(value: Any, *, flow: bool) -> str | None:
    """Return the value on one line; None if a text in it is better shown as a block."""
    if _is_scalar(value):
        block = isinstance(value, str) and "\n" in value and not _NOT_IN_A_BLOCK.search(value)
        return None if block else _scalar(value, flow=flow)
    if isinstance(value, Mapping):
        pairs = [(_scalar(key, flow=True), _inline(each, flow=True)) for key, each in value.items()]
        if any(each is None or len(key) > _LONGEST_KEY for key, each in pairs):
            return None
        return f"{{{', '.join(f'{key}: {each}' for key, each in pairs)}}}"
    items = [_inline(each, flow=True) for each in value]
    return None if None in items else f"[{', '.join(filter(None, items))}]"


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str) or not isinstance(value, Mapping | Sequence)


def _scalar(value: Any, *, flow: bool) -> str:
    match value:
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
        case str():
            return value if _is_plain(value, flow=flow) else _quoted(value)
    raise _unwritable(f"a {type(value).__name__} is no value of a file", "write what JSON has")


@lru_cache(maxsize=4_000)  # a text is looked at on each level that may fit on one line
def _is_plain(text: str, *, flow: bool) -> bool:
    if not text or _UNCLEAR.match(text) or "\n" in text or _TO_SPELL.search(text):
        return False
    analysis = _analyst.analyze_scalar(text)
    plain = analysis.allow_flow_plain if flow else analysis.allow_block_plain
    kind = _resolver.resolve(yaml.ScalarNode, text, (True, False))
    with contextlib.suppress(OverflowError):  # a number that is too large
        return bool(plain) and plain_value(text) == text and kind == _STR
    return False


_STR = "tag:yaml.org,2002:str"
_resolver: Any = yaml.SafeLoader("")
_analyst: Any = Emitter(io.StringIO(), allow_unicode=True)


def _quoted(text: str) -> str:
    in_double = f'"{_TO_SPELL.sub(_spell, text)}"'
    in_single = f"'{text}'"
    marks = text.count('"') + text.count("\\")
    only_marks = marks > 0 and len(in_double) == len(text) + marks + 2 and not HIDDEN.search(text)
    return in_single if "'" not in text and only_marks else in_double


def _spell(match: re.Match[str]) -> str:
    character = match.group()
    code = ord(character)
    if "\ud800" <= character <= "\udfff":
        raise half_of_a_pair()
    return _SPELLED.get(character) or (f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}")  # noqa: PLR2004 - one byte


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


def create(path: Path, text: str) -> None:
    """Write a new file. Raises ScenarioError, also if there is one, which is kept."""
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError as error:
        hint = "choose another name, or delete it first"
        raise ScenarioError("this file exists already", path=path, hint=hint) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "name a file in a folder that exists and may be written to"
        raise ScenarioError(f"cannot be created: {reason}", path=path, hint=hint) from error
