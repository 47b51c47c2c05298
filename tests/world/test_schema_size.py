"""A schema whose references make it too large is refused, by counting alone."""

import json
from typing import Any

import pytest
from work import lines_run

from simloop import ScenarioError, Tool, parse_scenario
from simloop.world.tools import resolved_size

STRING = {"type": "string"}
AGAIN = {"$ref": "#"}


def chain(length: int, keyword: str = "anyOf") -> dict[str, Any]:
    """A schema in which each level names the next one twice."""
    levels = {str(n): {keyword: [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(length)}
    return {"$defs": {**levels, str(length): STRING}, "$ref": "#/$defs/0"}


TREE = {"properties": {"left": {"anyOf": [AGAIN, STRING]}, "right": {"anyOf": [AGAIN, STRING]}}}


@pytest.mark.parametrize(
    ("schema", "size"),
    [
        (True, 1),
        ({}, 1),
        ({"anyOf": [STRING, STRING]}, 3),
        ({"not": STRING, "if": STRING, "then": STRING, "else": STRING}, 5),
        ({"dependentSchemas": {"a": STRING, "b": STRING}}, 3),
        ({"dependencies": {"a": STRING, "b": ["a"]}}, 2),
        ({"$ref": "#/$defs/a~1b%20c", "$defs": {"a/b c": STRING}}, 2),
        ({"enum": [{"anyOf": [STRING] * 9}, {"$ref": "#/enum/1"}]}, 1),
        ({"properties": {"enum": {"not": STRING}, "b": STRING}}, 2),
        ({"properties": {"not": {"$ref": "#"}}}, 2),
        (TREE, 4),
        (chain(3), 30),
    ],
)
def test_a_reference_counts_as_what_it_names(schema: Any, size: int) -> None:
    assert resolved_size(schema) == size


@pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf"])
def test_a_schema_that_doubles_at_each_level_is_refused_before_it_is_compiled(keyword: str) -> None:
    with pytest.raises(ScenarioError, match="more than 50,000 subschemas") as caught:
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
    assert "it has more than 50,000 subschemas" in str(caught.value)


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


@pytest.mark.parametrize("keyword", ["anyOf", "properties"])
def test_counting_takes_work_that_is_linear_in_the_schema(keyword: str) -> None:
    def work_of(length: int) -> int:
        schema = chain(length)
        if keyword == "properties":
            schema = {"properties": {str(n): {"anyOf": [STRING, STRING]} for n in range(length)}}
        return lines_run(lambda: resolved_size(schema))

    assert work_of(200) < 2.6 * work_of(100)
