"""The JSON Schema of scenario files, for editors.

The rule to keep: a function of the models alone, so that the committed file can be checked.
"""

import json

from simloop.scenario.schema import Scenario


def schema_text() -> str:
    """The schema (draft 2020-12) as the text that `simloop schema` prints."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:simloop:scenario",
        **Scenario.model_json_schema(),
        "title": "simloop scenario",
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
