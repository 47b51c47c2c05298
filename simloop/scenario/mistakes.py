"""The mistakes of authors: pydantic's findings as messages with a place and a correction.

A message states what must be there, in the words of the file (text, list, mapping), never in those
of Python or JSON.
"""

import dataclasses
import difflib
import re
import typing
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from simloop.errors import ScenarioError
from simloop.kernel.checks import written_name
from simloop.scenario.yaml import Document, Loc

PLAIN, FORM = "<plain>", "<form>"
"""The tags of a value's two forms, as pydantic puts them into the place of a finding."""

# A file can also use lines; a call in Python cannot.
_LINES = (
    "such as {key: value}, or a key on each line below",
    "such as [a, b], or lines below that start with -",
)
UNKNOWN_KEY = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_MAPPING = frozenset({"model_type", "dataclass_type", "dict_type", "model_attributes_type"})
_WHOLE_NUMBER = frozenset({"int_type", "int_parsing", "int_from_float", "int_parsing_size"})
_WORD = re.compile(r"'([^']*)'")

_OF_THE_RUN = (("tools",), ("hooks",), ("model",))
"""Keys of a scenario that are arguments of a run too, which takes functions."""

_EITHER = {
    "say": ("must be a text or a list of texts", ""),
    "think": ("must be a text or a list of texts", ""),
    "call": (
        "must be a mapping from tools to their arguments, or a list of such mappings",
        "such as {read_file: {path: README.md}}",
    ),
    "times": ("must be a whole number from 1, or always", ""),
}
"""Keys of a reply with two forms; pydantic reports both, and neither report alone helps."""


def either(loc: tuple[str | int, ...]) -> tuple[str | int, ...] | None:
    """Return the loc of the two-form key that an error at `loc` concerns, or None."""
    if len(loc) > 3 and loc[0] in ("model", "summaries") and loc[2] in _EITHER:  # noqa: PLR2004
        return loc[:3]
    return loc[:1] if len(loc) > 1 and loc[0] in _EITHER else None  # a Reply made in Python


def wording(error: Any) -> tuple[str, str]:
    """Return the message and the hint for one of pydantic's errors."""
    kind, given, limits = error["type"], error["input"], error.get("ctx", {})
    field = either(tuple(error["loc"]))
    if field is not None:
        message, hint = _EITHER[str(field[-1])]
        return message, hint if field[-1] in ("call", "times") else _quotes(given)
    if kind == "string_type":
        return "must be a text", _quotes(given)
    if kind in _WHOLE_NUMBER:
        plain = isinstance(given, str) and re.fullmatch(r"[-+]?[0-9_]+", given)
        return "must be a whole number", f"write {given.replace('_', '')}" if plain else ""
    if kind in _MAPPING:
        return "must be a mapping", _LINES[0]
    if kind == "list_type":
        return "must be a list", _LINES[1]
    if kind in ("literal_error", "enum"):
        words = _WORD.findall(limits["expected"])
        close = difflib.get_close_matches(str(given), words, n=1)
        return f"must be {limits['expected']}", f"did you mean `{close[0]}`?" if close else ""
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


def loc_of(error: Any) -> Loc:
    """Return the place of a finding; a check of a whole model names the wrong key."""
    key = error.get("ctx", {}).get("key")
    loc = tuple(part for part in error["loc"] if part not in {PLAIN, FORM})
    if not key or error["type"] in UNKNOWN_KEY:  # a name of a loop may have dots in it
        return (*loc, key) if key else loc
    return (*loc, *(int(part) if part.isdigit() else part for part in key.split(".")))


def refusal(model: type[BaseModel], invalid: ValidationError, *, key: str = "") -> ScenarioError:
    """Return the mistakes in an object that is made in Python as one error."""
    found: dict[Loc, ScenarioError] = {}
    for error in invalid.errors(include_url=False):
        place = either(tuple(error["loc"])) or loc_of(error)
        found.setdefault(place, _refusal(model, error, place, key or model.__name__))
    first, *others = found.values()
    first.others = tuple(others)
    return first


def _refusal(model: type[BaseModel], error: Any, loc: Loc, key: str) -> ScenarioError:
    message, hint = wording(error)
    if error["type"] in UNKNOWN_KEY:
        message, hint = "unknown key", nearest(model, loc)
    elif error["type"] == "missing":
        message, hint = "this is missing", f"add {loc[-1]}=..."
    elif loc[:1] in _OF_THE_RUN and _holds_functions(error["input"]):
        hint = f"give functions to the run: run(scenario, {loc[0]}=...)"
    else:
        hint = hint_of(model, loc, error, hint)
    if hint in _LINES:
        hint = hint.partition(", or ")[0]
    return ScenarioError(message, key=".".join(map(str, (key, *loc))), hint=hint)


def _holds_functions(given: Any) -> bool:
    items = given if isinstance(given, list | tuple) and given else [given]
    return all(map(callable, items))


def hint_of(model: Any, loc: Loc, error: Any, hint: str) -> str:
    """Return the hint for an error: if it needs a mapping of known keys, one that names them."""
    wanted = next(_models_at(model, loc), None) if error["type"] in _MAPPING else None
    known = _keys_of(wanted)
    return f"such as {{{known[0]}: ...}}; known here: {', '.join(known)}" if known else hint


def nearest(model: Any, loc: Loc) -> str:
    """Return a hint: the key of `model` nearest to the unknown key at `loc`, or all its keys."""
    models = _models_at(model, loc[:-1])
    known = list(dict.fromkeys(key for each in models for key in _keys_of(each)))
    key = str(loc[-1])
    close = difflib.get_close_matches(key, known, n=1)
    return f"did you mean `{close[0]}`?" if close else f"known here: {', '.join(known)}"


def _models_at(model: Any, loc: Loc) -> Iterator[Any]:
    """Yield the models that `loc` leads to, through lists, mappings and unions."""
    fields = _fields(model)
    if fields is None:
        is_group = _holds_items(model)
        if loc or not is_group:  # a mapping of tools is no tool
            for argument in typing.get_args(model):
                yield from _models_at(argument, loc[1:] if is_group else loc)
    elif not loc:
        yield model
    elif loc[0] in fields:
        yield from _models_at(fields[str(loc[0])], loc[1:])


def _keys_of(model: Any) -> list[str]:
    return list(_fields(model) or ())


def _holds_items(model: Any) -> bool:
    return typing.get_origin(model) in (list, dict)


def _fields(model: Any) -> dict[str, Any] | None:
    if not isinstance(model, type):
        return None
    if issubclass(model, BaseModel):
        fields = model.model_fields.items()
        return {field.alias or name: field.annotation for name, field in fields}
    if dataclasses.is_dataclass(model):
        return {written_name(field.name): field.type for field in dataclasses.fields(model)}
    return None


# ------------------------------------------------------------------ in a file


def findings(
    document: Document,
    invalid: ValidationError,
    model: Any,
    others: Iterable[ScenarioError] = (),
) -> ScenarioError:
    """Return the mistakes of a file of `model`, and `others`, as one error, by their places."""
    found: dict[tuple[int, int], ScenarioError] = {}
    missing: dict[tuple[int, int], ScenarioError] = {}
    errors = _one_form_each(document, invalid.errors(include_url=False))
    for error in errors:
        place = _place(document, error)
        # A missing key goes last, because its place is that of the whole mapping.
        group = missing if error["type"] == "missing" else found
        group.setdefault(place, _finding(document, error, model))
    for mistake in others:
        found.setdefault((mistake.line or 0, mistake.column or 0), mistake)
    order = (*sorted(found), *sorted(missing.keys() - found.keys()))
    first, *rest = ((missing | found)[place] for place in order)
    first.others = tuple(rest)
    return first


def _one_form_each(document: Document, errors: list[Any]) -> list[Any]:
    """Return the errors with only the deepest one for each key that has two forms."""
    furthest: dict[Loc, Any] = {}
    for error in errors:
        loc = tuple(error["loc"])
        group = either(loc) or loc
        best = furthest.get(group)
        depth = len(document.key_path(loc).split("."))
        if best is None or depth > len(document.key_path(tuple(best["loc"])).split(".")):
            furthest[group] = error
    return list(furthest.values())


def _place(document: Document, error: Any) -> tuple[int, int]:
    return document.locate(loc_of(error), key=_about_the_key(error))


def _about_the_key(error: Any) -> bool:
    return error["type"] in UNKNOWN_KEY or "key" in error.get("ctx", {})


def _finding(document: Document, error: Any, model: Any) -> ScenarioError:
    loc, kind = loc_of(error), error["type"]
    line, column = _place(document, error)
    message, hint = wording(error)
    if error["type"] in UNKNOWN_KEY:
        message, hint = "unknown key", nearest(model, loc)
    elif kind == "missing":
        message, hint = f"the key `{loc[-1]}` is missing", "add it"
    else:
        hint = hint_of(model, loc, error, hint)
    return ScenarioError(
        message,
        path=document.path,
        line=line,
        column=column,
        key=document.key_path(loc),
        hint=hint,
    )
