"""`simloop check`, and what it prints."""

import json
from typing import Any

from click.testing import CliRunner, Result

from simloop.cli import main


def check(*arguments: str) -> Result:
    return CliRunner(env={"NO_COLOR": "1"}).invoke(main, ["check", *arguments])


def check_json(*arguments: str) -> list[dict[str, Any]]:
    document = json.loads(check(*arguments, "--format", "json").stdout)
    assert list(document) == ["format_version", "status", "runs"]
    runs: list[dict[str, Any]] = document["runs"]
    return runs
