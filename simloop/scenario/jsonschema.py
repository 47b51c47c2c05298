"""The JSON Schema of scenario files, for editors.

The rule to keep: the schema depends on the models alone, so that a test can check the committed
file.
"""

import json
from typing import Any

from simloop.scenario.schema import Scenario


def schema_text() -> str:
    """Return the schema (draft 2020-12) as the text that `simloop schema` prints."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:simloop:scenario",
        **_without_whole_defaults(Scenario.model_json_schema()),
        "title": "simloop scenario",
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _without_whole_defaults(schema: Any) -> Any:
    """Return the schema without defaults that are mappings of settings.

    Each setting has its own default. The mappings use Python names, which the loader refuses.
    """
    if isinstance(schema, list):
        return [_without_whole_defaults(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_whole_defaults(value)
        for key, value in schema.items()
        if not (key == "default" and isinstance(value, dict) and value)
    }
