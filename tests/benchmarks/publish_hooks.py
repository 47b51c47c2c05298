"""Measures hooks, and writes the table and the plot of simloop/bench/README.md.

python tests/benchmarks/publish_hooks.py
"""

import re
from pathlib import Path

from click.testing import CliRunner

from simloop.cli import main

FOLDER = Path(__file__).resolve().parents[2] / "simloop" / "bench"
_BLOCK = re.compile(r"(<!-- costs: [^>]*-->\n).*?(<!-- costs: end -->)", re.DOTALL)


def publish() -> None:
    arguments = ("bench", "hooks", "--plot", str(FOLDER / "hooks.svg"))
    printed = CliRunner(env={"NO_COLOR": "1"}).invoke(main, arguments, catch_exceptions=False)
    tables = printed.stdout.partition("\n\nmin, median, p95:")[0]
    page = FOLDER / "README.md"
    text, count = _BLOCK.subn(
        lambda block: f"{block[1]}```\n{tables}\n```\n{block[2]}", page.read_text("utf-8")
    )
    assert count == 1
    page.write_text(text, "utf-8")


if __name__ == "__main__":
    publish()
