import json
import os
import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest
import yaml
from commandline import Cli

from simloop.cli.scenarios import STARTER
from simloop.scenario.jsonschema import schema_text


@pytest.fixture
def schema(cli: Cli) -> Any:
    return json.loads(cli("schema").stdout)


def test_what_is_printed_is_the_text_that_is_committed(cli: Cli) -> None:
    result = cli("schema")
    assert (result.exit_code, result.stdout, result.stderr) == (0, schema_text(), "")


@pytest.mark.slow
def test_the_schema_is_the_same_for_every_hash_seed() -> None:
    printed = {
        subprocess.run(
            [sys.executable, "-m", "simloop", "schema"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert printed == {schema_text()}


def test_the_schema_accepts_the_starter_scenario(schema: Any) -> None:
    jsonschema_rs.validate(schema, yaml.safe_load(STARTER))


def test_the_schema_refuses_an_unknown_key(schema: Any) -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, yaml.safe_load(f"{STARTER}\nmodell: []\n"))
