"""`simloop explore`, and the limits under which it is quick."""

import json
from typing import Any

from click.testing import CliRunner, Result

from simloop.cli import main

SMALL = ("--max-steps", "2", "--max-errors", "2", "--max-compactions", "1")


def explore(*arguments: str) -> Result:
    return CliRunner(env={"NO_COLOR": "1"}).invoke(main, ["explore", *arguments])


def explore_json(*arguments: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(explore(*arguments, "--format", "json").stdout)
    return document
