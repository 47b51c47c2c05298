"""Tools: a name, a JSON Schema for the arguments, a function; and the reading of arguments.

Errors are worded here and not by the validator, so that they are equal with any version of it.
"""

import copy
import functools
import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, cast
from urllib.parse import unquote

import jsonschema_rs
import msgspec
from msgspec import Struct

from simloop.errors import ScenarioError
from simloop.messages import ToolSpec
from simloop.world.user_functions import UserFunction

Tools: TypeAlias = Mapping[str, Any] | Iterable[Any]
"""What a caller may give as tools: functions or Tools, in a list or by name."""
_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_decode = msgspec.json.Decoder().decode
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_EXACT = 2**53


class Tool:
    """One tool. `function` takes the arguments by name and returns text, JSON or a ToolResult.

    Without `parameters` the schema is read from the function's signature. `timeout_ms` overrides
    the tool execution policy. A reply that calls a `sequential` tool has its calls run one after
    the other, also where they would run in parallel. Runs and steps share a Tool, so nothing
    changes it. Raises ScenarioError for a schema that is none.
    """

    __slots__ = ("function", "sequential", "spec", "timeout_ms", "validator")

    def __init__(
        self, function: Callable[..., Any], *, name: str = "", description: str = "",
        parameters: Mapping[str, Any] | None = None, timeout_ms: int | None = None,
        sequential: bool = False,
    ) -> None:  # fmt: skip
        self.function = UserFunction(function, name)
        name = self.function.name
        schema = _signature_json(function) if parameters is None else canonical_json(parameters)
        first_line = (getattr(function, "__doc__", None) or "").strip().partition("\n")[0]
        self.spec = ToolSpec(name, description or first_line, msgspec.Raw(schema))
        self.validator = validator_of(schema, name)
        self.timeout_ms, self.sequential = timeout_ms, sequential

    def with_function(self, function: UserFunction) -> "Tool":
        other = copy.copy(self)
        other.function = function
        return other

    def named(self, name: str) -> "Tool":
        other = copy.copy(self)
        other.spec = msgspec.structs.replace(self.spec, name=name)
        return other


def object_schema(properties: Mapping[str, Any], required: Iterable[str]) -> dict[str, Any]:
    """Return the JSON Schema of arguments with these names, and no others."""
    named = {"properties": properties, "required": [*required]}
    return {"type": "object", **named, "additionalProperties": False}


def toolbox(tools: Tools) -> dict[str, Tool]:
    """Return functions and Tools by name. Raises ScenarioError for others, and for equal names."""
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        hint = "put it in a list: tools=[function]"
        kind = "a function" if callable(tools) else type(tools).__name__
        raise ScenarioError(f"tools are a list, not {kind}", key="tools", hint=hint)
    named: Iterable[tuple[str, Any]]
    named = tools.items() if isinstance(tools, Mapping) else (("", tool) for tool in tools)
    made: dict[str, Tool] = {}
    for index, (name, each) in enumerate(named):
        key = f"tools.{name or index}"
        if not callable(each) and not isinstance(each, Tool):
            hint = "give functions, or Tool(function, name=...)"
            kind = type(each).__name__
            raise ScenarioError(f"a tool is a function, not {kind}", key=key, hint=hint)
        tool = each if isinstance(each, Tool) else Tool(each, name=name)
        if tool.spec.name in made:
            hint = "give one of them another name: Tool(function, name=...)"
            raise ScenarioError(f"two tools are called {tool.spec.name}", key=key, hint=hint)
        made[tool.spec.name] = tool
    return made


def wrong_arguments(tool: Tool, arguments: Any) -> list[str]:
    """Return the errors in the arguments, one line each, in a fixed order."""
    if tool.validator.is_valid(arguments):
        return [] if type(arguments) is dict else ["arguments: must be an object"]
    schema = msgspec.json.decode(tool.spec.parameters)
    return sorted(_finding(error, schema) for error in tool.validator.iter_errors(arguments))


def canonical_json(value: Any) -> bytes:
    """Return JSON with sorted keys and no spaces. Raises TypeError or ValueError if it is none."""
    return _JSON.encode(value).encode()


@functools.lru_cache(maxsize=256)
def _signature_json(function: Callable[..., Any]) -> bytes:
    # Only Python tools without a schema need pydantic; scripted ones must not pay its import.
    from pydantic import PydanticUserError, TypeAdapter  # noqa: PLC0415
    from pydantic.errors import PydanticSchemaGenerationError  # noqa: PLC0415

    try:
        schema = TypeAdapter[Any](cast("Any", function)).json_schema()
    except (PydanticUserError, PydanticSchemaGenerationError, ValueError, NameError):
        schema = {}
    return canonical_json(schema if schema.get("type") == "object" else {"type": "object"})


MOST_SUBSCHEMAS = 50_000
"""The largest resolved size of a schema that is checked; a failed subschema takes up to 10 KB."""

# Their subschemas are for the value that the schema around them is for, and not for a part of it.
_SAME_VALUE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")


def _refuse_endless(schema: Any, name: str) -> None:
    """Raise ScenarioError if too many subschemas are for one value.

    A reference counts as the subschemas that it names: twenty levels that name the next one twice
    have a million. One that names itself for the same value, as in `{"$ref": "#"}`, has no end.
    """

    @functools.cache
    def size_of(reference: str) -> int:
        return size(named_by(reference, schema))

    def size(inner: Any) -> int:
        if not isinstance(inner, dict):
            return 1
        reference = inner.get("$ref")
        is_local = isinstance(reference, str) and reference.startswith("#")
        return 1 + sum(map(size, _same_value(inner))) + (size_of(reference) if is_local else 0)

    try:
        is_endless = any(size(each) > MOST_SUBSCHEMAS for each in _dicts(schema))
    except RecursionError:
        is_endless = True
    if is_endless:
        wrong = f"the parameters of tool {name} are not a JSON Schema that can be checked"
        why = f"it has more than {MOST_SUBSCHEMAS:,} subschemas when its references are resolved"
        hint = "let fewer subschemas refer to the same one, and none to itself"
        raise ScenarioError(f"{wrong}: {why}", key=f"tools.{name}.parameters", hint=hint)


def _same_value(schema: Mapping[str, Any]) -> Iterator[Any]:
    for key in _SAME_VALUE:
        inner = schema.get(key, ())
        yield from inner if isinstance(inner, list) else (inner,) if inner else ()
    for key in ("dependentSchemas", "dependencies"):
        inner = schema.get(key)
        yield from (each for each in inner.values() if isinstance(each, dict)) if inner else ()


def named_by(reference: str, schema: Any) -> Any:
    """Return what a JSON pointer names; None if there is nothing, which the validator refuses."""
    try:
        for step in unquote(reference).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            schema = schema[int(name)] if isinstance(schema, list) else schema[name]
    except (LookupError, TypeError, ValueError):
        return None
    return schema


def _dicts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the subschemas, and what else is an object, without recursion for deep ones."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


@functools.lru_cache(maxsize=1024)
def validator_of(schema: bytes, name: str = "") -> jsonschema_rs.Draft202012Validator:
    """Return the validator of a schema; equal schemas share one, as building is slow."""
    _refuse_endless(msgspec.json.decode(schema), name)
    try:
        return jsonschema_rs.Draft202012Validator(schema.decode(), retriever=_refuse_reference)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        wrong, why = f"the parameters of tool {name} are not a JSON Schema", str(error).splitlines()
        raise ScenarioError(f"{wrong}: {why[0]}", key=f"tools.{name}.parameters") from error


def _refuse_reference(uri: str) -> Any:
    raise ValueError(f"remote references are refused: {uri}")


def _finding(error: jsonschema_rs.ValidationError, schema: Any) -> str:
    place = ".".join(str(part) for part in error.instance_path) or "arguments"
    keyword = str(error.schema_path[-1]) if error.schema_path else "the schema"
    if keyword == "required":
        return f"{place}: {getattr(error.kind, 'property', 'a property')} is missing"
    if keyword == "additionalProperties":
        names = sorted(map(str, getattr(error.kind, "unexpected", ())))
        return f"{place}: not known: {', '.join(names)}"
    try:
        value = canonical_json(functools.reduce(operator.getitem, error.schema_path, schema))
    except (LookupError, TypeError):  # the path begins at an `$id` within the schema
        return f"{place}: must have the {keyword} of its schema"
    return f"{place}: must have {keyword} {value.decode()[:200]}"


class ToolServer(Struct, frozen=True):
    """The course of the connections of one world."""

    lost_calls: frozenset[int] = frozenset()  # counted from 1: the connection is lost in them
    listed_ns: Mapping[str, int] = {}  # when a tool appears in the list, and when it leaves it;
    unlisted_ns: Mapping[str, int] = {}  # a tool in neither is always in the list

    def lists(self, tool: str, at_ns: int) -> bool:
        return self.listed_ns.get(tool, at_ns) <= at_ns < self.unlisted_ns.get(tool, at_ns + 1)

    def changes_after(self, at_ns: int) -> list[int]:
        times = {*self.listed_ns.values(), *self.unlisted_ns.values()}
        return sorted(time for time in times if time > at_ns)


def read_arguments(tool: Tool, text: str, *, convert: bool = False) -> tuple[Any, str, str]:
    """Return the arguments, converted if asked, their JSON, and the error for the model."""
    try:
        arguments = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {}, text, "Error: Invalid parameters\narguments: not valid JSON"
    if not convert:
        return arguments, text, _complaint(tool, arguments)
    made = converted(tool, arguments)
    shown = text if made == arguments else canonical_json(made).decode()
    return made, shown, _complaint(tool, made)


def read_again(tool: Tool, arguments: dict[str, Any], *, check: bool) -> tuple[Any, str, str]:
    """Return the arguments that hooks may have changed, their JSON, and the error for the model."""
    try:
        shown = canonical_json(arguments)
    except (TypeError, ValueError, RecursionError):
        return {}, "", "Error: Invalid parameters\narguments: a hook made them no JSON"
    arguments = msgspec.json.decode(shown)
    return arguments, shown.decode(), _complaint(tool, arguments) if check else ""


def _complaint(tool: Tool, arguments: Any) -> str:
    wrong = wrong_arguments(tool, arguments)
    return "\n".join(["Error: Invalid parameters", *wrong]) if wrong else ""


def converted(tool: Tool, arguments: Any) -> Any:
    """Return `arguments` with each value converted to the one type that the schema has for it.

    The rules are those of pi-agent-core 0.87.1, observed by running it: an optional null is left
    out, and a value that no rule fits stays as it is, for the validation to refuse. The members of
    unions are not tried.
    """
    return _convert(arguments, msgspec.json.decode(tool.spec.parameters))


def _convert(value: Any, schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, dict) and schema.get("type") == "object":
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        optional = {name for name in known if name not in schema.get("required", ())}
        return {
            name: _convert(item, known.get(name, others))
            for name, item in value.items()
            if not (item is None and name in optional and _has_type(known[name]))
        }
    if isinstance(value, list) and schema.get("type") == "array":
        return [_convert(item, schema.get("items")) for item in value]
    return _convert_one(value, schema.get("type"))


def _has_type(schema: Any) -> bool:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return isinstance(kind, str) and kind != "null"


def _convert_one(value: Any, kind: Any) -> Any:
    match kind, value:
        case "number" | "integer", None | bool():
            return int(bool(value))
        case "number" | "integer", str():
            return _to_number(value, whole=kind == "integer")
        case "boolean", None:
            return False
        case "boolean", "true" | "false":
            return value == "true"
        case "boolean", 0 | 1:
            return bool(value)
        case "string", None:
            return ""
        case "string", bool():
            return str(value).lower()
        case "string", float() if value == int(value):
            return str(int(value))
        case "string", int() | float():
            return str(value)
        case "null", "" | 0:
            return None
        case _:
            return value


def _to_number(text: str, *, whole: bool) -> Any:
    if not _DECIMAL.fullmatch(text.strip()):
        return text
    number = float(text)
    if not math.isfinite(number) or (whole and number != int(number)):
        return text
    return int(number) if number == int(number) and abs(number) < _EXACT else number
