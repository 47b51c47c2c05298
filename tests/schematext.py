"""The text of scenarios/schema.json, the JSON Schema of scenario files for editors.

The description of a key is the docstring of its field. It is read here and not by pydantic, which
would read the source of each class at each start of simloop.
"""

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from itertools import pairwise

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from simloop.kernel.checks import written_name
from simloop.scenario.schema import Scenario


def generated_schema() -> str:
    """The schema (draft 2020-12)."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:simloop:scenario",
        **Scenario.model_json_schema(schema_generator=_WithDocstrings),
        "title": "simloop scenario",
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


class _WithDocstrings(GenerateJsonSchema):
    """The generator of pydantic, with the docstrings of the fields as descriptions."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return _described(super().dataclass_schema(schema), schema["cls"])

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        return _described(super().model_schema(schema), schema["cls"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Return the schema without a default that is a mapping of settings.

        Each setting has its own default. The mapping has Python names, which the loader refuses.
        """
        written = super().default_schema(schema)
        if isinstance(written.get("default"), dict) and written["default"]:
            del written["default"]
        return written


def _described(schema: JsonSchemaValue, cls: type) -> JsonSchemaValue:
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("simloop."):
            for name, docstring in _docstrings(base):
                schema["properties"][written_name(name)]["description"] = docstring
    return schema


def _docstrings(cls: type) -> Iterator[tuple[str, str]]:
    module = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    assert isinstance(module.body[0], ast.ClassDef)
    for field, docstring in pairwise(module.body[0].body):
        match field, docstring:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ):
                yield name, " ".join(text.split())
