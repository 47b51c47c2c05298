"""Tools: read from a function or given with a schema, and worded the same in every version."""

import copy
import json
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from incases import in_cases

from simloop import ScenarioError, parse_scenario
from simloop.world.tools import Tool, canonical_json, converted, wrong_arguments


def read(path: str, limit: int = 10) -> str:
    """Read a file.

    Not all of it.
    """
    return path[:limit]


def schema_of(function: Callable[..., Any]) -> Any:
    return msgspec.json.decode(Tool(function).spec.parameters)


def findings(schema: dict[str, Any], arguments: Any) -> list[str]:
    return wrong_arguments(Tool(read, parameters=schema), arguments)


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


# ------------------------------------------------------------------------- a tool


def test_a_tool_is_described_by_the_first_line_of_the_docstring() -> None:
    assert Tool(read).spec.description == "Read a file."


def test_the_schema_is_read_from_the_signature() -> None:
    schema = schema_of(read)
    assert (schema["required"], sorted(schema["properties"])) == (["path"], ["limit", "path"])


def nothing_annotated(path, limit=3):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    return path, limit


def takes_a_socket(socket: "NotDefinedAnywhere") -> str:  # type: ignore[name-defined]  # noqa: F821
    return str(socket)


@pytest.mark.parametrize("function", [nothing_annotated, takes_a_socket, len, lambda **_: ""])
def test_any_function_gives_some_schema_of_an_object(function: Callable[..., Any]) -> None:
    assert schema_of(function)["type"] == "object"


@pytest.mark.parametrize("schema", [{"type": "no such type"}, {"required": 5}, {"pattern": "("}])
def test_a_schema_that_is_none_is_an_error_that_names_the_tool(schema: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match=re.escape("tools.read.parameters")):
        Tool(read, parameters=schema)


@pytest.mark.parametrize("uri", ["https://example.com/s.json", "file:///etc/passwd", "other.json"])
def test_a_remote_reference_is_refused(uri: str) -> None:
    with pytest.raises(ScenarioError, match="not a JSON Schema"):
        Tool(read, parameters={"$ref": uri})


def test_a_reference_within_the_schema_is_followed() -> None:
    schema = {"$ref": "#/$defs/path", "$defs": {"path": closed(path={"type": "string"})}}
    assert findings(schema, {"path": 3}) == ['path: must have type "string"']


def test_of_a_referred_schema_with_an_id_of_its_own_only_the_keyword_is_said() -> None:
    own = {"$id": "count", "minimum": 3}
    schema = {**closed(n={"$ref": "count"}), "$defs": {"count": own}}
    assert findings(schema, {"n": 1}) == ["n: must have the minimum of its schema"]


# ------------------------------------------------------------------------- a toolbox


# ------------------------------------------------------------------------- wrong arguments


@pytest.mark.parametrize(
    ("schema", "arguments", "lines"),
    [
        (closed(n={"type": "integer"}), {"n": "x"}, ['n: must have type "integer"']),
        (closed(n={"type": ["integer", "null"]}), {"n": 1.5},
         ['n: must have type ["integer","null"]']),
        (closed(n={"minimum": 3}), {"n": 1}, ["n: must have minimum 3"]),
        (closed(n={"enum": ["a", "b"]}), {"n": "c"}, ['n: must have enum ["a","b"]']),
        (closed(n={"pattern": "^a"}), {"n": "b"}, ['n: must have pattern "^a"']),
        (closed(), {"b": 1, "a": 2}, ["arguments: not known: a, b"]),
        (closed(o=closed(n={"type": "integer"})), {"o": {"n": "x"}},
         ['o.n: must have type "integer"']),
        (closed(l={"items": {"type": "integer"}}), {"l": [1, "x"]},
         ['l.1: must have type "integer"']),
        ({"type": "object", "required": ["b", "a"]}, {},
         ["arguments: a is missing", "arguments: b is missing"]),
        ({"type": "object"}, [], ['arguments: must have type "object"']),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_our_words(
    schema: dict[str, Any], arguments: Any, lines: list[str]
) -> None:
    assert findings(schema, arguments) == lines


# ------------------------------------------------------------------------- canonical JSON


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), st.integers()))
def test_equal_values_give_equal_bytes(value: dict[str, int]) -> None:
    backwards = dict(reversed(value.items()))
    assert canonical_json(backwards) == canonical_json(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"n": float("-inf")}])
def test_numbers_that_json_does_not_have_are_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(value)


STRING = {"type": "string"}
AGAIN = {"$ref": "#"}


def chain(length: int, keyword: str = "anyOf") -> dict[str, Any]:
    """A schema in which each level names the next one twice."""
    levels = {str(n): {keyword: [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(length)}
    return {"$defs": {**levels, str(length): STRING}, "$ref": "#/$defs/0"}


TREE = {"properties": {"left": {"anyOf": [AGAIN, STRING]}, "right": {"anyOf": [AGAIN, STRING]}}}


@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf"])
def test_a_schema_that_doubles_at_each_level_is_refused_before_it_is_compiled(keyword: str) -> None:
    with pytest.raises(ScenarioError, match="more than 50,000 subschemas") as caught:
        Tool(lambda: None, name="look", parameters=chain(300, keyword))
    assert caught.value.key == "tools.look.parameters"


@pytest.mark.parametrize("schema", [TREE, {"properties": {"not": AGAIN}}])
def test_a_schema_that_refers_to_itself_for_a_part_of_the_value_is_checked(schema: Any) -> None:
    assert wrong_arguments(Tool(lambda: None, name="look", parameters=schema), {"left": "a"}) == []


def test_a_file_with_such_a_schema_is_refused_with_its_place() -> None:
    text = f"prompt: x\ntools:\n  look: {{json_schema: {json.dumps(chain(22))}}}\n"
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "a.yaml")
    assert str(caught.value).startswith("a.yaml:3:10: tools.look.json_schema: ")
    assert "it has more than 50,000 subschemas" in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        AGAIN,
        {"allOf": [AGAIN]},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"not": {"$ref": "#/$defs/a~1b"}}}},
        {"dependentSchemas": {"a": AGAIN}},
    ],
)
def test_a_schema_that_refers_to_itself_for_the_same_value_is_refused(schema: Any) -> None:
    with pytest.raises(ScenarioError, match="more than 50,000 subschemas"):
        Tool(lambda: None, name="look", parameters=schema)


REFUSED = object()
STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
BOOLEAN, NULL = {"type": "boolean"}, {"type": "null"}


def tool_for(schema: Any, *, required: bool = True) -> Tool:
    whole = {"type": "object", "properties": {"v": schema}, "required": ["v"] * required}
    return Tool(lambda v=None: str(v), name="t", parameters=whole)


def through(schema: Any, value: Any, *, required: bool = True) -> Any:
    """Convert the argument `v`: what the tool gets, or REFUSED."""
    tool = tool_for(schema, required=required)
    made = converted(tool, {"v": value})
    return REFUSED if wrong_arguments(tool, made) else made.get("v", "left out")


TABLE: list[tuple[Any, Any, Any]] = [
    *((STRING, value, value) for value in ("", "3", "null")),
    (STRING, 5, "5"),
    (STRING, 5.0, "5"),
    (STRING, 1.5, "1.5"),
    (STRING, 0, "0"),
    (STRING, True, "true"),
    (STRING, None, ""),
    (STRING, [], REFUSED),
    (STRING, {}, REFUSED),
    (INTEGER, "3", 3),
    (INTEGER, "3.0", 3),
    (INTEGER, " 3 ", 3),
    (INTEGER, "1e3", 1000),
    *((INTEGER, value, REFUSED) for value in (1.5, "3.7", "", "abc", "1_000", "nan", [1])),
    (INTEGER, True, 1),
    (INTEGER, None, 0),
    (NUMBER, "3.7", 3.7),
    (NUMBER, "1e999", REFUSED),
    (NUMBER, False, 0),
    (BOOLEAN, "true", True),
    (BOOLEAN, "false", False),
    (BOOLEAN, 1, True),
    (BOOLEAN, 0, False),
    (BOOLEAN, None, False),
    *((BOOLEAN, value, REFUSED) for value in ("True", "1", "yes", 5, 1.5)),
    (NULL, "", None),
    (NULL, 0, None),
    (NULL, False, None),
    (NULL, "null", REFUSED),
    ({"type": "array", "items": INTEGER}, ["1", "2"], [1, 2]),
    ({"type": "array", "items": INTEGER}, "1", REFUSED),
    ({"type": "object", "properties": {"n": INTEGER}}, {"n": "3"}, {"n": 3}),
    ({"type": "object", "additionalProperties": INTEGER}, {"x": "3"}, {"x": 3}),
    ({"enum": ["a", "b"]}, 1, REFUSED),
    ({"const": 3}, "3", REFUSED),
]


@in_cases(TABLE)
def test_0_87_1_converts_a_value(schema: Any, value: Any, expected: Any) -> None:
    got = through(schema, value)
    assert (type(got), got) == (type(expected), expected)


@pytest.mark.parametrize("schema", [STRING, INTEGER, BOOLEAN])
def test_0_87_1_leaves_an_optional_null_out(schema: Any) -> None:
    assert through(schema, None, required=False) == "left out"


def test_the_arguments_that_were_given_are_not_changed() -> None:
    given = {"v": [{"n": "3"}]}
    kept = copy.deepcopy(given)
    schema = {"type": "array", "items": {"type": "object", "properties": {"n": INTEGER}}}
    assert converted(tool_for(schema), given) == {"v": [{"n": 3}]}
    assert given == kept
