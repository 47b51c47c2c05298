"""The keys of a scenario file: one spelling for every reader of YAML, and defaults that load."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from incases import in_cases

from simloop.errors import ScenarioError
from simloop.scenario.catalog import schema_text
from simloop.scenario.designs import DESIGNS
from simloop.scenario.loader import parse_scenario
from simloop.scenario.schema import Scenario

SCHEMA = json.loads(schema_text())
BOOLEANS_OF_YAML_1_1 = {"on", "off", "yes", "no", "y", "n", "true", "false"}


def keys_of(value: object) -> object:
    """The keys of a document, at every depth, without its values."""
    if isinstance(value, dict):
        return [(key, keys_of(inner)) for key, inner in value.items()]
    return [keys_of(each) for each in value] if isinstance(value, list) else None


def properties(schema: Any) -> Iterator[tuple[str, Any]]:
    """Every key that the schema knows, with its own schema."""
    if isinstance(schema, dict):
        named = schema.get("properties")
        yield from named.items() if isinstance(named, dict) else ()
    for inner in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(inner, dict | list):
            yield from properties(inner)


def test_no_key_is_a_word_that_yaml_1_1_reads_as_a_boolean() -> None:
    names = {name for name, _ in properties(SCHEMA)}
    assert {"after", "prompt", "nth"} <= names
    assert not names & BOOLEANS_OF_YAML_1_1


def test_no_key_has_a_unit_in_its_name_because_every_duration_is_a_text_with_one() -> None:
    units = ("_ms", "_s", "_ns", "_seconds", "_minutes")
    assert [name for name, _ in properties(SCHEMA) if name.endswith(units)] == []
    shown = {name for name, schema in properties(SCHEMA) if "120ms" in str(schema)}
    assert {"max_wall_clock", "timeout", "initial_delay", "first_delay", "takes"} <= shown


@pytest.mark.parametrize("trigger", ["abort: {on: finish}", "queue: [{on: finish, say: x}]"])
def test_the_word_that_yaml_1_1_misreads_is_no_key_and_the_keys_are_named(trigger: str) -> None:
    with pytest.raises(ScenarioError, match=r"on: unknown key \(known here: at, after, nth"):
        parse_scenario(f"prompt: x\nmodel: [{{say: y}}]\n{trigger}")


PARTY = {"models": {"a": {"when": {"role": "user"}}}}
ROUTE = ("services", "https://a.example", 0)
WHERE: dict[str, tuple[dict[str, Any], tuple[str | int, ...]]] = {
    "": ({"prompt": "x"}, ()),
    "ChanceFaults": ({"faults": {}}, ("faults",)),
    "ClockSkew": ({"clock": {}}, ("clock",)),
    "Compaction": ({"compaction": {}}, ("compaction",)),
    "CountBounds": ({"expect": {"requests": {"min": 0}}}, ("expect", "requests")),
    "Declared": ({"declares": {}}, ("declares",)),
    "ExpectedCounters": ({"expect": {"counters": {}}}, ("expect", "counters")),
    "Expect": ({"expect": {}}, ("expect",)),
    "ExponentialBackoff": ({"retry": {}}, ("retry",)),
    "HookExecution": ({"hook_execution": {}}, ("hook_execution",)),
    "HookIsolation": ({"hook_isolation": {}}, ("hook_isolation",)),
    "Http": ({"model": [{"http": {"status": 429}}]}, ("model", 0, "http")),
    "Line": ({"input": [{"say": "x"}]}, ("input", 0)),
    "Limits": ({"limits": {}}, ("limits",)),
    "OpencodeOptions": ({"loops": {"opencode": {}}}, ("loops", "opencode")),
    "Pace": ({"model": [{"say": "x", "pace": {}}]}, ("model", 0, "pace")),
    "PartyCondition": (PARTY, ("models", "a", "when")),
    "PastMessage": ({"history": [{"user": "x"}]}, ("history", 0)),
    "PiOptions": ({"loops": {"pi": {}}}, ("loops", "pi")),
    "Program": ({"programs": {"git": {}}}, ("programs", "git")),
    "ProgramPiece": ({"programs": {"git": {"pieces": [{}]}}}, ("programs", "git", "pieces", 0)),
    "Queued": ({"queue": [{"say": "x", "at": "1s"}]}, ("queue", 0)),
    "ReactOptions": ({"loops": {"react": {}}}, ("loops", "react")),
    "ReferenceOptions": ({"loops": {"reference": {}}}, ("loops", "reference")),
    "Reply": ({"model": [{"say": "x"}]}, ("model", 0)),
    "Route": ({"services": {"https://a.example": [{"get": "/"}]}}, ROUTE),
    "ScriptedHook": ({"hooks": [{"at": "before_llm_call"}]}, ("hooks", 0)),
    "ScriptedTool": ({"tools": {"t": {}}}, ("tools", "t")),
    "Span": ({"expect": {"elapsed": {"min": "0s"}}}, ("expect", "elapsed")),
    "StreamFault": ({"model": [{"error": {"message": "x"}}]}, ("model", 0, "error")),
    "Then": ({"then": [{"say": "x"}]}, ("then", 0)),
    "TokenUsage": ({"model": [{"say": "x", "usage": {}}]}, ("model", 0, "usage")),
    "ToolExecution": ({"tool_execution": {}}, ("tool_execution",)),
    "Trigger": ({"abort": {"at": "1s"}}, ("abort",)),
    "WhenAsked": (
        {"services": {"https://a.example": [{"get": "/", "when": {}}]}},
        (*ROUTE, "when"),
    ),
    "ToolAnswer": ({"tools": {"t": {"answers": [{}]}}}, ("tools", "t", "answers", 0)),
    "SentRequest": ({"expect": {"sent": [{}]}}, ("expect", "sent", 0)),
    "When": ({"model": [{"say": "x", "when": {}}]}, ("model", 0, "when")),
    "WireOptions": ({"wire": {}}, ("wire",)),
}
"""For each part of the schema that has defaults: a small document with it, and its place there."""
PARTS = {"": SCHEMA, **SCHEMA["$defs"]}
DEFAULTS = [
    (name, key, schema["default"])
    for name in WHERE
    for key, schema in PARTS[name]["properties"].items()
    if "default" in schema
]
VALIDATOR = jsonschema_rs.validator_for(SCHEMA)


def test_the_parts_with_defaults_are_those_that_are_tried_here() -> None:
    with_defaults = {
        name
        for name, part in PARTS.items()
        if any("default" in each for each in part.get("properties", {}).values())
    }
    assert with_defaults == set(WHERE)


@in_cases(DEFAULTS)
def test_a_default_that_an_editor_inserts_is_valid_and_changes_nothing(
    name: str, key: str, default: Any
) -> None:
    example, place = WHERE[name]
    document = json.loads(json.dumps({"prompt": "x", **example}))
    without = parse_scenario(json.dumps(document))
    part = document
    for step in place:
        part = part[step]
    part.setdefault(key, default)
    assert list(VALIDATOR.iter_errors(document)) == []
    completed = parse_scenario(json.dumps(document))
    assert meaning(completed) == meaning(without)


def meaning(scenario: Scenario) -> dict[str, Any]:
    """What a file says, with the options that each design gets."""
    loops = {name: scenario.loops.of_design(name) for name in DESIGNS}
    return {**scenario.model_dump(mode="json"), "loops": loops}
