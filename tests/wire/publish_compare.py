"""Compares the bundled loops with agents on real SDKs, for the table of docs/compared.md.

python tests/wire/publish_compare.py writes it. It needs the packages of
tests/wire/environments/frameworks.txt.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
PAGE = TOP / "docs" / "compared.md"
MACHINES = ("reference", "pi", "react", "opencode")
AGENTS = {  # package: its agent
    "openai": "openai_chat:agent",
    "pydantic-ai-slim": "with_pydantic_ai:agent",
    "openai-agents": "with_openai_agents:agent",
    "langgraph": "with_langgraph:awaiting",
    "litellm": "with_litellm:agent",
}
SCENARIOS = (
    "retry/rate-limit", "retry/quota", "retry/retry-after-date", "retry/connection-lost",
    "retry/in-the-stream", "streams/call-then-lost", "finish-reasons/interrupted",
    "finish-reasons/content-filter", "finish-reasons/empty-replies", "calls/duplicated-ids",
)  # fmt: skip
PINS = Path(__file__).with_name("environments") / "frameworks.txt"


COMMAND = (
    "compare",
    *SCENARIOS,
    *(flag for loop in (*MACHINES, *AGENTS.values()) for flag in ("--loop", loop)),
    *("--format", "json"),
)
"""The arguments of `simloop` beside the recipes, which print the runs of the table."""


def cell(row: Any) -> str:
    """Return how a run ended, and after how many requests."""
    if row["cannot"]:
        return "-"
    if row["outcome"]:
        return f"{row['outcome']} {row['model_calls']}"
    return "asks again" if row["error"] == "ScriptExhausted" else str(row["error"])


def page_with(printed: str) -> str:
    """Return the page with the table of what the command has printed."""
    # litellm prints advice before the report.
    scenarios = json.loads(printed[printed.index("{\n") :])["scenarios"]
    pinned = dict(line.split("==") for line in PINS.read_text("utf-8").split())
    versions = (f"{package} {pinned[package]}" for package in AGENTS)
    lines = [("scenario", *MACHINES, *versions), ("---",) * (1 + len(MACHINES) + len(AGENTS))]
    lines += [(one["name"], *(cell(row) for row in one["rows"])) for one in scenarios]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return with_block("compared", table)


def with_block(name: str, text: str) -> str:
    """Return the page with a text in the place of the generated block of that name."""
    block = re.compile(rf"(<!-- {name}: [^>]*-->\n).*?(<!-- {name}: end -->)", re.DOTALL)
    page = PAGE.read_text("utf-8")
    made, count = block.subn(lambda found: f"{found[1]}{text}{found[2]}", page)
    assert count == 1
    return made


if __name__ == "__main__":
    folder = Path(__file__).with_name("recipes")
    paths = os.pathsep.join((str(folder), str(TOP)))
    command = [sys.executable, "-m", "simloop", *COMMAND]
    done = subprocess.run(
        command, check=False, cwd=folder, env={**os.environ, "PYTHONPATH": paths},
        capture_output=True, text=True,
    )  # fmt: skip
    PAGE.write_text(page_with(done.stdout), "utf-8")
