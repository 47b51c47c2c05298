"""The text of a scenario file: only what differs from the defaults, as a person would write it.

The text, read again, gives an equal scenario; what no file can hold is refused.
"""

import io
import re
from collections.abc import Callable
from itertools import chain, count
from math import inf
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import PydanticSerializationError

from simloop.errors import ScenarioError
from simloop.escape import escape
from simloop.scenario.catalog import SUFFIX, schema_text
from simloop.scenario.schema import Scenario
from simloop.scenario.yaml import HALF, HIDDEN, HIGHEST, LOWEST, plain_value

SCHEMA_FILE = "simloop.schema.json"
"""The schema beside a scenario, because a path into an installation differs between machines."""

_WIDTH = 100
_AFTER_SETTINGS = (
    "abort", "queue", "system_prompt", "history", "prompt", "then", "input", "files",
    "shell_timeout", "services", "programs", "offline", "absent", "unscripted", "mcp", "tools",
    "hooks", "model", "models", "summaries", "expect", "expect_on",
)  # fmt: skip
"""The keys after those of settings, in their order: the prompt, the world, the expectations."""
_SPREAD = frozenset({
    "queue", "history", "files", "services", "programs", "tools", "hooks", "model", "models",
    "summaries", "expect", "expect_on",
})  # fmt: skip
"""The keys whose items stand on lines of their own, even if all of them fit on one."""

# What PyYAML would write without quotes, but other readers or people may take for something else.
_UNCLEAR = re.compile(r"[-?:,\[\]{}#&*!|>'\"%@`~=<.]|[yYnN]$|[\d:.]+$")
_FOLDED = re.compile(r"[!-~]+( [!-~]+)+")
_NOT_IN_A_BLOCK = re.compile(rf"\A[ \n]|\t|[ ]$|\n\n\Z|\r|{HIDDEN.pattern}", re.MULTILINE)


def scenario_text(scenario: Scenario, comment: str = "", schema: str = SCHEMA_FILE) -> str:
    """Return the scenario as a file, after a comment. Raises ScenarioError if none can hold it."""
    lines = [f"# yaml-language-server: $schema={schema}"]
    lines += [f"# {HIDDEN.sub('?', escape(line))}".rstrip() for line in comment.splitlines()]
    try:
        for key, value in content(scenario).items():
            lines += entry_lines(key, value, spread=key in _SPREAD)
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
    settings = [key for key in whole if key not in _AFTER_SETTINGS]
    others = [key for key in _AFTER_SETTINGS if key in whole]
    return {key: whole[key] for key in (*settings, *others)}


def entry_lines(key: str, value: Any, indent: int = 0, *, spread: bool = True) -> list[str]:
    """Return a key and its value. Raises ScenarioError if no file can hold them.

    With `spread`, the items of the value stand on lines of their own, even if all fit on one.
    """
    text, width = io.StringIO(), _WIDTH - indent
    writer = _Writer(text, width=width, allow_unicode=True, sort_keys=False)
    node: Any = writer.represent_data({key: value})
    node.flow_style = False
    for name, each in node.value:
        _lay_out(each, 2, _chars(name) + 2, width, spread=spread)
    writer.open()
    writer.serialize(node)
    return [" " * indent + line if line else "" for line in text.getvalue().split("\n")[:-1]]


def _lay_out(node: Any, indent: int, column: float, width: int, *, spread: bool = False) -> None:
    """Let the parts of a value stand on lines of their own, unless it fits behind its key."""
    fits = column + _chars(node) <= width
    if isinstance(node, yaml.ScalarNode):
        if not fits and node.style != "|" and _FOLDED.fullmatch(node.value):
            node.style = ">"
        return
    node.flow_style = fits and not spread
    if node.flow_style:
        return
    for each in node.value:
        if isinstance(node, yaml.MappingNode):
            _lay_out(each[1], indent + 2, indent + _chars(each[0]) + 2, width)
        else:
            one_key = isinstance(each, yaml.MappingNode) and len(each.value) == 1
            _lay_out(each, indent + 2, indent + 2, width, spread=one_key)


def _chars(node: Any) -> float:
    """Return the length of a value on one line: a block of text has none."""
    if isinstance(node, yaml.ScalarNode):
        return inf if node.style == "|" else len(node.value) + 2 * bool(node.style)
    if isinstance(node, yaml.MappingNode):
        return sum(_chars(key) + _chars(value) + 4 for key, value in node.value)
    return sum(_chars(each) + 2 for each in node.value)


class _Writer(yaml.SafeDumper):
    """PyYAML's writer, with the items of a list indented, and with texts as people write them."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002, ARG002
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, _: Any) -> bool:
        return True

    def represent_number(self, number: int) -> Any:
        if not LOWEST <= number <= HIGHEST:
            raise _unwritable(f"the number {number:.4g} has more than 64 bits", "make it a text")
        return self.represent_int(number)

    def represent_text(self, text: str) -> Any:
        if HALF.search(text):
            raise half_of_a_pair()
        return self.represent_scalar(_TEXT, text, style=self._style_of(text))

    def _style_of(self, text: str) -> str | None:
        if "\n" in text and not _NOT_IN_A_BLOCK.search(text):
            return "|"
        if self._is_plain(text):
            return None
        has_marks = '"' in text or "\\" in text
        return "'" if has_marks and "'" not in text and text.isprintable() else '"'

    def _is_plain(self, text: str) -> bool:
        if not text or "\n" in text or _UNCLEAR.match(text) or HIDDEN.search(text):
            return False
        try:
            is_text = plain_value(text) == text
        except OverflowError:  # a number that is too large
            return False
        kind = self.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
        return is_text and kind == _TEXT and self.analyze_scalar(text).allow_block_plain


_TEXT = "tag:yaml.org,2002:str"
_Writer.add_representer(str, _Writer.represent_text)
_Writer.add_representer(int, _Writer.represent_number)


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
