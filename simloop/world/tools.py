"""Tools: a name, a JSON Schema for the arguments, a function.

Not here: running them (tool_calls.py) and tools scripted in a file (scenario). The rule to keep:
the error text about wrong arguments is worded here, not by the validator, so that the same
run gives the same bytes with any version of that library.
"""

import functools
import json
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

import jsonschema_rs
import msgspec

from simloop.errors import ScenarioError
from simloop.messages import ToolSpec
from simloop.world.schema_size import MOST_SUBSCHEMAS, patterns_in, resolved_size
from simloop.world.user_function import UserFunction

Tools: TypeAlias = Mapping[str, Any] | Iterable[Any]
"""What a caller may give as tools: functions or Tools, in a list or by name."""

_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


class Tool:
    """One tool. `function` takes the arguments by name and returns text, JSON or a ToolResult.

    Without `parameters` the schema is read from the function's signature. `timeout_ms` overrides
    the tool execution policy. A reply that calls a `sequential` tool has its calls run one after
    the other, also where they would run in parallel. A Tool cannot be changed, because runs and
    steps share it. Raises ScenarioError for a schema that is none.
    """

    __slots__ = ("function", "sequential", "spec", "timeout_ms", "validator")

    function: UserFunction
    spec: ToolSpec
    timeout_ms: int | None
    sequential: bool
    validator: jsonschema_rs.Draft202012Validator

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str = "",
        description: str = "",
        parameters: Mapping[str, Any] | None = None,
        timeout_ms: int | None = None,
        sequential: bool = False,
    ) -> None:
        named = UserFunction(function, name)
        name = named.name
        schema = _signature_json(function) if parameters is None else canonical_json(parameters)
        set_once = functools.partial(object.__setattr__, self)
        set_once("function", named)
        set_once("spec", ToolSpec(name, description or _first_line(function), msgspec.Raw(schema)))
        set_once("validator", validator_of(schema, name))
        set_once("timeout_ms", timeout_ms)
        set_once("sequential", sequential)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Tool cannot be changed: make another one to replace its {name}")

    def with_function(self, function: UserFunction) -> "Tool":
        """Return this tool with another function."""
        return self._with("function", function)

    def named(self, name: str) -> "Tool":
        """Return this tool under another name."""
        return self._with("spec", msgspec.structs.replace(self.spec, name=name))

    def _with(self, attribute: str, value: object) -> "Tool":
        other = object.__new__(Tool)
        for name in self.__slots__:
            object.__setattr__(other, name, value if name == attribute else getattr(self, name))
        return other


def toolbox(tools: Tools) -> dict[str, Tool]:
    """Return tools by name, from functions or Tools, in a list or a mapping from names.

    Raises ScenarioError for a value that is no function, and for two tools of one name.
    """
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        hint = "put it in a list: tools=[function]"
        raise ScenarioError(f"tools are a list, not {_kind(tools)}", key="tools", hint=hint)
    named: Iterable[tuple[str, Any]]
    named = tools.items() if isinstance(tools, Mapping) else (("", tool) for tool in tools)
    made: dict[str, Tool] = {}
    for index, (name, each) in enumerate(named):
        key = f"tools.{name or index}"
        if not isinstance(name, str):
            hint = "give functions by name: tools={'look': look}"
            raise ScenarioError(f"the name of a tool is a text, not {name!r}", key=key, hint=hint)
        if not callable(each) and not isinstance(each, Tool):
            hint = "give functions, or Tool(function, name=...)"
            raise ScenarioError(f"a tool is a function, not {_kind(each)}", key=key, hint=hint)
        tool = each if isinstance(each, Tool) else Tool(each, name=name)
        if tool.spec.name in made:
            hint = "give one of them another name: Tool(function, name=...)"
            raise ScenarioError(f"two tools are called {tool.spec.name}", key=key, hint=hint)
        made[tool.spec.name] = tool
    return made


def _kind(value: object) -> str:
    return "a function" if callable(value) else type(value).__name__


def wrong_arguments(tool: Tool, arguments: Any) -> list[str]:
    """Return the errors in the arguments, one line each, in a fixed order."""
    if tool.validator.is_valid(arguments):
        return []
    schema = msgspec.json.decode(tool.spec.parameters)
    return sorted(_finding(error, schema) for error in tool.validator.iter_errors(arguments))


def canonical_json(value: Any) -> bytes:
    """Return JSON with sorted keys and no spaces; equal values give equal bytes.

    Raises TypeError or ValueError for values that JSON cannot express: objects, NaN, lone
    surrogates, cycles.
    """
    return _CANONICAL.encode(value).encode()


_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def _first_line(function: Callable[..., Any]) -> str:
    return (getattr(function, "__doc__", None) or "").strip().partition("\n")[0]


@functools.lru_cache(maxsize=256)
def _signature_json(function: Callable[..., Any]) -> bytes:
    return canonical_json(_signature_schema(function))


def _signature_schema(function: Callable[..., Any]) -> Mapping[str, Any]:
    # Only Python tools without a schema need pydantic; scripted ones must not pay its import.
    from pydantic import PydanticUserError, TypeAdapter  # noqa: PLC0415
    from pydantic.errors import PydanticSchemaGenerationError  # noqa: PLC0415

    try:
        schema = TypeAdapter[Any](cast("Any", function)).json_schema()
    except (PydanticUserError, PydanticSchemaGenerationError, ValueError, NameError):
        return _ANY_OBJECT
    return schema if schema.get("type") == "object" else _ANY_OBJECT


def _refuse_endless(schema: Any, name: str) -> None:
    """Raise ScenarioError for a schema that no validator gets through."""
    size = resolved_size(schema)
    if size is None:
        wrong = "a subschema refers to itself for the same value"
    elif size > MOST_SUBSCHEMAS:
        wrong = f"it has more than {MOST_SUBSCHEMAS:,} subschemas when its references are resolved"
    else:
        return
    raise ScenarioError(
        f"the parameters of tool {name} are not a JSON Schema that can be checked: {wrong}",
        key=f"tools.{name}.parameters",
        hint="let fewer subschemas refer to the same one",
    )


# `.{9999}` compiles to more than 10 MB, so a schema of 1 KB could take a gigabyte.
_PATTERN_BYTES = 30 * 2**20


@functools.lru_cache(maxsize=1024)
def validator_of(schema: bytes, name: str = "") -> jsonschema_rs.Draft202012Validator:
    """Return the validator of a schema; equal schemas share one, as building is slow."""
    decoded = msgspec.json.decode(schema)
    _refuse_endless(decoded, name)
    patterns = max(1, patterns_in(decoded))
    options = jsonschema_rs.FancyRegexOptions(size_limit=_PATTERN_BYTES // max(3, patterns))
    try:
        return jsonschema_rs.Draft202012Validator(
            schema.decode(), retriever=_refuse_reference, pattern_options=options
        )
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
        wrong = str(error).splitlines()[0]
        if wrong.endswith('is not a "regex"'):
            wrong += f", or the {patterns} patterns are too large together"
        raise ScenarioError(
            f"the parameters of tool {name} are not a JSON Schema: {wrong}",
            key=f"tools.{name}.parameters",
        ) from error


def _refuse_reference(uri: str) -> Any:
    raise ValueError(f"remote references are refused: {uri}")


def _finding(error: jsonschema_rs.ValidationError, schema: Any) -> str:
    """Return the text of one error: the place, the keyword of the schema and its value."""
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
