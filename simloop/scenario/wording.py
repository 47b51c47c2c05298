"""What pydantic finds wrong, in the words of people who write scenario files.

Not here: where it stands in the file (loader.py). The rule to keep: say what must be there instead
of what is not, in the words of the file (text, list, mapping), never in those of Python or JSON.
"""

import difflib
import re
from typing import Any

_MAPPING = frozenset({"model_type", "dataclass_type", "dict_type", "model_attributes_type"})
_WHOLE_NUMBER = frozenset({"int_type", "int_parsing", "int_from_float", "int_parsing_size"})
_WORD = re.compile(r"'([^']*)'")

_EITHER = {
    "say": ("must be a text or a list of texts", ""),
    "think": ("must be a text or a list of texts", ""),
    "call": (
        "must be a mapping from tools to their arguments, or a list of such mappings",
        "such as {read_file: {path: README.md}}",
    ),
    "times": ("must be a whole number from 1, or always", ""),
}
"""Keys of a reply that take two forms: pydantic reports both, and neither alone helps."""


def either(loc: tuple[str | int, ...]) -> tuple[str | int, ...] | None:
    """The loc of the key with two forms that an error at `loc` is about, if it is about one."""
    about = len(loc) > 3 and loc[0] in ("model", "summaries") and loc[2] in _EITHER  # noqa: PLR2004
    return loc[:3] if about else None


def wording(error: Any) -> tuple[str, str]:
    """The message and the hint for one of pydantic's errors."""
    kind, given, limits = error["type"], error["input"], error.get("ctx", {})
    field = either(tuple(error["loc"]))
    if field is not None:
        message, hint = _EITHER[str(field[2])]
        return message, hint if field[2] in ("call", "times") else _quotes(given)
    if kind == "string_type":
        return "must be a text", _quotes(given)
    if kind in _WHOLE_NUMBER:
        plain = isinstance(given, str) and re.fullmatch(r"[-+]?[0-9_]+", given)
        return "must be a whole number", f"write {given.replace('_', '')}" if plain else ""
    if kind in _MAPPING:
        return "must be a mapping", "such as {key: value}, or a key on each line below"
    if kind == "list_type":
        return "must be a list", "such as [a, b], or lines below that start with -"
    if kind in ("literal_error", "enum"):
        words = _WORD.findall(limits["expected"])
        close = difflib.get_close_matches(str(given), words, n=1)
        return f"must be {limits['expected']}", f"did you mean {close[0]}?" if close else ""
    simple = _SIMPLE.get(kind, error["msg"].removeprefix("Value error, "))
    return simple.format_map(limits) if kind in _SIMPLE else simple, ""


_SIMPLE = {
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "finite_number": "must be a finite number",
}


def _quotes(given: Any) -> str:
    return "put it in quotes" if isinstance(given, bool | int | float) else ""
