"""The work of a check against a JSON Schema is bounded before it is done, and by counting alone."""

import json
from typing import Any

import pytest
from work import lines_run

from simloop import Scenario, ScenarioError, Tool, parse_scenario, run
from simloop.world.schema_work import MOST_WORK, SchemaWork
from simloop.world.tools import wrong_arguments

STRING = {"type": "string"}
AGAIN = {"$ref": "#"}


def chain(length: int, keyword: str = "anyOf") -> dict[str, Any]:
    """A schema in which each level names the next one twice."""
    levels = {str(n): {keyword: [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(length)}
    return {"$defs": {**levels, str(length): STRING}, "$ref": "#/$defs/0"}


def nested(depth: int, key: str = "a") -> Any:
    value: Any = 5
    for _ in range(depth):
        value = {key: value}
    return value


JSON_VALUE = {"anyOf": [STRING, {"additionalProperties": AGAIN}, {"type": "array", "items": AGAIN}]}
TREE = {"properties": {"left": {"anyOf": [AGAIN, STRING]}, "right": {"anyOf": [AGAIN, STRING]}}}
ENDLESS = {"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}}
TWICE = {"anyOf": [{"properties": {"a": AGAIN}, "type": "object"}] * 2}


@pytest.mark.parametrize(
    ("schema", "arguments", "work"),
    [
        (True, {}, 1),
        ({}, {}, 1),
        (STRING, "x", 1),
        ({"anyOf": [STRING, STRING]}, "x", 3),
        ({"not": STRING, "if": STRING, "then": STRING, "else": STRING}, "x", 5),
        ({"dependentSchemas": {"a": STRING, "b": STRING}}, {}, 3),
        ({"dependencies": {"a": STRING, "b": ["a"]}}, {}, 2),
        ({"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": STRING}}, "x", 2),
        ({"$ref": "#here", "$defs": {"a": {"$anchor": "here", "not": STRING}}}, "x", 3),
        ({"$ref": "urn:x", "$defs": {"a": {"$id": "urn:x", "not": STRING}}}, "x", 3),
        ({"enum": [{"anyOf": [STRING] * 9}, {"$ref": "#/enum/1"}]}, "x", 1),
        ({"properties": {"a": STRING, "b": STRING}}, {"a": "x"}, 1 + 2),
        ({"items": STRING}, ["x"] * 7, 1 + 7),
        (chain(3), "x", 30),
    ],
)
def test_the_work_is_the_evaluations_of_subschemas(schema: Any, arguments: Any, work: int) -> None:
    assert SchemaWork(schema).of(arguments) == work


@pytest.mark.parametrize(("schema", "key"), [(JSON_VALUE, "a"), (TREE, "left")])
def test_a_recursive_schema_for_which_each_value_counts_once_takes_linear_work(
    schema: Any, key: str
) -> None:
    work = SchemaWork(schema)
    assert work.of(nested(40, key)) < 2.5 * work.of(nested(20, key))


def test_a_schema_that_is_tried_twice_at_each_level_takes_exponential_work() -> None:
    assert SchemaWork(TWICE).of(nested(5)) < 500
    assert SchemaWork(TWICE).of(nested(30)) > MOST_WORK


@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf"])
def test_a_schema_that_doubles_at_each_level_is_refused_before_it_is_compiled(keyword: str) -> None:
    with pytest.raises(ScenarioError, match="one check takes more than 50,000") as caught:
        Tool(lambda: None, name="look", parameters=chain(300, keyword))
    assert caught.value.key == "tools.look.parameters"


def test_patterns_that_are_large_together_are_refused_and_small_ones_are_compiled() -> None:
    def tool(pattern: str, count: int) -> Tool:
        patterns: dict[str, Any] = {f"{pattern}{number}": {} for number in range(count)}
        return Tool(lambda: None, name="look", parameters={"patternProperties": patterns})

    tool(".{1500}", 1)
    tool(r"^\w+$", 50)
    with pytest.raises(ScenarioError, match="or the 40 patterns are too large together") as caught:
        tool(".{1500}", 40)
    assert caught.value.key == "tools.look.parameters"


def test_a_file_with_such_a_schema_is_refused_with_its_place() -> None:
    text = f"prompt: x\ntools:\n  look: {{json_schema: {json.dumps(chain(22))}}}\n"
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "a.yaml")
    assert str(caught.value).startswith("a.yaml:3:10: tools.look.json_schema: ")
    assert "one check takes more than 50,000 evaluations of subschemas" in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        AGAIN,
        {"allOf": [AGAIN]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}},
    ],
)
def test_a_schema_that_refers_to_itself_for_the_same_value_is_refused(schema: Any) -> None:
    with pytest.raises(ScenarioError, match="refers to itself for the same value"):
        Tool(lambda: None, name="look", parameters=schema)


def test_arguments_that_are_nested_too_deep_for_their_schema_are_refused_by_its_key() -> None:
    tool = Tool(lambda: None, name="look", parameters=TWICE)
    assert wrong_arguments(tool, nested(3)) != []
    with pytest.raises(ScenarioError, match="takes more than 50,000 evaluations") as caught:
        wrong_arguments(tool, nested(30))
    assert caught.value.key == "tools.look.parameters"


def test_a_run_with_such_arguments_ends_with_that_error() -> None:
    scenario = Scenario.model_validate(
        {
            "prompt": "x",
            "tools": {"look": {"json_schema": TWICE}},
            "model": [{"call": {"look": nested(30)}}],
        }
    )
    with pytest.raises(ScenarioError, match=r"tools\.look\.parameters"):
        run(scenario)


@pytest.mark.parametrize("keyword", ["anyOf", "properties"])
def test_counting_takes_work_that_is_linear_in_the_schema(keyword: str) -> None:
    def work_of(length: int) -> int:
        schema = chain(length)
        if keyword == "properties":
            schema = {"properties": {str(n): {"anyOf": [STRING, STRING]} for n in range(length)}}
        return lines_run(lambda: SchemaWork(schema).of({"a": {"b": 5}}))

    assert work_of(400) < 2.6 * work_of(200)
