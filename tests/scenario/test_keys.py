"""The keys of a scenario file: one spelling for every reader of YAML, and defaults that load."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from simloop.errors import ScenarioError
from simloop.scenario.catalog import bundled_folder
from simloop.scenario.jsonschema import schema_text
from simloop.scenario.loader import parse_scenario
from simloop.scenario.yaml import read_yaml_file

BUNDLED = sorted(bundled_folder().rglob("*.simloop.yaml"))
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


def test_a_yaml_1_1_reader_finds_the_same_keys_in_every_bundled_file() -> None:
    assert keys_of(yaml.safe_load("{a: [{on: b}]}")) == [("a", [[(True, None)]])]  # it can fail
    read = {path: yaml.safe_load(path.read_text("utf-8")) for path in BUNDLED}
    differing = [path for path in BUNDLED if keys_of(read[path]) != keys_of(document_of(path))]
    assert differing == []


def document_of(path: Path) -> Any:
    return read_yaml_file(path).data


@pytest.mark.parametrize("trigger", ["abort: {on: finish}", "queue: [{on: finish, say: x}]"])
def test_the_word_that_yaml_1_1_misreads_is_no_key_and_the_keys_are_named(trigger: str) -> None:
    with pytest.raises(ScenarioError, match=r"on: unknown key \(known here: at, after, nth"):
        parse_scenario(f"prompt: x\nmodel: [{{say: y}}]\n{trigger}")

