"""The JSON Schema of scenario files, for editors."""

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from simloop.kernel.checks import written_name
from simloop.scenario.schema import Scenario


@cache
def schema_text() -> str:
    """Return the schema (draft 2020-12) as the text that `simloop schema` prints."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:simloop:scenario",
        **Scenario.model_json_schema(schema_generator=_WithDocstrings),
        "title": "simloop scenario",
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


class _WithDocstrings(GenerateJsonSchema):
    """The generator of pydantic, with the docstrings of the settings as descriptions."""

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        """Return the schema of a dataclass, which is what all settings are."""
        described = super().dataclass_schema(schema)
        for name, docstring in _docstrings(schema["cls"]):
            described["properties"][written_name(name)]["description"] = docstring
        return described

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Return the schema without a default that is a mapping of settings.

        Each setting has its own default. The mapping has Python names, which the loader refuses.
        """
        written = super().default_schema(schema)
        if isinstance(written.get("default"), dict) and written["default"]:
            del written["default"]
        return written


def _docstrings(settings: type) -> Iterator[tuple[str, str]]:
    module = ast.parse(textwrap.dedent(inspect.getsource(settings)))
    assert isinstance(module.body[0], ast.ClassDef)
    for field, docstring in pairwise(module.body[0].body):
        match field, docstring:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str() as text)),
            ):
                yield name, inspect.cleandoc(text)
