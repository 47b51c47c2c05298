"""The mistakes of authors: pydantic's findings as messages with a place and a correction.

A message has the words of the file (text, list, mapping), never those of Python or JSON.
"""

import dataclasses
import difflib
import json
import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from simloop.errors import ScenarioError
from simloop.kernel.checks import written_name
from simloop.scenario.yaml import Document, Loc

PLAIN, FORM, LIST, NAMES = "<plain>", "<form>", "<list>", "<names>"
"""The tags of the forms of a value, as pydantic puts them into the place of a finding."""

UNKNOWN_KEY = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_MAPPING = frozenset({"model_type", "dataclass_type", "dict_type", "model_attributes_type"})
_WHOLE_NUMBER = frozenset({"int_type", "int_parsing", "int_from_float", "int_parsing_size"})
_WORD = re.compile(r"'([^']*)'")

_WORDS: Any = json.loads(Path(__file__).with_name("mistakes.json").read_text("utf-8"))
_SIMPLE: Mapping[str, str] = _WORDS["errors of pydantic 2"]
_EITHER: Mapping[str, tuple[str, str]] = _WORDS["keys of a reply with two forms"]
"""Keys of a reply with two forms; pydantic reports both, and neither report alone helps."""


def either(loc: tuple[str | int, ...]) -> tuple[str | int, ...] | None:
    """Return the loc of the two-form key that an error at `loc` concerns, or None."""
    depth = _OF_REPLIES.get(loc[0], 0) if loc else 0  # 0: a Reply made in Python
    return loc[: depth + 1] if len(loc) > depth + 1 and loc[depth] in _EITHER else None


_OF_REPLIES: dict[str | int, int] = {"model": 2, "summaries": 2, "models": 4}
"""The parts of a place before the key of a reply: `model.0` and `models.reviewer.replies.0`."""


def wording(error: Any) -> tuple[str, str]:
    """Return the message and the hint for one of pydantic's errors."""
    kind, given, limits = error["type"], error["input"], error.get("ctx", {})
    if (field := either(tuple(error["loc"]))) is not None:
        message, hint = _EITHER[str(field[-1])]
        return message, hint if field[-1] in ("call", "times") else _quotes(given) or hint
    if kind == "string_type":
        return "must be a text", _quotes(given)
    if kind in _WHOLE_NUMBER:
        plain = isinstance(given, str) and re.fullmatch(r"[-+]?[0-9_]+", given)
        return "must be a whole number", f"write {given.replace('_', '')}" if plain else ""
    if kind in _MAPPING:
        return "must be a mapping", "such as {key: value}"
    if kind == "list_type":
        return "must be a list", "such as [a, b]"
    if kind in ("literal_error", "enum"):
        words = _WORD.findall(limits["expected"])
        return f"must be {limits['expected']}", did_you_mean(str(given), words)
    simple = _SIMPLE.get(kind, error["msg"].removeprefix("Value error, "))
    return simple.format_map(limits) if kind in _SIMPLE else simple, ""


def _quotes(given: Any) -> str:
    return "put it in quotes" if isinstance(given, bool | int | float) else ""


def loc_of(error: Any) -> Loc:
    """Return the place of a finding; a check of a whole model names the wrong key."""
    key = error.get("ctx", {}).get("key")
    loc = tuple(part for part in error["loc"] if part not in {PLAIN, FORM, LIST, NAMES})
    if not key or error["type"] in UNKNOWN_KEY:  # a name of a loop may have dots in it
        return (*loc, key) if key else loc
    return (*loc, *(int(part) if part.isdigit() else part for part in key.split(".")))


def refusal(model: type[BaseModel], invalid: ValidationError, *, key: str = "") -> ScenarioError:
    """Return the mistakes in an object that is made in Python as one error."""
    found: dict[Loc, ScenarioError] = {}
    for error in invalid.errors(include_url=False):
        place = either(tuple(error["loc"])) or loc_of(error)
        message, hint = _said(model, place, error)
        path = ".".join(map(str, (key or model.__name__, *place)))
        found.setdefault(place, ScenarioError(message, key=path, hint=hint))
    return together(found.values())


def together(found: Iterable[ScenarioError]) -> ScenarioError:
    """Return the first of several mistakes, which has the others."""
    first, *others = found
    first.others = tuple(others)
    return first


def _said(model: Any, loc: Loc, error: Any) -> tuple[str, str]:
    if error["type"] in UNKNOWN_KEY:
        return "unknown key", nearest(model, loc)
    if error["type"] == "missing":
        return f"the key `{loc[-1]}` is missing", "add it"
    message, hint = wording(error)
    wanted = next(_models_at(model, loc), None) if error["type"] in _MAPPING else None
    if known := [*(_fields(wanted) or ())]:
        hint = f"such as {{{known[0]}: ...}}; known here: {', '.join(known)}"
    return message, hint


def nearest(model: Any, loc: Loc) -> str:
    """Return a hint: the key of `model` nearest to the unknown key at `loc`, or all its keys."""
    models = _models_at(model, loc[:-1])
    known = list(dict.fromkeys(key for each in models for key in _fields(each) or ()))
    return did_you_mean(str(loc[-1]), known) or f"known here: {', '.join(known)}"


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return a hint: the known word nearest to this one; empty if none is like it."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean `{close[0]}`?" if close else ""


def _models_at(model: Any, loc: Loc) -> Iterator[Any]:
    if (fields := _fields(model)) is None:
        is_group = typing.get_origin(model) in (list, dict)
        if loc or not is_group:  # a mapping of tools is no tool
            for argument in typing.get_args(model):
                yield from _models_at(argument, loc[1:] if is_group else loc)
    elif not loc:
        yield model
    elif loc[0] in fields:
        yield from _models_at(fields[str(loc[0])], loc[1:])


def _fields(model: Any) -> dict[str, Any] | None:
    if not isinstance(model, type):
        return None
    if issubclass(model, BaseModel):
        return {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    if dataclasses.is_dataclass(model):
        return {written_name(field.name): field.type for field in dataclasses.fields(model)}
    return None


def validated(document: Document, kind: Any) -> Any:
    """Return the content of a file as `kind`. Raises ScenarioError with each mistake's place."""
    try:  # as JSON: strict JSON accepts a word for an enum member; strict Python does not
        return TypeAdapter(kind).validate_json(json.dumps(document.data))
    except ValidationError as error:
        raise findings(document, error, kind) from None  # its text quotes the file unescaped


def findings(document: Document, invalid: ValidationError, model: Any) -> ScenarioError:
    """Return the mistakes of a file of `model` as one error, in the order of their places."""
    found: dict[tuple[bool, tuple[int, int]], ScenarioError] = {}
    for error in _one_form_each(document, invalid.errors(include_url=False)):
        loc, is_missing = loc_of(error), error["type"] == "missing"
        names_key = error["type"] in UNKNOWN_KEY or "key" in error.get("ctx", {})
        is_key = names_key or loc[-1:] == ("[key]",)  # pydantic's word for a key of a mapping
        message, hint = _said(model, loc, error)
        mistake = ScenarioError(message, key=document.key_path(loc), hint=hint)
        document.put_place(mistake, loc, key=is_key)
        # A missing key goes last, because its place is that of the whole mapping.
        found.setdefault((is_missing, document.locate(loc, key=is_key)), mistake)
    return together(found[place] for place in sorted(found))


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
