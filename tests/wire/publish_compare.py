"""Compares the bundled loops with agents on real SDKs, and writes the table of docs/compared.md.

python tests/wire/publish_compare.py [--check]

It needs the packages of tests/wire/environments/frameworks.txt. `--check` writes nothing, and
fails if the table would be another one.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
RECIPES = Path(__file__).with_name("recipes")
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
_BLOCK = re.compile(r"(<!-- compared: [^>]*-->\n).*?(<!-- compared: end -->)", re.DOTALL)


def compared() -> list[Any]:
    """Return the scenarios with a row for each loop, as `simloop compare` prints them."""
    loops = [flag for loop in (*MACHINES, *AGENTS.values()) for flag in ("--loop", loop)]
    # A process of its own: the folders of pytest would hide the package of openai-agents.
    paths = os.pathsep.join((str(RECIPES), str(TOP)))
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-m", "simloop", "compare", *SCENARIOS, *loops, "--format", "json"]
    done = subprocess.run(
        command, check=False, cwd=RECIPES, env=environment, capture_output=True, text=True
    )
    if "{\n" not in done.stdout:
        raise SystemExit(done.stderr)
    # litellm prints advice before the report.
    found: list[Any] = json.loads(done.stdout[done.stdout.index("{\n") :])["scenarios"]
    return found


def cell(row: Any) -> str:
    """Return how a run ended, and after how many requests."""
    if row["cannot"]:
        return "-"
    if row["outcome"]:
        return f"{row['outcome']} {row['model_calls']}"
    return "asks again" if row["error"] == "ScriptExhausted" else str(row["error"])


def table() -> str:
    """Return the table in Markdown."""
    versions = (f"{package} {version(package)}" for package in AGENTS)
    lines = [("scenario", *MACHINES, *versions), ("---",) * (1 + len(MACHINES) + len(AGENTS))]
    lines += [
        (scenario["name"], *(cell(row) for row in scenario["rows"])) for scenario in compared()
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def publish(*, check: bool) -> None:
    """Write the table, or exit with the difference if it is not the one of the page."""
    text = PAGE.read_text("utf-8")
    made, count = _BLOCK.subn(lambda block: f"{block[1]}{table()}{block[2]}", text)
    if count != 1:
        raise SystemExit("the page has no place for the table")
    if check and made != text:
        raise SystemExit(f"the table is now:\n{made}")
    if not check:
        PAGE.write_text(made, "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    publish(check=parser.parse_args().check)
