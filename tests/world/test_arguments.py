"""Arguments converted to the types of a schema, as pi-agent-core 0.87.1 converts them.

Each value of the tables was observed of the real package, for plain JSON Schema.
"""

import copy
from typing import Any

import pytest
from incases import in_cases

from simloop.world.arguments import converted
from simloop.world.tools import Tool, wrong_arguments

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
    ({"type": ["integer", "null"]}, "3", 3),
    ({"type": ["string", "null"]}, 5, "5"),
    ({"anyOf": [INTEGER, BOOLEAN]}, "true", True),
    ({"enum": ["a", "b"]}, 1, REFUSED),
    ({"const": 3}, "3", REFUSED),
]


@in_cases(TABLE)
def test_0_87_1_converts_a_value(schema: Any, value: Any, expected: Any) -> None:
    got = through(schema, value)
    assert (type(got), got) == (type(expected), expected)


def test_0_87_1_leaves_a_value_that_is_valid_for_a_member_of_a_union() -> None:
    assert through({"anyOf": [INTEGER, STRING]}, "3") == "3"


@pytest.mark.parametrize("schema", [STRING, INTEGER, BOOLEAN])
def test_0_87_1_leaves_an_optional_null_out(schema: Any) -> None:
    assert through(schema, None, required=False) == "left out"


def test_the_arguments_that_were_given_are_not_changed() -> None:
    given = {"v": [{"n": "3"}]}
    kept = copy.deepcopy(given)
    schema = {"type": "array", "items": {"type": "object", "properties": {"n": INTEGER}}}
    assert converted(tool_for(schema), given) == {"v": [{"n": 3}]}
    assert given == kept


def test_a_member_of_a_union_that_refers_elsewhere_fits_nothing() -> None:
    whole = {
        "type": "object",
        "properties": {"v": {"anyOf": [{"$ref": "#/$defs/n"}, INTEGER]}},
        "$defs": {"n": NULL},
    }
    tool = Tool(lambda v=None: str(v), name="t", parameters=whole)
    assert converted(tool, {"v": "3"}) == {"v": 3}
