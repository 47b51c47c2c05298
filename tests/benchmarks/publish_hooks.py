"""Measures usual hooks, and writes the example of docs/hooks.md.

python tests/benchmarks/publish_hooks.py
"""

import re
from pathlib import Path

from click.testing import CliRunner

from simloop.cli import main

FOLDER = Path(__file__).resolve().parents[2] / "docs"
_BLOCK = re.compile(r"(<!-- costs: [^>]*-->\n).*?(<!-- costs: end -->)", re.DOTALL)


def publish() -> None:
    arguments = ("bench", "hooks", "usual_hooks:usual_hooks")
    printed = CliRunner(env={"NO_COLOR": "1"}).invoke(main, arguments, catch_exceptions=False)
    first, *blocks, method = printed.stdout.rstrip().split("\n\n")
    wanted = ("nothing at before_tool_call", "replaces_arguments")
    shown = [block for block in blocks if block.startswith(wanted)]
    page, command = FOLDER / "hooks.md", "$ simloop bench hooks usual_hooks:usual_hooks"
    example = "\n\n".join([f"{command}\n{first}", "...", *shown, "...", method])
    text, count = _BLOCK.subn(
        lambda block: f"{block[1]}```console\n{example}\n```\n{block[2]}", page.read_text("utf-8")
    )
    assert count == 1
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    publish()
