"""The arguments of a tool call: read, converted, validated, and read again after hooks.

A tool gets the arguments that the trace shows. The rules of the conversion are those of
pi-agent-core 0.87.1 for plain JSON Schema, observed by running it: a value that no rule fits stays
as it is, and the validation refuses it.
"""

import copy
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simloop.errors import ScenarioError
from simloop.world.tools import Tool, canonical_json, validator_of, wrong_arguments

_decode = msgspec.json.Decoder().decode


def read_arguments(tool: Tool, text: str, *, convert: bool = False) -> tuple[Any, str, str]:
    """Return the arguments, their JSON, and the error for the model (document 001, step 3.1).

    `convert` changes arguments of the wrong type to the types of the schema.
    """
    try:
        arguments = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}, text, "Error: Invalid parameters\narguments: not valid JSON"
    if not convert:
        return arguments, text, _complaint(tool, arguments)
    made = converted(tool, arguments)
    shown = text if made == arguments else canonical_json(made).decode()
    return made, shown, _complaint(tool, made)


def read_again(
    tool: Tool, arguments: dict[str, Any], *, check: bool
) -> tuple[dict[str, Any], str, str]:
    """Read the arguments that hooks may have changed; `check` validates them.

    Returns the arguments, their JSON, and the error for the model.
    """
    try:
        shown = canonical_json(arguments)
    except (TypeError, ValueError, RecursionError):
        return {}, "", "Error: Invalid parameters\narguments: a hook made them no JSON"
    arguments = msgspec.json.decode(shown)
    return arguments, shown.decode(), _complaint(tool, arguments) if check else ""


def _complaint(tool: Tool, arguments: Any) -> str:
    wrong = wrong_arguments(tool, arguments)
    if not wrong and not isinstance(arguments, dict):
        wrong = ["arguments: must be an object"]
    return "\n".join(["Error: Invalid parameters", *wrong]) if wrong else ""


_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_EXACT = 2**53


def converted(tool: Tool, arguments: Any) -> Any:
    """Return `arguments` with each value converted to its type in the schema of `tool`.

    The given arguments are not changed.
    """
    schema = msgspec.json.decode(tool.spec.parameters)
    arguments = copy.deepcopy(arguments)
    _drop_nulls(arguments, schema)
    return _convert(arguments, schema)


def _drop_nulls(value: Any, schema: Any) -> None:
    if not isinstance(schema, Mapping):
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            _drop_nulls(item, _schema_of_item(schema, index))
        return
    properties = schema.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, Mapping):
        return
    for name, inner in properties.items():
        if name not in value:
            continue
        optional = name not in schema.get("required", ())
        known = isinstance(inner, Mapping) and "$ref" not in inner
        if value[name] is None and optional and known and not _fits(None, inner):
            del value[name]
        else:
            _drop_nulls(value[name], inner)


def _convert(value: Any, schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return value
    for part in schema.get("allOf", ()):
        value = _convert(value, part)
    for union in ("anyOf", "oneOf"):
        if isinstance(schema.get(union), list):
            value = _convert_to_member(value, schema[union])
    kinds = _kinds(schema)
    if not (len(kinds) > 1 and any(_is_a(value, kind) for kind in kinds)):
        value = _convert_to_first(value, kinds)
    if "object" in kinds and isinstance(value, dict):
        return _convert_properties(value, schema)
    if "array" in kinds and isinstance(value, list):
        return [_convert(item, _schema_of_item(schema, index)) for index, item in enumerate(value)]
    return value


def _convert_properties(value: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties")
    return {name: _convert(item, properties.get(name, others)) for name, item in value.items()}


def _convert_to_member(value: Any, schemas: Sequence[Any]) -> Any:
    """Return the value converted to the first member of a union that accepts it.

    A value that is valid for any member stays as it is.
    """
    if any(_fits(value, schema) for schema in schemas):
        return value
    for schema in schemas:
        candidate = _convert(copy.deepcopy(value), schema)
        if _fits(candidate, schema):
            return candidate
    return value


def _convert_to_first(value: Any, kinds: Sequence[str]) -> Any:
    for kind in kinds:
        candidate = _convert_one(value, kind)
        if type(candidate) is not type(value) or candidate != value:
            return candidate
    return value


def _convert_one(value: Any, kind: str) -> Any:
    match kind:
        case "number" | "integer":
            return _to_number(value, whole=kind == "integer")
        case "boolean":
            return _to_boolean(value)
        case "string":
            return _to_string(value)
        case "null":
            is_empty = isinstance(value, str | bool | int | float) and value in ("", 0)
            return None if is_empty else value
        case _:
            return value


def _to_number(value: Any, *, whole: bool) -> Any:
    if value is None or isinstance(value, bool):
        return int(bool(value))
    if not isinstance(value, str) or not _DECIMAL.fullmatch(value.strip()):
        return value
    number = float(value)
    if not math.isfinite(number) or (whole and number != int(number)):
        return value
    return int(number) if number == int(number) and abs(number) < _EXACT else number


def _to_boolean(value: Any) -> Any:
    if value is None:
        return False
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value, value)
    return bool(value) if isinstance(value, int | float) and value in {0, 1} else value


def _to_string(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value) if isinstance(value, int | float) else value


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    kind = schema.get("type")
    return [kind] if isinstance(kind, str) else list(kind or ())


def _is_a(value: Any, kind: str) -> bool:
    return _fits(value, {"type": kind})


def _fits(value: Any, schema: Any) -> bool:
    try:
        return bool(validator_of(canonical_json(schema)).is_valid(value))
    except ScenarioError:
        return False


def _schema_of_item(schema: Mapping[str, Any], index: int) -> Any:
    items = schema.get("items")
    if not isinstance(items, list):
        return items
    return items[index] if index < len(items) else None
