"""Recordings that other programs have written, of agents that ran in a simulation."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path

_FILE = Path(__file__).parent.parent / "recordings" / "files" / "written.jsonl"


def _data(line: str) -> tuple[str, bytes]:
    row = json.loads(line)
    text = row.get("text")
    return row["name"], base64.b64decode(row["base64"]) if text is None else text.encode()


WRITTEN: Mapping[str, bytes] = dict(map(_data, _FILE.read_text("utf-8").splitlines()))
"""By the writer and what the agent did: a reply, a call, calls at once, a retry, a failure, two
prompts. Each agent has the system prompt `Be brief.` and the tool `weather`."""
